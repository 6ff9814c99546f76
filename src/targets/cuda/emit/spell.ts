/** How dtypes, constants and operations on single elements are spelled in CUDA C++. */
import { dtypes, type DType } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { KernelError } from '../../../ir/site.ts'
import type { ValueType } from '../../../ir/type.ts'

/** One element in a register. Floats of 16 and 8 bits are their bits. */
const registerTypes: Record<DType, string> = {
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
}

export const registerType = (dtype: DType): string => registerTypes[dtype]

export const is16Bit = (dtype: DType): boolean => dtypes[dtype].bytes === 2
const isSmallFloat = (dtype: DType): boolean => dtypes[dtype].kind === 'float' && dtype !== 'f32'

const scratch = new DataView(new ArrayBuffer(4))

/** The bits of a number that a 16-bit float represents exactly. */
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

export function literal(dtype: DType, value: number): string {
  switch (dtype) {
    case 'f32':
      if (Number.isNaN(value)) return '__int_as_float(0x7fffffff)'
      if (!Number.isFinite(value)) return `__int_as_float(${value < 0 ? '0xff800000' : '0x7f800000'})`
      if (Object.is(value, -0)) return '-0.0f'
      return `${Number.isInteger(value) && Math.abs(value) < 1e15 ? value.toFixed(1) : String(value)}f`
    case 'f16':
    case 'bf16':
      return `(u16)0x${halfBits(dtype, value).toString(16)}`
    case 'f8e4m3':
    case 'f8e5m2':
      return `f32_to_${dtype}(${literal('f32', value)})`
    case 'u32':
      return `${value}u`
    case 'i64':
      return `${value}ll`
    case 'bool':
      return value ? 'true' : 'false'
    case 'i32':
      return value === -(2 ** 31) ? '(-2147483647 - 1)' : String(value)
    default:
      return String(value)
  }
}

const infix: Partial<Record<Node['op'], string>> = {
  add: '+',
  sub: '-',
  mul: '*',
  div: '/',
  mod: '%',
  and: '&',
  or: '|',
  xor: '^',
  shl: '<<',
  shr: '>>',
  eq: '==',
  ne: '!=',
  lt: '<',
  le: '<=',
  gt: '>',
  ge: '>=',
}
const calls: Partial<Record<Node['op'], string>> = {
  exp2: 'exp2f',
  log2: 'log2f',
  sqrt: 'sqrtf',
  rsqrt: 'rsqrtf',
  tanh: 'tanhf',
  sigmoid: 'sigmoid_f32',
}

/** What elementwise rendering may use of a value: whether an integer is known not to be negative. */
export interface Operand {
  readonly text: string
  readonly nonNegative?: boolean
}

/** One element of an elementwise node, from one element of each input. Compound text comes in parentheses. */
export function spellElement(node: Node, operands: readonly Operand[]): string {
  const [a, b, c] = operands.map((operand) => operand.text)
  const dtype = (node.inputs[0].type as ValueType).dtype
  const isSigned = dtype === 'i32' || dtype === 'i64'
  const small = operands.every((operand) => operand.nonNegative)
  switch (node.op) {
    case 'select':
      return `(${a} ? ${b} : ${c})`
    case 'convert':
      return a
    case 'cast':
      return spellCast(dtype, attribute<DType>(node, 'dtype'), a)
    case 'neg':
      return isSigned ? `(${dtype})(0u - (${unsigned(dtype)})${a})` : `(-${a})`
    case 'abs':
      return dtype === 'f32' ? `fabsf(${a})` : `(${a} < 0 ? -${a} : ${a})`
    case 'not':
      return dtype === 'bool' ? `(!${a})` : `(~${a})`
    case 'min':
    case 'max':
      if (dtype === 'f32') return `f${node.op}f(${a}, ${b})`
      return `(${a} ${node.op === 'min' ? '<' : '>'} ${b} ? ${a} : ${b})`
    case 'add':
    case 'sub':
    case 'mul':
    case 'shl': {
      // C++ leaves the overflow of signed integers undefined; the language wraps. Sizes and indices do neither.
      if (!isSigned || small || node.op === 'sub') return `(${a} ${infix[node.op]} ${b})`
      return spellUnsigned(node, dtype, a, b)
    }
    case 'div':
    case 'mod':
      if (isSigned && small) return spellUnsigned(node, dtype, a, b)
      return `(${a} ${infix[node.op]} ${b})`
    default: {
      const operator = infix[node.op]
      if (operator) return `(${a} ${operator} ${b})`
      const call = calls[node.op]
      if (call) return `${call}(${a})`
      throw new KernelError(`${node.op} is not lowered to CUDA`, node.site)
    }
  }
}

/** The operation on the same bits as unsigned integers: it wraps, and its division needs no care for signs. */
function spellUnsigned(node: Node, dtype: DType, a: string, b: string): string {
  const suffix = dtype === 'i64' ? 'ull' : 'u'
  const as = (text: string): string =>
    /^\d+$/.test(text) ? `${text}${suffix}` : `(${unsigned(dtype)})${text}`
  return `(${dtype})(${as(a)} ${infix[node.op]} ${as(b)})`
}

const unsigned = (dtype: DType): string => (dtype === 'i64' ? 'u64' : 'u32')

export function spellCast(from: DType, to: DType, a: string): string {
  if (from === to) return a
  if (isSmallFloat(from)) {
    const wide = `${from}_to_f32(${a})`
    return to === 'f32' ? wide : spellCast('f32', to, wide)
  }
  if (to === 'bool') return `(${a} != 0)`
  if (isSmallFloat(to)) return `f32_to_${to}(${from === 'f32' ? a : `(float)${a}`})`
  if (from === 'f32') {
    if (to === 'i32') return `__float2int_rz(${a})`
    if (to === 'u32') return `__float2uint_rz(${a})`
    return `f32_to_${to}(${a})`
  }
  return `((${registerType(to)})${a})`
}
