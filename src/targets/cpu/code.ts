/**
 * Code: what a kernel becomes on a CPU before it is bytes or text. Structured, typed, target-independent: functions of
 * statements over expressions, with locals instead of a stack and vectors of a fixed number of lanes. The wasm and the native
 * target render the same Code, so a kernel means the same on both; what differs between machines is in `Machine`, given
 * to the lowering.
 *
 * Expressions have no effects and may read memory only through statements (`load` is a statement that sets a local), so
 * that a renderer may evaluate them in any order. Integers wrap. Booleans are i32 0 or 1; a vector comparison gives lanes of
 * 0 or -1. No expression traps: `div` and `rem` by zero give 0 (the lowering tests the divisor first), and the smallest
 * integer by -1 wraps.
 */

/** `ptr` is an address in the world's memory: 32 bits on wasm, 64 on native. `vf32` and `vi32` are vectors. */
export type CodeType = 'i32' | 'i64' | 'f32' | 'f64' | 'ptr' | 'vf32' | 'vi32'

/** What code is made for. */
export interface Machine {
  readonly name: 'wasm' | 'native'
  /** f32 lanes of a vector: 4, 8 or 16. */
  readonly lanes: number
  /** The microkernel of a product: rows, and columns in vectors. */
  readonly rows: number
  readonly columns: number
  /** Of one core, in bytes: what a product's blocks are sized for. */
  readonly l1: number
  readonly l2: number
}

export interface Local {
  readonly type: CodeType
  /** For readers; not unique. */
  readonly name: string
}

/** Of f32 and f64 and vf32: `min` and `max` put -0 below 0 and a NaN loses; `nearest` ties to even. */
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
export type CompareName = 'eq' | 'ne' | 'lt' | 'le' | 'gt' | 'ge' | 'ltU' | 'leU' | 'gtU' | 'geU'
export type ConvertName =
  /** The same bits: i32 and f32, vi32 and vf32, i64 and f64. */
  | 'bits'
  /** Between integers: i32 to i64 by sign or by zeros; i64 to i32 drops the upper half. */
  | 'extend'
  | 'extendU'
  | 'wrap'
  /** Integer to float, rounding to nearest; i32 and i64 to f32 and f64, vi32 to vf32. */
  | 'float'
  | 'floatU'
  /** Float to integer, towards zero, saturating, NaN to 0; f32 and f64 to i32 and i64, vf32 to vi32. */
  | 'truncate'
  | 'truncateU'
  /** f32 to f64; f64 to f32, rounding to nearest. */
  | 'promote'
  | 'demote'

export type Expression =
  | { readonly kind: 'local'; readonly type: CodeType; readonly local: Local }
  /** An i64 constant is a safe integer. A constant of a vector type fills every lane. */
  | { readonly kind: 'const'; readonly type: Exclude<CodeType, 'ptr'>; readonly value: number }
  /** 0, 1, 2, … by lane. */
  | { readonly kind: 'lanes'; readonly type: 'vi32' }
  | { readonly kind: 'unary'; readonly type: CodeType; readonly name: UnaryName; readonly a: Expression }
  /**
   * Both of one type, which is the result's. Vectors: vf32 has add to max; vi32 has add, sub, mul, min to maxU, and, or, xor, and
   * shifts, whose second operand is an i32 that all lanes share. Shift amounts are below 32 (64).
   */
  | {
      readonly kind: 'binary'
      readonly type: CodeType
      readonly name: BinaryName
      readonly a: Expression
      readonly b: Expression
    }
  /** Of two values of one type; i32 for scalars (of pointers too: eq and ne), vi32 for vectors. */
  | {
      readonly kind: 'compare'
      readonly type: 'i32' | 'vi32'
      readonly name: CompareName
      readonly a: Expression
      readonly b: Expression
    }
  /** a * b + c on f32 or vf32, rounded once or twice: whatever is fastest. For products alone. */
  | {
      readonly kind: 'fma'
      readonly type: 'f32' | 'vf32'
      readonly a: Expression
      readonly b: Expression
      readonly c: Expression
    }
  /** `condition` is i32 for scalars; for vectors vi32 whose lanes are 0 or -1. Both choices are evaluated. */
  | {
      readonly kind: 'select'
      readonly type: CodeType
      readonly condition: Expression
      readonly a: Expression
      readonly b: Expression
    }
  | { readonly kind: 'convert'; readonly type: CodeType; readonly name: ConvertName; readonly a: Expression }
  /** A scalar in every lane. */
  | { readonly kind: 'splat'; readonly type: 'vf32' | 'vi32'; readonly a: Expression }
  /** One lane of a vector. */
  | { readonly kind: 'extract'; readonly type: 'f32' | 'i32'; readonly a: Expression; readonly lane: number }
  /** Lanes of two vectors by turns, `a` first: those of their first halves, or of their second. */
  | {
      readonly kind: 'zip'
      readonly type: 'vf32' | 'vi32'
      readonly a: Expression
      readonly b: Expression
      readonly half: 'first' | 'second'
    }
  /** base + index * scale + offset; the index (i32) is signed and is widened before it is multiplied. */
  | {
      readonly kind: 'address'
      readonly type: 'ptr'
      readonly base: Expression
      readonly index?: Expression
      readonly scale: number
      readonly offset: number
    }
  /** base + index * stride, where the stride in bytes is only known at launch: a `ptr`-sized number (see `stride`). */
  | {
      readonly kind: 'step'
      readonly type: 'ptr'
      readonly base: Expression
      readonly index: Expression
      readonly stride: Expression
    }
  /** An i32 as a ptr-sized number of bytes, times `scale`. */
  | { readonly kind: 'stride'; readonly type: 'ptr'; readonly a: Expression; readonly scale: number }
  /** Nanoseconds of a steady clock that all workers share; f64. */
  | { readonly kind: 'now'; readonly type: 'f64' }

/** How many bits lie in memory, and how they widen: to i32 (u8, i8, u16), or of the type itself. */
export type MemoryKind = 'u8' | 'i8' | 'u16' | 'i32' | 'i64' | 'f32'
/** Atomics are on words of 4 or 8 bytes, aligned. */
export type AtomicName = 'add' | 'sub' | 'and' | 'or' | 'xor' | 'exchange'
export type MemoryOrder = 'relaxed' | 'acquire' | 'release' | 'acqRel' | 'seqCst'

export type Statement =
  | { readonly kind: 'set'; readonly local: Local; readonly value: Expression }
  /**
   * Memory to a local. Scalar: of `memory`'s width, widened to the local's type (i32 for u8, i8, u16). Vector: `lanes` neighbours,
   * widened likewise to vi32, or vf32 for f32. No alignment is needed.
   */
  | {
      readonly kind: 'load'
      readonly local: Local
      readonly memory: MemoryKind
      readonly from: Expression
      readonly offset: number
    }
  /** One f32 or i32 of memory in every lane of a vector. */
  | { readonly kind: 'loadSplat'; readonly local: Local; readonly from: Expression; readonly offset: number }
  /** A pointer that the host wrote as a 64-bit offset into the world's memory. */
  | {
      readonly kind: 'loadPointer'
      readonly local: Local
      readonly from: Expression
      readonly offset: number
    }
  /** The value's low bits, of `memory`'s width; of a vector, every lane to its neighbouring place. */
  | {
      readonly kind: 'store'
      readonly memory: MemoryKind
      readonly to: Expression
      readonly offset: number
      readonly value: Expression
    }
  /** Bytes that may not overlap, and zeros. `bytes` is an i32. */
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
  /** `local`, where given, is what was there before. */
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
  /** Tells the core that this is a spinning loop. */
  | { readonly kind: 'pause' }
  /** Tells the core that this place will be read or written soon. Does nothing where there is no such instruction. */
  | {
      readonly kind: 'prefetch'
      readonly at: Expression
      readonly offset: number
      readonly to: 'read' | 'write'
    }
  /** Sleep while the word holds `expected`, for at most `nanoseconds` (an f64); returns for no reason too. */
  | {
      readonly kind: 'sleep'
      readonly at: Expression
      readonly expected: Expression
      readonly nanoseconds: Expression
    }
  /** Wake everybody who sleeps on the word. */
  | { readonly kind: 'wake'; readonly at: Expression }
  | {
      readonly kind: 'if'
      readonly condition: Expression
      readonly then: readonly Statement[]
      readonly otherwise: readonly Statement[]
    }
  /** `index` from `from` up to `to`, exclusive, by `step`, a positive constant. `to` is evaluated once. */
  | {
      readonly kind: 'for'
      readonly index: Local
      readonly from: Expression
      readonly to: Expression
      readonly step: number
      readonly body: readonly Statement[]
    }
  /** For ever; left by `break` and `return`. */
  | { readonly kind: 'loop'; readonly body: readonly Statement[] }
  /** Leaves the innermost `loop` or `for`. */
  | { readonly kind: 'break' }
  /** Leaves the function; `value` where the function has a result. */
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
  /** Worth a call of its own: is not inlined, so that an engine optimises it alone. */
  readonly hot?: boolean
}

/** A renderer finds the functions by walking calls from the entries; every local of a function is one of its parameters or set in its body. */
export interface CodeModule {
  readonly name: string
  /** The facts that it was specialised by, as lines for a comment. */
  readonly header?: readonly string[]
  readonly machine: Machine
  /** What a worker calls: see abi.ts. */
  readonly entries: readonly CodeFunction[]
}
