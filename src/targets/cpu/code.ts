/**
 * Defines Code: the structured, typed intermediate language of a CPU kernel, between tile IR and wasm bytes or C++
 * text. Functions of Code consist of statements over expressions, with local variables instead of a stack, and vectors
 * with a fixed number of lanes. The targets wasm and native render the same Code, so a kernel has the same meaning on
 * both. Differences between machines are described by `Machine`, which the lowering reads.
 *
 * Expressions of Code have no side effects and do not read memory (`load` is a statement that sets a local), so a
 * renderer may evaluate them in any order. Integer arithmetic in Code wraps around. Booleans in Code are i32 0 or 1. A
 * vector comparison yields lanes of 0 or -1. No expression of Code traps: `div` and `rem` by zero return 0 (the
 * lowering tests the divisor first), and the smallest integer divided by -1 wraps.
 */

/**
 * The type `ptr` is an address in the world's memory: 32 bits on wasm, 64 bits on native. The types `vf32` and `vi32`
 * are vectors.
 */
export type CodeType = 'i32' | 'i64' | 'f32' | 'f64' | 'ptr' | 'vf32' | 'vi32'

/** The machine for which Code is generated. */
export interface Machine {
  /** The name of the target, for the reader of generated code. */
  readonly name: string
  /** The number of f32 lanes of a vector: 4, 8 or 16. */
  readonly lanes: number
  /** The size of the microkernel of a matrix product: rows, and columns counted in vectors. */
  readonly rows: number
  readonly columns: number
  /**
   * True if the machine has a prefetch instruction, which fetches a cache line, and a compiler that schedules unrolled
   * steps well. On a machine with prefetch, a microkernel executes the steps of one cache line at a time.
   */
  readonly prefetches: boolean
  /** The cache sizes of one core, in bytes. The blocks of a matrix product are sized to fit the caches of one core. */
  readonly l1: number
  readonly l2: number
}

export interface Local {
  readonly type: CodeType
  /** A name for readers of the generated code. Names in the generated code need not be unique. */
  readonly name: string
}

/**
 * The operations `min` and `max` on f32, f64 and vf32 order -0 below 0 and return the other operand for a NaN. The
 * operation `nearest` rounds ties to even.
 */
export type UnaryName = 'neg' | 'abs' | 'sqrt' | 'floor' | 'nearest' | 'not' | 'eqz'
export type BinaryName =
  | 'add'
  | 'sub'
  | 'mul'
  | 'div'
  | 'min'
  | 'max'
  | 'and'
  | 'or'
  | 'xor'
  | 'shl'
  | 'shr'
  | 'shrU'
  | 'divU'
  | 'rem'
  | 'remU'
  | 'minU'
  | 'maxU'
  /** The upper 32 bits of the product of two unsigned i32 or vi32. */
  | 'mulHighU'
export type CompareName = 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge' | 'ltU' | 'leU' | 'gtU' | 'geU'
export type ConvertName =
  /** Reinterprets the bits of a value as another type: i32 and f32, vi32 and vf32, i64 and f64. */
  | 'bits'
  /**
   * Conversions between integers: i32 to i64 with sign or zero extension. A conversion of i64 to i32 drops the upper
   * half.
   */
  | 'extend'
  | 'extendU'
  | 'wrap'
  /** Conversions from integer to float, rounding to nearest: i32 or i64 to f32 or f64, vi32 to vf32. */
  | 'float'
  | 'floatU'
  /**
   * Conversions from float to integer, rounding towards zero and saturating, NaN to 0: f32 or f64 to i32 or i64, vf32
   * to vi32.
   */
  | 'truncate'
  | 'truncateU'
  /** Conversions between floats: f32 to f64, and f64 to f32 with rounding to nearest. */
  | 'promote'
  | 'demote'

export type Expression =
  | { readonly kind: 'local'; readonly type: CodeType; readonly local: Local }
  /** An i64 constant must be a safe integer. A constant of a vector type fills every lane. */
  | { readonly kind: 'const'; readonly type: Exclude<CodeType, 'ptr'>; readonly value: number }
  /** The vector of lane numbers 0, 1, 2, … */
  | { readonly kind: 'lanes'; readonly type: 'vi32' }
  | { readonly kind: 'unary'; readonly type: CodeType; readonly name: UnaryName; readonly a: Expression }
  /**
   * Both operands of an arithmetic operation have the type of its result. The vector type vf32 supports add, sub, mul,
   * div, min and max. The vector type vi32 supports add, sub, mul, mulHighU, min, max, minU, maxU, and, or, xor and
   * shifts. A vector shift takes one i32 amount for all lanes. The amount of a shift is below 32 (64 for i64).
   */
  | {
      readonly kind: 'binary'
      readonly type: CodeType
      readonly name: BinaryName
      readonly a: Expression
      readonly b: Expression
    }
  /**
   * Compares two values of one type. The result of a comparison is i32 for scalars and vi32 for vectors. Pointers can
   * be compared with eq and ne.
   */
  | {
      readonly kind: 'compare'
      readonly type: 'i32' | 'vi32'
      readonly name: CompareName
      readonly a: Expression
      readonly b: Expression
    }
  /**
   * The expression a * b + c on f32 or vf32, rounded once or twice, whichever is faster on the machine. Only matrix
   * products use the expression a * b + c.
   */
  | {
      readonly kind: 'fma'
      readonly type: 'f32' | 'vf32'
      readonly a: Expression
      readonly b: Expression
      readonly c: Expression
    }
  /**
   * `condition` is an i32 for scalars and a vi32 with lanes of 0 or -1 for vectors. A `select` evaluates both choices
   * before the selection.
   */
  | {
      readonly kind: 'select'
      readonly type: CodeType
      readonly condition: Expression
      readonly a: Expression
      readonly b: Expression
    }
  | { readonly kind: 'convert'; readonly type: CodeType; readonly name: ConvertName; readonly a: Expression }
  /** A vector with the same scalar in every lane. */
  | { readonly kind: 'splat'; readonly type: 'vf32' | 'vi32'; readonly a: Expression }
  /** One lane of a vector, as a scalar. */
  | { readonly kind: 'extract'; readonly type: 'f32' | 'i32'; readonly a: Expression; readonly lane: number }
  /**
   * Interleaves the lanes of two vectors, starting with `a`. The field `half` selects the first or the second halves of
   * the vectors.
   */
  | {
      readonly kind: 'zip'
      readonly type: 'vf32' | 'vi32'
      readonly a: Expression
      readonly b: Expression
      readonly half: 'first' | 'second'
    }
  /** The address base + index * scale + offset. The index is a signed i32 and is widened before the multiplication. */
  | {
      readonly kind: 'address'
      readonly type: 'ptr'
      readonly base: Expression
      readonly index?: Expression
      readonly scale: number
      readonly offset: number
    }
  /**
   * The address base + index * stride. The stride in bytes is known only at launch: it is a `ptr`-sized number.
   */
  | {
      readonly kind: 'step'
      readonly type: 'ptr'
      readonly base: Expression
      readonly index: Expression
      readonly stride: Expression
    }
  /** The product of an i32 and `scale`, as a ptr-sized number of bytes. */
  | { readonly kind: 'stride'; readonly type: 'ptr'; readonly a: Expression; readonly scale: number }
  /** The time in nanoseconds of a monotonic clock that all workers share, as an f64. */
  | { readonly kind: 'now'; readonly type: 'f64' }

/**
 * The width of a value in memory, and its conversion by a load: u8, i8 and u16 become i32, and the others keep their
 * type.
 */
export type MemoryKind = 'u8' | 'i8' | 'u16' | 'i32' | 'i64' | 'f32'
/** Atomic operations act on aligned words of 4 or 8 bytes. */
export type AtomicName = 'add' | 'sub' | 'and' | 'or' | 'xor' | 'exchange'
export type MemoryOrder = 'relaxed' | 'acquire' | 'release' | 'acqRel' | 'seqCst'

export type Statement =
  | { readonly kind: 'set'; readonly local: Local; readonly value: Expression }
  /**
   * Loads memory into a local variable. A scalar load reads `memory`'s width and widens it to the local's type (i32 for
   * u8, i8 and u16). A vector load reads `lanes` consecutive elements and widens them to vi32, or to vf32 for f32.
   * Addresses of loads need no alignment.
   */
  | {
      readonly kind: 'load'
      readonly local: Local
      readonly memory: MemoryKind
      readonly from: Expression
      readonly offset: number
    }
  /** Loads one f32 or i32 from memory into every lane of a vector. */
  | { readonly kind: 'loadSplat'; readonly local: Local; readonly from: Expression; readonly offset: number }
  /** Loads a pointer that the host stored as a 64-bit offset into the world's memory. */
  | {
      readonly kind: 'loadPointer'
      readonly local: Local
      readonly from: Expression
      readonly offset: number
    }
  /**
   * Stores as many low bits of the value as the memory type `memory` has. A vector store writes the lanes to
   * consecutive elements.
   */
  | {
      readonly kind: 'store'
      readonly memory: MemoryKind
      readonly to: Expression
      readonly offset: number
      readonly value: Expression
    }
  /**
   * Copies bytes between regions that do not overlap, or writes zero bytes. The number of bytes, `bytes`, is an i32.
   */
  | {
      readonly kind: 'copyBytes'
      readonly to: Expression
      readonly from: Expression
      readonly bytes: Expression
    }
  | { readonly kind: 'zeroBytes'; readonly to: Expression; readonly bytes: Expression }
  | {
      readonly kind: 'atomicLoad'
      readonly local: Local
      readonly from: Expression
      readonly order: MemoryOrder
    }
  | {
      readonly kind: 'atomicStore'
      readonly to: Expression
      readonly value: Expression
      readonly order: MemoryOrder
    }
  /** If `local` is present, this local variable receives the value that the word had before the atomic operation. */
  | {
      readonly kind: 'atomic'
      readonly name: AtomicName
      readonly local?: Local
      readonly at: Expression
      readonly value: Expression
      readonly order: MemoryOrder
    }
  | {
      readonly kind: 'compareExchange'
      readonly local: Local
      readonly at: Expression
      readonly expected: Expression
      readonly desired: Expression
      readonly order: MemoryOrder
    }
  | { readonly kind: 'fence'; readonly order: MemoryOrder }
  /** Tells the processor core that the surrounding loop polls, as the instruction `pause` of x86 does. */
  | { readonly kind: 'pause' }
  /**
   * Prefetches the cache line at this address. The prefetch has no effect on machines without a prefetch instruction.
   */
  | {
      readonly kind: 'prefetch'
      readonly at: Expression
      readonly offset: number
      readonly to: 'read' | 'write'
    }
  /**
   * Sleeps while the word holds `expected`, for at most `nanoseconds` (an f64). A sleeping thread may also wake up
   * spuriously.
   */
  | {
      readonly kind: 'sleep'
      readonly at: Expression
      readonly expected: Expression
      readonly nanoseconds: Expression
    }
  /** Wakes all threads that sleep on the word. */
  | { readonly kind: 'wake'; readonly at: Expression }
  | {
      readonly kind: 'if'
      readonly condition: Expression
      readonly then: readonly Statement[]
      readonly otherwise: readonly Statement[]
    }
  /**
   * A loop that counts `index` from `from` up to `to`, exclusive, by `step`, a positive constant. The bound `to` of a
   * loop is evaluated once.
   */
  | {
      readonly kind: 'for'
      readonly index: Local
      readonly from: Expression
      readonly to: Expression
      readonly step: number
      readonly body: readonly Statement[]
    }
  /** An infinite loop, which has no condition. Only `break` and `return` leave an infinite loop. */
  | { readonly kind: 'loop'; readonly body: readonly Statement[] }
  /** Leaves the innermost `loop` or `for`. */
  | { readonly kind: 'break' }
  /**
   * Returns from the function with an optional result. The field `value` is present if the function that returns has a
   * result.
   */
  | { readonly kind: 'return'; readonly value?: Expression }
  | {
      readonly kind: 'call'
      readonly function: CodeFunction
      readonly arguments: readonly Expression[]
      readonly local?: Local
    }

export interface CodeFunction {
  readonly name: string
  readonly parameters: readonly Local[]
  readonly result?: CodeType
  readonly body: readonly Statement[]
  /** Marks a function that must not be inlined, so that a WebAssembly engine or compiler optimises it separately. */
  readonly hot?: boolean
}

/**
 * A renderer finds the functions by following calls from the entries. Every local variable is a parameter of its
 * function or is set in its body.
 */
export interface CodeModule {
  readonly name: string
  /** The facts for which the kernel was specialised, as lines of a comment. */
  readonly header?: readonly string[]
  readonly machine: Machine
  /** The functions that a worker calls (see `Entry` in abi.ts). */
  readonly entries: readonly CodeFunction[]
}
