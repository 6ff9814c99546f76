/**
 * Renders expressions of Code in C++. Signed integers in the generated C++ wrap because of `-fwrapv`. The generated C++
 * never fuses multiplications and additions.
 */
import type { BinaryName, CodeType, CompareName, Expression, Local } from '../cpu/code.ts'
import type { PieceName } from './prelude.ts'

/** The context that the rendering of an expression needs. */
export interface Spelling {
  /** Records that a definition of the prelude is used. */
  use(piece: PieceName): void
  nameOf(local: Local): string
}

/** A C++ expression, and whether it can be an operand of any operator without parentheses. */
interface Spelled {
  readonly text: string
  readonly atom: boolean
}
const atom = (text: string): Spelled => ({ text, atom: true })
const compound = (text: string): Spelled => ({ text, atom: false })

export const spellExpression = (expression: Expression, spelling: Spelling): string =>
  spell(expression, spelling).text

/** Renders an expression like `spellExpression`, but with parentheses if the text may be an operand of an operator. */
export function spellOperand(expression: Expression, spelling: Spelling): string {
  const { text, atom } = spell(expression, spelling)
  return atom ? text : `(${text})`
}

const isVector = (type: CodeType): boolean => type === 'vf32' || type === 'vi32'
const isFloat = (type: CodeType): boolean => type === 'f32' || type === 'f64' || type === 'vf32'

/** Maps a signed integer type to the unsigned integer type of the same width. */
function unsignedOf(type: CodeType): 'u32' | 'u64' | 'vu32' {
  if (type === 'vi32') return 'vu32'
  return type === 'i64' || type === 'ptr' ? 'u64' : 'u32'
}

const impossible = (what: string, type: CodeType): Error =>
  new Error(`native: Code has no ${what} of ${type}; the lowering must use other operations of Code`)

export function typeName(type: CodeType, spelling: Spelling): string {
  spelling.use(type)
  return type
}

function spell(expression: Expression, spelling: Spelling): Spelled {
  const text = (part: Expression): string => spell(part, spelling).text
  const operand = (part: Expression): string => spellOperand(part, spelling)
  const type = (name: CodeType): string => typeName(name, spelling)
  switch (expression.kind) {
    case 'local':
      return atom(spelling.nameOf(expression.local))
    case 'const':
      return spellConstant(expression.type, expression.value, spelling)
    case 'lanes':
      spelling.use('lane_numbers')
      return atom('lane_numbers')
    case 'unary':
      return spellUnary(expression, spelling)
    case 'binary':
      return spellBinary(expression, spelling)
    case 'compare':
      return spellCompare(expression, spelling)
    case 'fma':
      spelling.use(`fma_${expression.type}`)
      return atom(`fma(${text(expression.a)}, ${text(expression.b)}, ${text(expression.c)})`)
    case 'select': {
      const { condition } = expression
      // The lanes of a condition are 0 or -1, so testing the sign suffices and compiles to one blend instruction.
      const sign = isVector(expression.type) && condition.kind !== 'compare' ? ' < 0' : ''
      return compound(`${operand(condition)}${sign} ? ${operand(expression.a)} : ${operand(expression.b)}`)
    }
    case 'convert':
      return spellConvert(expression, spelling)
    case 'splat':
      spelling.use(expression.type === 'vf32' ? 'splat_f32' : 'splat_i32')
      return atom(`splat(${text(expression.a)})`)
    case 'extract':
      return atom(`${operand(expression.a)}[${expression.lane}]`)
    case 'zip':
      spelling.use(`zip_${expression.half}_${expression.type}`)
      return atom(`zip_${expression.half}(${text(expression.a)}, ${text(expression.b)})`)
    case 'address': {
      const { base, index, scale, offset } = expression
      const parts = [operand(base)]
      if (index) parts.push(`(${type('i64')})${operand(index)}${scale === 1 ? '' : ` * ${scale}`}`)
      return parts.length === 1 && offset === 0
        ? spell(base, spelling)
        : compound(plus(parts.join(' + '), offset))
    }
    case 'step':
      return compound(
        `${operand(expression.base)} + (${type('i64')})${operand(expression.index)} * (${type('i64')})${operand(expression.stride)}`,
      )
    case 'stride': {
      const bytes = `(${type('i64')})${operand(expression.a)}`
      return compound(
        `(${type('ptr')})${expression.scale === 1 ? bytes : `(${bytes} * ${expression.scale})`}`,
      )
    }
    case 'now':
      spelling.use('now')
      return atom('steady_now()')
    default:
      throw new Error(`native: no expression ${String(expression satisfies never)}`)
  }
}

/** Returns the text `text + offset`, or `text` if the offset is 0. */
export function plus(text: string, offset: number): string {
  if (offset === 0) return text
  return offset < 0 ? `${text} - ${-offset}` : `${text} + ${offset}`
}

function spellConstant(type: CodeType, value: number, spelling: Spelling): Spelled {
  switch (type) {
    case 'i32': {
      const wrapped = value | 0
      if (wrapped === -(2 ** 31)) return compound('-2147483647 - 1')
      return wrapped < 0 ? compound(String(wrapped)) : atom(String(wrapped))
    }
    case 'i64':
      return value < 0 ? compound(`${value}ll`) : atom(`${value}ll`)
    case 'f32':
      return spellFloat(Math.fround(value), 'f')
    case 'f64':
      return spellFloat(value, '')
    case 'vf32':
      spelling.use('splat_f32')
      return atom(`splat(${spellConstant('f32', value, spelling).text})`)
    case 'vi32':
      spelling.use('splat_i32')
      return atom(`splat(${spellConstant('i32', value, spelling).text})`)
    case 'ptr':
      throw impossible('constant', type)
    default:
      throw impossible('constant', type satisfies never)
  }
}

function spellFloat(value: number, suffix: 'f' | ''): Spelled {
  if (Number.isNaN(value)) return atom(`__builtin_nan${suffix}("")`)
  const negative = value < 0 || Object.is(value, -0)
  const size = Math.abs(value)
  const digits = size === Infinity ? `__builtin_inf${suffix}()` : `${withPoint(size)}${suffix}`
  return negative ? compound(`-${digits}`) : atom(digits)
}

/** Formats a number with a decimal point or an exponent. JavaScript writes integers from 1e21 on with an exponent. */
const withPoint = (size: number): string =>
  Number.isInteger(size) && size < 1e21 ? `${size}.0` : String(size)

function spellUnary(expression: Expression & { kind: 'unary' }, spelling: Spelling): Spelled {
  const { name, a } = expression
  const { type } = a
  const operand = spellOperand(a, spelling)
  switch (name) {
    case 'neg':
      return compound(`-${operand}`)
    case 'not':
      if (isFloat(type)) throw impossible(name, type)
      return compound(`~${operand}`)
    case 'eqz':
      return compound(`${operand} == 0`)
    case 'abs':
      if (!isFloat(type)) {
        spelling.use('magnitude')
        return atom(`magnitude<${typeName(type, spelling)}>(${spellExpression(a, spelling)})`)
      }
      if (type === 'vf32') spelling.use('abs_vf32')
      return atom(
        `${type === 'f32' ? '__builtin_fabsf' : type === 'f64' ? '__builtin_fabs' : 'abs'}(${operand})`,
      )
    case 'sqrt':
    case 'floor':
    case 'nearest': {
      if (!isFloat(type)) throw impossible(name, type)
      if (type === 'vf32') spelling.use(`${name}_vf32`)
      const builtin = `__builtin_${name === 'nearest' ? 'rint' : name}${type === 'f32' ? 'f' : ''}`
      return atom(`${type === 'vf32' ? name : builtin}(${spellExpression(a, spelling)})`)
    }
    default:
      throw impossible(name satisfies never, type)
  }
}

const operators: Partial<Record<BinaryName, string>> = {
  add: '+',
  sub: '-',
  mul: '*',
  div: '/',
  and: '&',
  or: '|',
  xor: '^',
  shl: '<<',
  shr: '>>',
}

function spellBinary(expression: Expression & { kind: 'binary' }, spelling: Spelling): Spelled {
  const { name, type } = expression
  if (type === 'ptr') return spellPointerArithmetic(expression, spelling)
  const [a, b] = [spellOperand(expression.a, spelling), spellOperand(expression.b, spelling)]
  const float = isFloat(type)
  switch (name) {
    case 'add':
    case 'sub':
    case 'mul':
      return compound(`${a} ${operators[name]} ${b}`)
    case 'and':
    case 'or':
    case 'xor':
    case 'shl':
    case 'shr':
      if (float) throw impossible(name, type)
      return compound(`${a} ${operators[name]} ${b}`)
    case 'shrU': {
      if (float) throw impossible(name, type)
      const unsigned = unsignedOf(type)
      spelling.use(unsigned)
      return compound(`(${type})((${unsigned})${a} >> ${b})`)
    }
    case 'mulHighU':
      if (type !== 'i32' && type !== 'vi32') throw impossible(name, type)
      spelling.use(`multiply_high_${type}`)
      return atom(
        `multiply_high(${spellExpression(expression.a, spelling)}, ${spellExpression(expression.b, spelling)})`,
      )
    case 'div':
    case 'rem':
    case 'divU':
    case 'remU':
      return spellDivision(expression, a, b, spelling)
    case 'min':
    case 'max':
      return spellBound(name, expression, spelling)
    case 'minU':
    case 'maxU': {
      if (float) throw impossible(name, type)
      const unsigned = unsignedOf(type)
      spelling.use(unsigned)
      const call = name === 'minU' ? 'lesser' : 'greater'
      spelling.use(call)
      return compound(`(${type})${call}((${unsigned})${a}, (${unsigned})${b})`)
    }
    default:
      throw impossible(name satisfies never, type)
  }
}

function spellBound(
  name: 'min' | 'max',
  expression: Expression & { kind: 'binary' },
  spelling: Spelling,
): Spelled {
  const { type } = expression
  let { a, b } = expression
  if (a.kind === 'const') [a, b] = [b, a]
  const both = `${spellExpression(a, spelling)}, ${spellExpression(b, spelling)}`
  // If one operand is a constant, a single min or max instruction is correct for most constants. The processor's min
  // and max instructions return the second operand for a NaN and for equal zeros, so the constant must not be a NaN or
  // the zero that would lose.
  const losing = name === 'min' ? 0 : -0
  const isPlain = b.kind === 'const' && !Number.isNaN(b.value) && !Object.is(b.value, losing)
  if ((type === 'f32' || type === 'f64' || type === 'vf32') && !isPlain) {
    spelling.use(`${name}_${type}`)
    return atom(`${name}(${both})`)
  }
  const call = name === 'min' ? 'lesser' : 'greater'
  spelling.use(call)
  return atom(`${call}<${typeName(type, spelling)}>(${both})`)
}

/** A ptr-typed value may be a stride, so pointer arithmetic is done on integers. */
function spellPointerArithmetic(expression: Expression & { kind: 'binary' }, spelling: Spelling): Spelled {
  const operator = operators[expression.name]
  if (!operator || expression.name === 'div') throw impossible(expression.name, 'ptr')
  spelling.use('i64')
  const number = (part: Expression): string => `(i64)${spellOperand(part, spelling)}`
  return compound(
    `(${typeName('ptr', spelling)})(${number(expression.a)} ${operator} ${number(expression.b)})`,
  )
}

const divisionNames = {
  div: 'divide',
  rem: 'remainder_of',
  divU: 'divide_unsigned',
  remU: 'remainder_unsigned',
}

function spellDivision(
  expression: Expression & { kind: 'binary' },
  a: string,
  b: string,
  spelling: Spelling,
): Spelled {
  const { name, type } = expression
  if (name === 'div' && isFloat(type)) return compound(`${a} / ${b}`)
  if (type !== 'i32' && type !== 'i64') throw impossible(name, type)
  const kind = name as keyof typeof divisionNames
  const divisor = expression.b.kind === 'const' ? expression.b.value : 0
  // A constant divisor that is neither zero nor -1 needs no test.
  if (divisor > 0) {
    const operator = kind === 'div' || kind === 'divU' ? '/' : '%'
    if (kind === 'div' || kind === 'rem') return compound(`${a} ${operator} ${b}`)
    const unsigned = unsignedOf(type)
    spelling.use(unsigned)
    return compound(`(${type})((${unsigned})${a} ${operator} (${unsigned})${b})`)
  }
  spelling.use(`${kind}_${type}`)
  return atom(
    `${divisionNames[kind]}(${spellExpression(expression.a, spelling)}, ${spellExpression(expression.b, spelling)})`,
  )
}

const comparisons: Record<CompareName, { readonly operator: string; readonly isUnsigned?: true }> = {
  eq: { operator: '==' },
  ne: { operator: '!=' },
  lt: { operator: '<' },
  le: { operator: '<=' },
  gt: { operator: '>' },
  ge: { operator: '>=' },
  ltU: { operator: '<', isUnsigned: true },
  leU: { operator: '<=', isUnsigned: true },
  gtU: { operator: '>', isUnsigned: true },
  geU: { operator: '>=', isUnsigned: true },
}

function spellCompare(expression: Expression & { kind: 'compare' }, spelling: Spelling): Spelled {
  const { name } = expression
  const { type } = expression.a
  const [a, b] = [spellOperand(expression.a, spelling), spellOperand(expression.b, spelling)]
  const { operator, isUnsigned } = comparisons[name]
  if (!isUnsigned) return compound(`${a} ${operator} ${b}`)
  if (isFloat(type)) throw impossible(name, type)
  const unsigned = unsignedOf(type)
  spelling.use(unsigned)
  return compound(`(${unsigned})${a} ${operator} (${unsigned})${b}`)
}

function spellConvert(expression: Expression & { kind: 'convert' }, spelling: Spelling): Spelled {
  const { name, a } = expression
  const from = a.type
  const to = typeName(expression.type, spelling)
  const text = spellExpression(a, spelling)
  const operand = spellOperand(a, spelling)
  switch (name) {
    case 'bits':
      if (isVector(from)) return compound(`(${to})${operand}`)
      spelling.use('bits')
      return atom(`bits<${to}, ${typeName(from, spelling)}>(${text})`)
    case 'extend':
    case 'wrap':
    case 'promote':
    case 'demote':
      return compound(`(${to})${operand}`)
    case 'extendU':
      spelling.use('u32')
      return compound(`(${to})(u32)${operand}`)
    case 'float':
      return isVector(from) ? atom(`__builtin_convertvector(${text}, ${to})`) : compound(`(${to})${operand}`)
    case 'floatU': {
      const unsigned = unsignedOf(from)
      spelling.use(unsigned)
      return isVector(from)
        ? atom(`__builtin_convertvector((vu32)${operand}, ${to})`)
        : compound(`(${to})(${unsigned})${operand}`)
    }
    case 'truncate':
    case 'truncateU': {
      const unsigned = name === 'truncateU'
      if (from === 'vf32') spelling.use(`${name}_vf32`)
      else if ((from === 'f32' || from === 'f64') && (to === 'i32' || to === 'i64'))
        spelling.use(`${name}_${from}_${to}`)
      else throw impossible(name, from)
      const width = to === 'i64' ? 64 : 32
      return atom(`truncate_${unsigned ? 'u' : 'i'}${width}(${text})`)
    }
    default:
      throw impossible(name satisfies never, from)
  }
}
