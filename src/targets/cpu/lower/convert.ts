/**
 * Represents element types in Code: raw bits in memory, values in local variables, and casts between them. The
 * semantics of casts are those of src/ir/dtype.ts. All functions in this file work on scalars and on vectors.
 *
 * Code represents a value of any float dtype as an f32 (vectors: vf32), and a value of i8, u8, i32 or u32 as an i32
 * (vectors: vi32) with the same low bits. An i64 value is an i64 and always scalar. A bool value is an i32 0 or 1, or 0
 * or -1 in vector lanes. A value of a small dtype is always exactly representable in that dtype, although its local is
 * wider.
 */
import { dtypes, type DType, type StorageDType } from '../../../ir/dtype.ts'
import { and, binary, compare, constant, convert, max, min, mul, select, use } from '../build.ts'
import type { Operand, Writer } from '../build.ts'
import type { CodeType, Expression, Local, Machine, MemoryKind } from '../code.ts'

export function memoryKind(dtype: StorageDType): MemoryKind {
  switch (dtype) {
    case 'f32':
      return 'f32'
    case 'f16':
    case 'bf16':
      return 'u16'
    case 'f8e4m3':
    case 'f8e5m2':
    case 'u8':
      return 'u8'
    case 'i8':
      return 'i8'
    case 'i32':
    case 'u32':
      return 'i32'
    case 'i64':
      return 'i64'
    default:
      return dtype satisfies never
  }
}

/** The type of a local variable that holds a value of `dtype`. */
export function valueCodeType(dtype: DType, vector: boolean): CodeType {
  if (dtype === 'i64') return 'i64'
  if (dtypes[dtype].kind === 'float') return vector ? 'vf32' : 'f32'
  return vector ? 'vi32' : 'i32'
}

/** The type of a local variable that holds loaded raw bits of `dtype`: i32 (vi32) for the small storage dtypes. */
export function rawCodeType(dtype: StorageDType, vector: boolean): CodeType {
  if (dtype === 'i64') return 'i64'
  if (dtype === 'f32') return vector ? 'vf32' : 'f32'
  return vector ? 'vi32' : 'i32'
}

export const isVector = (type: CodeType): boolean => type === 'vf32' || type === 'vi32'
const intLike = (type: CodeType): 'i32' | 'vi32' => (isVector(type) ? 'vi32' : 'i32')
const floatLike = (type: CodeType): 'f32' | 'vf32' => (isVector(type) ? 'vf32' : 'f32')

/**
 * Returns functions that build constants, reinterpretations and shifts of 32-bit integers and floats, as scalars or
 * vectors according to `type`.
 */
function shapedLike(type: CodeType) {
  const [int, float] = [intLike(type), floatLike(type)]
  return {
    int: (value: number): Expression => constant(int, value | 0),
    float: (value: number): Expression => constant(float, value),
    asInt: (a: Operand): Expression => convert('bits', int, a),
    asFloat: (a: Operand): Expression => convert('bits', float, a),
    // A vector shift takes one i32 amount for all lanes.
    shift: (name: 'shl' | 'shr' | 'shrU', a: Operand, by: number): Expression =>
      binary(name, a, constant('i32', by)),
  }
}

const quietNaN = 0x7fc00000
const infinityBits = 0x7f800000

/** The parameters of the float formats that are not simply the upper half of an f32. */
interface SmallFloat {
  readonly bits: 8 | 16
  readonly mantissa: number
  readonly minExponent: number
  readonly max: number
  /**
   * True if the highest exponent encodes infinity. In a format without infinity, values saturate, and the all-ones
   * pattern is NaN.
   */
  readonly infinity: boolean
}
const smallFloats = {
  f16: { bits: 16, mantissa: 10, minExponent: -14, max: 65504, infinity: true },
  f8e5m2: { bits: 8, mantissa: 2, minExponent: -14, max: 57344, infinity: true },
  f8e4m3: { bits: 8, mantissa: 3, minExponent: -6, max: 448, infinity: false },
} as const satisfies Record<string, SmallFloat>

function floatBits(x: number): number {
  return new Int32Array(Float32Array.of(x).buffer)[0]
}

/** Converts loaded raw bits to the value that they encode. */
export function widen(writer: Writer, _machine: Machine, dtype: StorageDType, raw: Local): Local {
  switch (dtype) {
    case 'f32':
    case 'i8':
    case 'u8':
    case 'i32':
    case 'u32':
    case 'i64':
      return raw
    case 'bf16': {
      const { shift, asFloat } = shapedLike(raw.type)
      return writer.let('wide', asFloat(shift('shl', raw, 16)))
    }
    case 'f16':
    case 'f8e5m2':
    case 'f8e4m3':
      return widenSmall(writer, smallFloats[dtype], raw)
    default:
      return dtype satisfies never
  }
}

/**
 * Converts a small float to f32. The bits of a small float, shifted to the fields of an f32, form a number whose
 * exponent is too small by the difference of the biases. A multiplication corrects the exponent, also for subnormal
 * numbers.
 */
function widenSmall(writer: Writer, format: SmallFloat, raw: Local): Local {
  const { int, float, asInt, asFloat, shift } = shapedLike(raw.type)
  const signBit = 1 << (format.bits - 1)
  const up = 23 - format.mantissa
  const magnitude = writer.let('magnitude', shift('shl', and(raw, int(signBit - 1)), up))
  const scaled = asInt(mul(asFloat(magnitude), float(2 ** (126 + format.minExponent))))
  const special = format.infinity
    ? compare('ge', magnitude, int(31 << 23))
    : compare('eq', magnitude, int((signBit - 1) << up))
  const top = select(special, int(format.infinity ? infinityBits : quietNaN), int(0))
  const sign = shift('shl', and(raw, int(signBit)), 32 - format.bits)
  return writer.let('wide', asFloat(binary('or', binary('or', scaled, top), sign)))
}

/**
 * Converts a value that `dtype` can represent to the bits to store. A NaN must be a quiet NaN, such as `roundTo`
 * returns.
 */
export function narrow(writer: Writer, _machine: Machine, dtype: StorageDType, value: Operand): Expression {
  const operand = use(value)
  switch (dtype) {
    case 'f32':
    case 'i8':
    case 'u8':
    case 'i32':
    case 'u32':
    case 'i64':
      return operand
    case 'bf16': {
      const { asInt, shift } = shapedLike(operand.type)
      return shift('shrU', asInt(operand), 16)
    }
    case 'f16':
    case 'f8e5m2':
    case 'f8e4m3':
      return narrowSmall(writer, smallFloats[dtype], operand)
    default:
      return dtype satisfies never
  }
}

function narrowSmall(writer: Writer, format: SmallFloat, operand: Expression): Expression {
  const { int, float, asInt, shift } = shapedLike(operand.type)
  const signBit = 1 << (format.bits - 1)
  const value = writer.let('value', operand)
  const scaled = writer.let('scaled', asInt(mul(value, float(2 ** -(126 + format.minExponent)))))
  const sign = and(shift('shrU', scaled, 32 - format.bits), int(signBit))
  // The scaled value of an infinity or a quiet NaN still has an exponent field of all ones.
  const magnitude = and(shift('shrU', scaled, 23 - format.mantissa), int(signBit - 1))
  const bits = binary('or', magnitude, sign)
  return format.infinity ? bits : select(compare('ne', value, value), int(signBit - 1), bits)
}

/**
 * Rounds to the nearest value of a float `dtype`; the result is still stored as an f32. Rounding to a float dtype has
 * the same result as `round` in src/ir/dtype.ts.
 */
export function roundTo(writer: Writer, _machine: Machine, dtype: DType, value: Operand): Expression {
  switch (dtype) {
    case 'f32':
      return use(value)
    case 'bf16': {
      const { int, asInt, asFloat, shift } = shapedLike(use(value).type)
      const source = writer.let('value', value)
      const bits = writer.let('bits', asInt(source))
      const odd = and(shift('shrU', bits, 16), int(1))
      const up = binary('add', bits, binary('add', odd, int(0x7fff)))
      const rounded = and(up, int(0xffff0000))
      return asFloat(select(compare('ne', source, source), int(quietNaN), rounded))
    }
    case 'f16':
    case 'f8e5m2':
    case 'f8e4m3':
      return roundSmall(writer, smallFloats[dtype], use(value))
    default:
      throw new Error(`${dtype} is not a float dtype, so values cannot be rounded to it`)
  }
}

function roundSmall(writer: Writer, format: SmallFloat, operand: Expression): Expression {
  const { int, float, asInt, asFloat, shift } = shapedLike(operand.type)
  const drop = 23 - format.mantissa
  const bits = writer.let('bits', asInt(operand))
  const magnitude = writer.let('magnitude', and(bits, int(0x7fffffff)))
  const odd = and(shift('shrU', magnitude, drop), int(1))
  const up = binary('add', magnitude, binary('add', odd, int((1 << (drop - 1)) - 1)))
  const normal = and(up, int(-1 << drop))
  // Below the smallest normal number, the spacing of values is constant. The constant spacing of subnormal numbers
  // equals the spacing of f32 values near `anchor`.
  const anchor = float(2 ** (format.minExponent - format.mantissa + 23))
  const subnormal = asInt(binary('sub', binary('add', asFloat(magnitude), anchor), anchor))
  const isSmall = compare('lt', magnitude, int(floatBits(2 ** format.minExponent)))
  const rounded = writer.let('rounded', select(isSmall, subnormal, normal))
  const largest = int(floatBits(format.max))
  const inRange = format.infinity
    ? select(compare('gt', rounded, largest), int(infinityBits), rounded)
    : min(rounded, largest)
  const isNaN = compare('gt', magnitude, int(infinityBits))
  const sign = and(bits, int(0x80000000))
  return asFloat(binary('or', select(isNaN, int(quietNaN), inRange), sign))
}

/**
 * Converts a value between any two dtypes, with the same result as `cast` in src/ir/dtype.ts. The dtype i64 is
 * supported only as a scalar.
 */
export function cast(writer: Writer, machine: Machine, from: DType, to: DType, value: Operand): Expression {
  const operand = use(value)
  if (from === to) return operand
  const source = dtypes[from].kind
  const target = dtypes[to].kind
  const shaped = shapedLike(operand.type)
  if (source === 'bool') {
    const one = isVector(operand.type) ? and(operand, shaped.int(1)) : operand
    return target === 'int'
      ? to === 'i64'
        ? convert('extendU', 'i64', one)
        : one
      : convert('float', floatLike(operand.type), one)
  }
  if (target === 'bool') {
    const zero = from === 'i64' ? constant('i64', 0) : source === 'float' ? shaped.float(0) : shaped.int(0)
    return compare('ne', operand, zero)
  }
  if (source === 'float') {
    return target === 'float'
      ? roundTo(writer, machine, to, operand)
      : truncate(writer, to as IntegerStorage, operand)
  }
  return target === 'int'
    ? wrap(from as IntegerStorage, to as IntegerStorage, operand)
    : roundTo(writer, machine, to, floatOf(writer, from as IntegerStorage, to, operand))
}

type IntegerStorage = 'i8' | 'u8' | 'i32' | 'u32' | 'i64'

/** Converts a float to an integer, rounding towards zero and saturating. The conversion of NaN is 0. */
function truncate(writer: Writer, to: IntegerStorage, operand: Expression): Expression {
  const { int } = shapedLike(operand.type)
  const type = intLike(operand.type)
  switch (to) {
    case 'i32':
      return convert('truncate', type, operand)
    case 'u32':
      return convert('truncateU', type, operand)
    case 'i8':
    case 'u8':
      return min(max(convert('truncate', type, operand), int(dtypes[to].min)), int(dtypes[to].max))
    case 'i64': {
      const whole = writer.let('whole', convert('truncate', 'i64', operand))
      const [low, high] = [constant('i64', dtypes.i64.min), constant('i64', dtypes.i64.max)]
      const raised = writer.let('raised', select(compare('lt', whole, low), low, whole))
      return select(compare('gt', raised, high), high, raised)
    }
    default:
      return to satisfies never
  }
}

function wrap(from: IntegerStorage, to: IntegerStorage, operand: Expression): Expression {
  if (to === 'i64') return convert(from === 'u32' ? 'extendU' : 'extend', 'i64', operand)
  const word = from === 'i64' ? convert('wrap', 'i32', operand) : operand
  const { int, shift } = shapedLike(word.type)
  if (to === 'i8') return from === 'i8' ? word : shift('shr', shift('shl', word, 24), 24)
  if (to === 'u8') return and(word, int(0xff))
  return word
}

/**
 * Converts an integer to f32. An integer that is converted to bf16 by way of f32 must not be rounded twice, so the bits
 * that do not fit into an f32 are combined into one sticky bit. The largest numbers of the smaller float formats are
 * below 2^24, and f32 represents all integers up to 2^24.
 */
function floatOf(writer: Writer, from: IntegerStorage, to: DType, operand: Expression): Expression {
  const type = floatLike(operand.type)
  const sticky = to === 'bf16' && (from === 'i32' || from === 'u32' || from === 'i64')
  if (from === 'i64') {
    if (!sticky) return convert('float', 'f32', operand)
    const wide = convert('bits', 'i64', convert('float', 'f64', operand))
    const bits = writer.let('bits', wide)
    const low = constant('i64', 2 ** 29 - 1)
    const rest = select(
      compare('ne', and(bits, low), constant('i64', 0)),
      constant('i64', 2 ** 29),
      constant('i64', 0),
    )
    const kept = binary('or', and(bits, constant('i64', -(2 ** 29))), rest)
    return convert('demote', 'f32', convert('bits', 'f64', kept))
  }
  const name = from === 'u32' ? 'floatU' : 'float'
  if (!sticky) return convert(name, type, operand)
  const { int, float, shift } = shapedLike(operand.type)
  const whole = writer.let('whole', operand)
  const rest = select(compare('ne', and(whole, int(0xff)), int(0)), int(1), int(0))
  const upper = binary('or', shift(from === 'u32' ? 'shrU' : 'shr', whole, 8), rest)
  const large = mul(convert('float', type, upper), float(256))
  const fits =
    from === 'u32'
      ? compare('ltU', whole, int(1 << 24))
      : compare('ltU', binary('add', whole, int(1 << 24)), int(1 << 25))
  return select(fits, convert(name, type, whole), large)
}
