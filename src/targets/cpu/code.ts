/**
 * Code: the structured, typed intermediate form of a CPU kernel, between tile IR and wasm bytes or C++ text. Functions
 * consist of statements over expressions, with locals instead of a stack, and vectors with a fixed number of lanes. The
 * wasm and the native target render the same Code, so a kernel has the same meaning on both. Differences between
 * machines are described by `Machine`, which the lowering reads.
 *
 * Expressions have no side effects and do not read memory (`load` is a statement that sets a local), so a renderer may
 * evaluate them in any order. Integers wrap. Booleans are i32 0 or 1. A vector comparison yields lanes of 0 or -1. No
 * expression traps: `div` and `rem` by zero return 0 (the lowering tests the divisor first), and the smallest integer
 * divided by -1 wraps.
 */

/** `ptr` is an address in the world's memory: 32 bits on wasm, 64 bits on native. `vf32` and `vi32` are vectors. */
export type CodeType = 'i32' | 'i64' | 'f32' | 'f64' | 'ptr' | 'vf32' | 'vi32'

/** The machine that Code is generated for. */
export interface Machine {
  /** The name of the target, for the reader of generated code. */
  readonly name: string
  /** The number of f32 lanes of a vector: 4, 8 or 16. */
  readonly lanes: number
  /** The size of a product's microkernel: rows, and columns counted in vectors. */
  readonly rows: number
  readonly columns: number
  /**
   * True if the machine has a prefetch instruction, which fetches a cache line, and a compiler that schedules unrolled steps well. A
   * microkernel then takes the steps of one line at a time.
   */
  readonly prefetches: boolean
  /** The cache sizes of one core, in bytes. The blocks of a product are sized to fit them. */
  readonly l1: number
  readonly l2: number
}

export interface Local {
  readonly type: CodeType
  /** A name for readers of the generated code. Names need not be unique. */
  readonly name: string
}

/**
 * For f32, f64 and vf32: `min` and `max` order -0 below 0 and return the other operand for a NaN. `nearest` rounds ties
 * to even.
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
  /** Reinterprets the same bits: i32 and f32, vi32 and vf32, i64 and f64. */
  | 'bits'
  /** Integer conversions: i32 to i64 with sign or zero extension. i64 to i32 drops the upper half. */
  | 'extend'
  | 'extendU'
  | 'wrap'
  /** Integer to float, rounding to nearest: i32 or i64 to f32 or f64, vi32 to vf32. */
  | 'float'
  | 'floatU'
  /** Float to integer, rounding towards zero and saturating, NaN to 0: f32 or f64 to i32 or i64, vf32 to vi32. */
  | 'truncate'
  | 'truncateU'
  /** f32 to f64, and f64 to f32 with rounding to nearest. */
  | 'promote'
  | 'demote'

export type Expression =
  | { readonly kind: 'local'; readonly type: CodeType; readonly local: Local }
  /** An i64 constant must be a safe integer. A constant of a vector type fills every lane. */
  | { readonly kind: 'const'; readonly type: Exclude<CodeType, 'ptr'>; readonly value: number }
  /** The lane numbers 0, 1, 2, … */
  | { readonly kind: 'lanes'; readonly type: 'vi32' }
  | { readonly kind: 'unary'; readonly type: CodeType; readonly name: UnaryName; readonly a: Expression }
  /**
   * Both operands have the result's type. vf32 supports add to max. vi32 supports add, sub, mul, mulHighU, min to maxU,
   * and, or, xor and shifts. A vector shift takes one i32 amount for all lanes. Shift amounts are below 32 (64 for i64).
   */
  | {
      readonly kind: 'binary'
      readonly type: CodeType
      readonly name: BinaryName
      readonly a: Expression
      readonly b: Expression
    }
  /**
   * Compares two values of one type. The result is i32 for scalars and vi32 for vectors. Pointers support eq and ne.
   */
  | {
      readonly kind: 'compare'
      readonly type: 'i32' | 'vi32'
      readonly name: CompareName
      readonly a: Expression
      readonly b: Expression
    }
  /** a * b + c on f32 or vf32, rounded once or twice, whichever is faster on the machine. Only products use it. */
  | {
      readonly kind: 'fma'
      readonly type: 'f32' | 'vf32'
      readonly a: Expression
      readonly b: Expression
      readonly c: Expression
    }
  /** `condition` is an i32 for scalars and a vi32 with lanes of 0 or -1 for vectors. Both choices are evaluated. */
  | {
      readonly kind: 'select'
      readonly type: CodeType
      readonly condition: Expression
      readonly a: Expression
      readonly b: Expression
    }
  | { readonly kind: 'convert'; readonly type: CodeType; readonly name: ConvertName; readonly a: Expression }
  /** A vector with the scalar in every lane. */
  | { readonly kind: 'splat'; readonly type: 'vf32' | 'vi32'; readonly a: Expression }
  /** One lane of a vector. */
  | { readonly kind: 'extract'; readonly type: 'f32' | 'i32'; readonly a: Expression; readonly lane: number }
  /** Interleaves the lanes of two vectors, `a` first. `half` selects the first or the second halves of the vectors. */
  | {
      readonly kind: 'zip'
      readonly type: 'vf32' | 'vi32'
      readonly a: Expression
      readonly b: Expression
      readonly half: 'first' | 'second'
    }
  /** base + index * scale + offset. The index is a signed i32 and is widened before the multiplication. */
  | {
      readonly kind: 'address'
      readonly type: 'ptr'
      readonly base: Expression
      readonly index?: Expression
      readonly scale: number
      readonly offset: number
    }
  /** base + index * stride. The stride in bytes is only known at launch: a `ptr`-sized number (see `stride`). */
  | {
      readonly kind: 'step'
      readonly type: 'ptr'
      readonly base: Expression
      readonly index: Expression
      readonly stride: Expression
    }
  /** An i32 times `scale`, as a ptr-sized number of bytes. */
  | { readonly kind: 'stride'; readonly type: 'ptr'; readonly a: Expression; readonly scale: number }
  /** Nanoseconds of a monotonic clock that all workers share, as an f64. */
  | { readonly kind: 'now'; readonly type: 'f64' }

/** The width of a value in memory, and how a load widens it: u8, i8 and u16 to i32, the others to their own type. */
export type MemoryKind = 'u8' | 'i8' | 'u16' | 'i32' | 'i64' | 'f32'
/** Atomic operations act on aligned words of 4 or 8 bytes. */
export type AtomicName = 'add' | 'sub' | 'and' | 'or' | 'xor' | 'exchange'
export type MemoryOrder = 'relaxed' | 'acquire' | 'release' | 'acqRel' | 'seqCst'

export type Statement =
  | { readonly kind: 'set'; readonly local: Local; readonly value: Expression }
  /**
   * Loads memory into a local. A scalar load reads `memory`'s width and widens it to the local's type (i32 for u8, i8
   * and u16). A vector load reads `lanes` consecutive elements and widens them to vi32, or to vf32 for f32. Addresses
   * need no alignment.
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
  /** Stores the value's low bits, of `memory`'s width. A vector stores its lanes to consecutive elements. */
  | {
      readonly kind: 'store'
      readonly memory: MemoryKind
      readonly to: Expression
      readonly offset: number
      readonly value: Expression
    }
  /** Copies bytes between regions that do not overlap, or writes zero bytes. `bytes` is an i32. */
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
  /** `local`, if present, receives the value from before the operation. */
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
  /** Tells the core that this is a spin loop. */
  | { readonly kind: 'pause' }
  /** Prefetches the cache line at this address. Does nothing on machines without a prefetch instruction. */
  | {
      readonly kind: 'prefetch'
      readonly at: Expression
      readonly offset: number
      readonly to: 'read' | 'write'
    }
  /** Sleeps while the word holds `expected`, for at most `nanoseconds` (an f64). May also wake up spuriously. */
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
  /** Counts `index` from `from` up to `to`, exclusive, by `step`, a positive constant. `to` is evaluated once. */
  | {
      readonly kind: 'for'
      readonly index: Local
      readonly from: Expression
      readonly to: Expression
      readonly step: number
      readonly body: readonly Statement[]
    }
  /** An infinite loop. Only `break` and `return` leave it. */
  | { readonly kind: 'loop'; readonly body: readonly Statement[] }
  /** Leaves the innermost `loop` or `for`. */
  | { readonly kind: 'break' }
  /** Leaves the function. `value` is present if the function has a result. */
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
 * A renderer finds the functions by following calls from the entries. Every local is a parameter of its function or is
 * set in its body.
 */
export interface CodeModule {
  readonly name: string
  /** The facts that it was specialised by, as lines for a comment. */
  readonly header?: readonly string[]
  readonly machine: Machine
  /** The functions that a worker calls (see `Entry` in abi.ts). */
  readonly entries: readonly CodeFunction[]
}
