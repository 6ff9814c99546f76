/**
 * Element types and their arithmetic, in plain TypeScript.
 *
 * A value of any dtype is held as a JavaScript number that the dtype can represent exactly. `round` maps a real number
 * to the nearest number that the dtype can represent (ties to even; integers wrap around). Tests compare the rounding
 * of every target with the function `round`. The dtype i64 exists for indices: it is exact up to 2^53, and a result
 * beyond that is an error.
 */
export type DType =
  'f32' | 'f16' | 'bf16' | 'f8e4m3' | 'f8e5m2' | 'i8' | 'u8' | 'i32' | 'u32' | 'i64' | 'bool'

/**
 * The dtypes on which arithmetic is defined. A value of a dtype without arithmetic must be cast before an arithmetic
 * operation uses the value.
 */
export type ArithmeticDType = 'f32' | 'i32' | 'u32' | 'i64'
export type IntegerDType = 'i32' | 'u32' | 'i64'
export type FloatDType = 'f32' | 'f16' | 'bf16' | 'f8e4m3' | 'f8e5m2'
/** The dtypes that a tensor or a shared tile can hold: all except bool. */
export type StorageDType = Exclude<DType, 'bool'>
/** The dtypes that the operands of `dot` may have. */
export type DotDType = 'f32' | 'f16' | 'bf16' | 'f8e4m3' | 'f8e5m2' | 'i8'
/** The dtypes that atomics support. */
export type AtomicDType = 'i32' | 'u32' | 'i64' | 'f32'

export interface DTypeInfo {
  readonly bytes: number
  readonly kind: 'float' | 'int' | 'bool'
  readonly arithmetic: boolean
  readonly min: number
  readonly max: number
}

const float = (bytes: number, max: number, arithmetic = false): DTypeInfo => ({
  bytes,
  kind: 'float',
  arithmetic,
  min: -max,
  max,
})
const int = (bytes: number, min: number, max: number, arithmetic = false): DTypeInfo => ({
  bytes,
  kind: 'int',
  arithmetic,
  min,
  max,
})

export const dtypes: Readonly<Record<DType, DTypeInfo>> = {
  f32: float(4, 3.4028234663852886e38, true),
  f16: float(2, 65504),
  bf16: float(2, 3.3895313892515355e38),
  f8e4m3: float(1, 448),
  f8e5m2: float(1, 57344),
  i8: int(1, -128, 127),
  u8: int(1, 0, 255),
  i32: int(4, -(2 ** 31), 2 ** 31 - 1, true),
  u32: int(4, 0, 2 ** 32 - 1, true),
  i64: int(8, Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER, true),
  bool: { bytes: 1, kind: 'bool', arithmetic: false, min: 0, max: 1 },
}

/**
 * The error for an arithmetic operation without a result, such as a division by zero. An arithmetic error is a mistake
 * in the kernel, not in the code that evaluates it.
 */
export class ArithmeticError extends RangeError {}

export function isDType(name: unknown): name is DType {
  return typeof name === 'string' && Object.hasOwn(dtypes, name)
}

/**
 * The dtype to which a value of `dtype` must be cast before an operation that is defined only on the dtypes `allowed`.
 * A value of a float dtype is cast to f32, unless `allowed` contains only integer dtypes.
 */
export function castFor(dtype: DType, allowed: readonly DType[]): DType {
  const isFloat = allowed.includes('f32') && (dtypes[dtype].kind === 'float' || !allowed.includes('i32'))
  return isFloat ? 'f32' : 'i32'
}

const scratch = new DataView(new ArrayBuffer(8))

/**
 * Rounds a number to `mantissa` explicit bits with exponents down to `minExponent`, ties to even. The caller of this
 * rounding function handles overflow.
 */
function roundFloat(x: number, mantissa: number, minExponent: number): number {
  if (x === 0 || !Number.isFinite(x)) return x
  scratch.setFloat64(0, x)
  const exponent = Math.max(((scratch.getUint16(0) >> 4) & 0x7ff) - 1023, minExponent)
  const quantum = 2 ** (exponent - mantissa)
  const scaled = x / quantum
  const floor = Math.floor(scaled)
  const rest = scaled - floor
  const up = rest > 0.5 || (rest === 0.5 && floor % 2 !== 0)
  const rounded = (up ? floor + 1 : floor) * quantum
  return rounded === 0 && (x < 0 || Object.is(x, -0)) ? -0 : rounded
}

const bf16Infinity = 2 ** 127 * (2 - 2 ** -8)
const f16Infinity = 65520
const f8e5m2Infinity = 61440

/**
 * The number nearest to a given number that `dtype` can represent. Of the float dtypes, only f8e4m3 saturates, because
 * it has no infinity.
 */
export function round(dtype: DType, x: number): number {
  switch (dtype) {
    case 'f32':
      return Math.fround(x)
    case 'f16':
      return Math.abs(x) >= f16Infinity ? Math.sign(x) * Infinity : roundFloat(x, 10, -14)
    case 'bf16':
      return Math.abs(x) >= bf16Infinity ? Math.sign(x) * Infinity : roundFloat(x, 7, -126)
    case 'f8e4m3':
      return Math.abs(x) > 448 ? Math.sign(x) * 448 : roundFloat(x, 3, -6)
    case 'f8e5m2':
      return Math.abs(x) >= f8e5m2Infinity ? Math.sign(x) * Infinity : roundFloat(x, 2, -14)
    case 'i8':
      return (x << 24) >> 24
    case 'u8':
      return x & 0xff
    case 'i32':
      return x | 0
    case 'u32':
      return x >>> 0
    case 'i64':
      if (!Number.isSafeInteger(x))
        throw new ArithmeticError(
          `i64 result ${x} exceeds 2^53, the largest magnitude that an i64 can have in Arke`,
        )
      return x + 0
    case 'bool':
      return x !== 0 ? 1 : 0
    default:
      return dtype satisfies never
  }
}

/**
 * Converts a number to another dtype. A cast from float to integer truncates towards zero and saturates, as on GPUs.
 * A cast to float rounds, and a cast to bool tests for non-zero.
 */
export function cast(from: DType, to: DType, x: number): number {
  const target = dtypes[to]
  if (target.kind === 'int' && dtypes[from].kind === 'float') {
    if (Number.isNaN(x)) return 0
    return Math.min(Math.max(Math.trunc(x), target.min), target.max) + 0
  }
  return round(to, x)
}
