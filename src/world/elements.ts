/** Converts between JavaScript numbers and the bytes of each dtype in memory (little-endian). */
import { dtypes, round, type StorageDType } from '../ir/dtype.ts'

interface FloatFormat {
  readonly exponent: number
  readonly mantissa: number
  /**
   * True if the float format has infinities. The format f8e4m3 has no infinities, and its only NaN has all bits set.
   */
  readonly infinite: boolean
}
const formats = {
  f16: { exponent: 5, mantissa: 10, infinite: true },
  bf16: { exponent: 8, mantissa: 7, infinite: true },
  f8e4m3: { exponent: 4, mantissa: 3, infinite: false },
  f8e5m2: { exponent: 5, mantissa: 2, infinite: true },
} as const satisfies Partial<Record<StorageDType, FloatFormat>>
type SmallFloat = keyof typeof formats

const isSmallFloat = (dtype: StorageDType): dtype is SmallFloat => Object.hasOwn(formats, dtype)

const scratch = new DataView(new ArrayBuffer(8))

/** Encodes a number that the float format can represent exactly. */
function encodeFloat({ exponent, mantissa, infinite }: FloatFormat, value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 1 << (exponent + mantissa) : 0
  const top = (1 << exponent) - 1
  if (Number.isNaN(value))
    return infinite ? (top << mantissa) | (1 << (mantissa - 1)) : (1 << (exponent + mantissa)) - 1
  const size = Math.abs(value)
  if (size === Infinity) return sign | (top << mantissa)
  if (size === 0) return sign
  const bias = (1 << (exponent - 1)) - 1
  scratch.setFloat64(0, size)
  const power = Math.max(((scratch.getUint16(0) >> 4) & 0x7ff) - 1023, 1 - bias)
  const scaled = size / 2 ** (power - mantissa)
  // A subnormal float has exponent 0 and no implicit leading bit.
  const hidden = 1 << mantissa
  return scaled < hidden ? sign | scaled : sign | ((power + bias) << mantissa) | (scaled - hidden)
}

function decodeFloat({ exponent, mantissa, infinite }: FloatFormat, bits: number): number {
  const sign = bits >> (exponent + mantissa) ? -1 : 1
  const top = (1 << exponent) - 1
  const power = (bits >> mantissa) & top
  const rest = bits & ((1 << mantissa) - 1)
  if (power === top && infinite) return rest === 0 ? sign * Infinity : NaN
  if (!infinite && power === top && rest === (1 << mantissa) - 1) return NaN
  const bias = (1 << (exponent - 1)) - 1
  return power === 0
    ? sign * rest * 2 ** (1 - bias - mantissa)
    : sign * (rest + (1 << mantissa)) * 2 ** (power - bias - mantissa)
}

const tables = new Map<SmallFloat, Float32Array>()

/** The numeric value of every bit pattern of the dtype. */
function tableOf(dtype: SmallFloat): Float32Array {
  let table = tables.get(dtype)
  if (!table) {
    table = Float32Array.from({ length: 2 ** (8 * dtypes[dtype].bytes) }, (_, bits) =>
      decodeFloat(formats[dtype], bits),
    )
    tables.set(dtype, table)
  }
  return table
}

const single = new Float32Array(1)
const singleBits = new Uint32Array(single.buffer)

/** Rounds to the nearest bf16, ties to even, and returns its bits. Rounding to bf16 preserves NaN. */
function bf16Bits(value: number): number {
  single[0] = value
  const bits = singleBits[0]
  if ((bits & 0x7fffffff) > 0x7f800000) return 0x7fc0
  return (bits + 0x7fff + ((bits >>> 16) & 1)) >>> 16
}

/**
 * Rounds to the nearest f16, ties to even, and returns its bits. For subnormal results, adding 0.5 in f32 rounds to the
 * spacing of f16 subnormals.
 */
function f16Bits(value: number): number {
  single[0] = value
  const sign = (singleBits[0] >>> 16) & 0x8000
  const size = singleBits[0] & 0x7fffffff
  if (size > 0x7f800000) return 0x7e00
  if (size >= 0x477ff000) return sign | 0x7c00
  if (size >= 0x38800000) return sign | ((size + 0xfff + ((size >>> 13) & 1) - 0x38000000) >>> 13)
  single[0] = Math.abs(value) + 0.5
  return sign | (singleBits[0] - 0x3f000000)
}

/** Writes all elements of `contents` to memory from `address` on, rounded to the dtype. */
export function writeElements(
  memory: ArrayBufferLike,
  address: number,
  dtype: StorageDType,
  contents: ArrayLike<number>,
): void {
  const { length } = contents
  switch (dtype) {
    case 'f32':
      new Float32Array(memory, address, length).set(contents)
      return
    case 'bf16':
    case 'f16':
    case 'f8e4m3':
    case 'f8e5m2': {
      const to =
        dtypes[dtype].bytes === 2
          ? new Uint16Array(memory, address, length)
          : new Uint8Array(memory, address, length)
      if (dtype === 'bf16' && contents instanceof Float32Array) {
        for (let i = 0; i < length; i++) to[i] = bf16Bits(contents[i])
        return
      }
      if (dtype === 'f16' && contents instanceof Float32Array) {
        for (let i = 0; i < length; i++) to[i] = f16Bits(contents[i])
        return
      }
      const format = formats[dtype]
      for (let i = 0; i < length; i++) to[i] = encodeFloat(format, round(dtype, contents[i]))
      return
    }
    case 'i8':
    case 'u8': {
      const to = new Uint8Array(memory, address, length)
      for (let i = 0; i < length; i++) to[i] = round(dtype, contents[i])
      return
    }
    case 'i32':
    case 'u32': {
      const to = new Uint32Array(memory, address, length)
      // An array of the same type is copied whole: a loop over its elements would take most of the time of opening a
      // GPU world.
      if (contents instanceof (dtype === 'i32' ? Int32Array : Uint32Array)) {
        to.set(contents)
        return
      }
      for (let i = 0; i < length; i++) to[i] = round(dtype, contents[i])
      return
    }
    case 'i64': {
      const to = new BigInt64Array(memory, address, length)
      for (let i = 0; i < length; i++) to[i] = BigInt(round(dtype, contents[i]))
      return
    }
    default:
      dtype satisfies never
  }
}

export function fillElements(
  memory: ArrayBufferLike,
  address: number,
  dtype: StorageDType,
  count: number,
  value: number,
): void {
  if (count === 0) return
  const size = dtypes[dtype].bytes
  writeElements(memory, address, dtype, [value])
  // Fill the remaining elements by copying the first element, doubling the filled length each time.
  const bytes = new Uint8Array(memory, address, count * size)
  for (let done = size; done < bytes.length; done *= 2)
    bytes.copyWithin(done, 0, Math.min(done, bytes.length - done))
}

export function readElements(
  memory: ArrayBufferLike,
  address: number,
  dtype: StorageDType,
  count: number,
): Float64Array {
  if (isSmallFloat(dtype)) {
    const from =
      dtypes[dtype].bytes === 2
        ? new Uint16Array(memory, address, count)
        : new Uint8Array(memory, address, count)
    const table = tableOf(dtype)
    const values = new Float64Array(count)
    for (let i = 0; i < count; i++) values[i] = table[from[i]]
    return values
  }
  switch (dtype) {
    case 'f32':
      return Float64Array.from(new Float32Array(memory, address, count))
    case 'i8':
      return Float64Array.from(new Int8Array(memory, address, count))
    case 'u8':
      return Float64Array.from(new Uint8Array(memory, address, count))
    case 'i32':
      return Float64Array.from(new Int32Array(memory, address, count))
    case 'u32':
      return Float64Array.from(new Uint32Array(memory, address, count))
    case 'i64':
      return Float64Array.from(new BigInt64Array(memory, address, count), Number)
    default:
      return dtype satisfies never
  }
}
