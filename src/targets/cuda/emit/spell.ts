/** Renders dtypes, constants and operations on single elements as CUDA C++. */
import { dtypes, type DType } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, type ElementwiseName } from '../../../ir/ops/index.ts'
import { KernelError } from '../../../ir/site.ts'
import type { ValueType } from '../../../ir/type.ts'
import {
  bare,
  cast,
  code,
  group,
  integer,
  joined,
  negative,
  plain,
  valueOf,
  word,
  type Code,
  type Part,
} from './code.ts'
import { lib } from './library.ts'

/**
 * The C++ type of one element in a register. 16-bit and 8-bit floats are held as unsigned integers with the same bits.
 */
const registerTypes = {
  f32: 'float',
  f16: 'u16',
  bf16: 'u16',
  i8: 'i8',
  u8: 'u8',
  i32: 'i32',
  u32: 'u32',
  i64: 'i64',
  bool: 'bool',
  f8e4m3: 'u8',
  f8e5m2: 'u8',
} as const satisfies Record<DType, string>

export const registerTypeName = (dtype: DType): (typeof registerTypes)[DType] => registerTypes[dtype]

export function registerType(dtype: DType): Code {
  const name = registerTypes[dtype]
  return name === 'float' || name === 'bool' ? word(name) : lib[name]
}

export const is16Bit = (dtype: DType): boolean => dtypes[dtype].bytes === 2
type SmallFloat = 'f16' | 'bf16' | 'f8e4m3' | 'f8e5m2'
const isSmallFloat = (dtype: DType): dtype is SmallFloat => dtypes[dtype].kind === 'float' && dtype !== 'f32'

const scratch = new DataView(new ArrayBuffer(4))

/** The bits of a number that is exactly representable as a 16-bit float. */
function halfBits(dtype: DType, value: number): number {
  scratch.setFloat32(0, value)
  if (dtype === 'bf16') return scratch.getUint16(0)
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0
  const size = Math.abs(value)
  if (Number.isNaN(size)) return 0x7e00
  if (size === Infinity) return sign | 0x7c00
  if (size < 2 ** -14) return sign | (size * 2 ** 24)
  const exponent = Math.floor(Math.log2(size))
  return sign | ((exponent + 15) << 10) | ((size / 2 ** exponent - 1) * 1024)
}

export function literal(dtype: DType, value: number): Code {
  switch (dtype) {
    case 'f32':
      if (Number.isNaN(value)) return code`__int_as_float(0x7fffffff)`
      if (!Number.isFinite(value)) return code`__int_as_float(${value < 0 ? '0xff800000' : '0x7f800000'})`
      if (Object.is(value, -0)) return negative('-0.0f')
      return signed(value, plain, `${exact(value)}f`)
    case 'f16':
    case 'bf16':
      return cast(lib.u16, word(`0x${halfBits(dtype, value).toString(16)}`))
    case 'f8e4m3':
    case 'f8e5m2':
      return code`${lib[`f32_to_${dtype}`]}(${literal('f32', value)})`
    case 'u32':
      return word(`${value}u`)
    case 'i64':
      return signed(value, word, `${value}ll`)
    case 'bool':
      return word(value ? 'true' : 'false')
    case 'i32':
      return value === -(2 ** 31) ? group(code`-2147483647 - 1`) : integer(value)
    default:
      return integer(value)
  }
}

const exact = (value: number): string =>
  Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value)

const signed = (value: number, positive: (text: string) => Code, text: string): Code =>
  value < 0 ? negative(text) : positive(text)

/**
 * The C++ code of an operand of an elementwise op. `nonNegative` is true if the operand is known to be a non-negative
 * integer.
 */
export interface Operand {
  readonly text: Code
  readonly nonNegative?: boolean
}

/** The data from which an elementwise op is rendered. The field `dtype` is the dtype of the op's first operand. */
interface Spelled {
  readonly node: Node
  readonly dtype: DType
  readonly operands: readonly Code[]
  readonly isSigned: boolean
  /** True if no operand is negative. */
  readonly isSmall: boolean
}

type Spelling = (spelled: Spelled) => Code

const infix =
  (operator: string): Spelling =>
  ({ operands: [a, b] }) =>
    group(code`${a} ${operator} ${b}`)

const call =
  (name: Part): Spelling =>
  ({ operands: [a] }) =>
    code`${name}(${a})`

/**
 * Renders an operation that wraps on overflow, as the language defines. Signed overflow is undefined in C++, so signed
 * operands are computed as unsigned integers. Non-negative operands are sizes and indices, which do not overflow.
 */
const wrapping =
  (operator: string): Spelling =>
  (spelled) =>
    !spelled.isSigned || spelled.isSmall ? infix(operator)(spelled) : unsignedInfix(operator)(spelled)

const dividing =
  (operator: string): Spelling =>
  (spelled) =>
    spelled.isSigned && spelled.isSmall ? unsignedInfix(operator)(spelled) : infix(operator)(spelled)

const extremum =
  (name: string, operator: string): Spelling =>
  ({ dtype, operands: [a, b] }) =>
    dtype === 'f32' ? code`${name}(${a}, ${b})` : group(code`${a} ${operator} ${b} ? ${a} : ${b}`)

/**
 * Renders an integer operation as the operation on unsigned integers with the same bits. Unsigned arithmetic wraps on
 * overflow, and unsigned division needs no sign handling.
 */
const unsignedInfix =
  (operator: string): Spelling =>
  ({ dtype, operands: [a, b] }) => {
    const suffix = dtype === 'i64' ? 'ull' : 'u'
    const as = (one: Code): Code => {
      const value = valueOf(one)
      return value === undefined ? cast(unsigned(dtype), one) : word(`${value}${suffix}`)
    }
    return cast(registerType(dtype), group(code`${as(a)} ${operator} ${as(b)}`))
  }

const spellings: Readonly<Record<ElementwiseName, Spelling>> = {
  select: ({ operands: [a, b, c] }) => group(code`${a} ? ${b} : ${c}`),
  convert: ({ operands: [a] }) => a,
  combine: ({ node }) => {
    throw new KernelError(`${node.op} is an exchange between warps, not arithmetic`, node.site)
  },
  cast: ({ node, dtype, operands: [a] }) => spellCast(dtype, attribute<DType>(node, 'dtype'), a),
  neg: ({ dtype, isSigned, operands: [a] }) =>
    isSigned ? cast(registerType(dtype), group(code`0u - (${unsigned(dtype)})${a}`)) : group(code`-${a}`),
  abs: ({ dtype, operands: [a] }) =>
    dtype === 'f32' ? code`fabsf(${a})` : group(code`${a} < 0 ? -${a} : ${a}`),
  not: ({ dtype, operands: [a] }) => (dtype === 'bool' ? group(code`!${a}`) : group(code`~${a}`)),
  min: extremum('fminf', '<'),
  max: extremum('fmaxf', '>'),
  add: wrapping('+'),
  sub: infix('-'),
  mul: wrapping('*'),
  shl: wrapping('<<'),
  div: dividing('/'),
  mod: dividing('%'),
  and: infix('&'),
  or: infix('|'),
  xor: infix('^'),
  shr: infix('>>'),
  eq: infix('=='),
  ne: infix('!='),
  lt: infix('<'),
  le: infix('<='),
  gt: infix('>'),
  ge: infix('>='),
  random: ({ node, operands }) =>
    code`${lib.philox}<${attribute<number>(node, 'word')}>(${joined(operands.map(bare), ', ')})`,
  exp2: call('exp2f'),
  exp: call('expf'),
  log2: call('log2f'),
  log: call('logf'),
  sin: call('sinf'),
  cos: call('cosf'),
  erf: call('erff'),
  pow: ({ operands: [a, b] }) => code`powf(${a}, ${b})`,
  floor: call('floorf'),
  ceil: call('ceilf'),
  round: call('rintf'),
  sqrt: call('sqrtf'),
  rsqrt: call('rsqrtf'),
  tanh: call('tanhf'),
  sigmoid: call(lib.sigmoid_f32),
}

/**
 * Renders one element of an elementwise node from one element of each input. Compound expressions are parenthesised.
 */
export function spellElement(node: Node, operands: readonly Operand[]): Code {
  const { dtype } = node.inputs[0].type as ValueType
  return entryOf(
    spellings,
    node,
    'is not elementwise',
  )({
    node,
    dtype,
    operands: operands.map(({ text }) => text),
    isSigned: dtype === 'i32' || dtype === 'i64',
    isSmall: operands.every(({ nonNegative }) => nonNegative),
  })
}

const unsigned = (dtype: DType): string => (dtype === 'i64' ? 'u64' : 'u32')

export function spellCast(from: DType, to: DType, a: Code): Code {
  if (from === to) return a
  if (isSmallFloat(from)) {
    const wide = code`${lib[`${from}_to_f32`]}(${a})`
    return to === 'f32' ? wide : spellCast('f32', to, wide)
  }
  if (to === 'bool') return group(code`${a} != 0`)
  if (isSmallFloat(to)) return code`${lib[`f32_to_${to}`]}(${from === 'f32' ? a : cast('float', a)})`
  if (from === 'f32') {
    if (to === 'i32') return code`__float2int_rz(${a})`
    if (to === 'u32') return code`__float2uint_rz(${a})`
    if (to === 'i8' || to === 'u8' || to === 'i64') return code`${lib[`f32_to_${to}`]}(${a})`
  }
  return group(cast(registerType(to), a))
}
