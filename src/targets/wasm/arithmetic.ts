/**
 * Renders arithmetic and comparisons of Code as WebAssembly. Where a wasm instruction differs from Code's semantics (it
 * traps, or it propagates a NaN), extra instructions correct the result, unless a constant operand makes them
 * unnecessary.
 */
import type { BinaryName, CodeType, CompareName, Expression, UnaryName } from '../cpu/code.ts'
import type { Instructions } from './encode.ts'
import { prefix, unsupported } from './names.ts'
import { valueType } from './opcodes.ts'
import type { Opcode } from './opcodes.ts'

const unaryNames: Partial<Record<string, Opcode>> = Object.fromEntries(
  (['f32', 'f64', 'f32x4'] as const).flatMap((type) =>
    (['neg', 'abs', 'sqrt', 'floor', 'nearest'] as const).map((name) => [
      `${type}.${name}`,
      `${type}_${name}`,
    ]),
  ),
)
Object.assign(unaryNames, { 'i32x4.neg': 'i32x4_neg', 'i32x4.abs': 'i32x4_abs', 'i32x4.not': 'v128_not' })

const integerSuffix: Partial<Record<BinaryName, string>> = {
  add: 'add',
  sub: 'sub',
  mul: 'mul',
  and: 'and',
  or: 'or',
  xor: 'xor',
  shl: 'shl',
  shr: 'shr_s',
  shrU: 'shr_u',
}
const floatSuffix: Partial<Record<BinaryName, string>> = { add: 'add', sub: 'sub', mul: 'mul', div: 'div' }
const vectorMinimum: Partial<Record<BinaryName, Opcode>> = {
  min: 'i32x4_min_s',
  max: 'i32x4_max_s',
  minU: 'i32x4_min_u',
  maxU: 'i32x4_max_u',
}
const kindOf: Record<CodeType, 'float' | 'integer' | 'pointer'> = {
  f32: 'float',
  f64: 'float',
  vf32: 'float',
  i32: 'integer',
  i64: 'integer',
  vi32: 'integer',
  ptr: 'pointer',
}

/** Pointers are compared as integers, without a sign. */
const compareSuffix: Record<CompareName, { float?: string; integer: string; pointer?: string }> = {
  eq: { float: 'eq', integer: 'eq' },
  ne: { float: 'ne', integer: 'ne' },
  lt: { float: 'lt', integer: 'lt_s', pointer: 'lt_u' },
  le: { float: 'le', integer: 'le_s', pointer: 'le_u' },
  gt: { float: 'gt', integer: 'gt_s', pointer: 'gt_u' },
  ge: { float: 'ge', integer: 'ge_s', pointer: 'ge_u' },
  ltU: { integer: 'lt_u' },
  leU: { integer: 'le_u' },
  gtU: { integer: 'gt_u' },
  geU: { integer: 'ge_u' },
}

/** The byte indices of a shuffle that takes the upper 32 bits of each 64-bit lane of two vectors. */
const upperHalves = [4, 12, 20, 28].flatMap((at) => [at, at + 1, at + 2, at + 3])

/**
 * Composes the name of an instruction. The tables above contain only name fragments that combine to names of existing
 * instructions.
 */
const named = (type: string, suffix: string): Opcode => `${type}_${suffix}` as Opcode

/** Pushes values onto the stack of the WebAssembly function (ExpressionRenderer). */
interface Values {
  emit(expression: Expression): void
  reusable(expression: Expression): { push: () => void; release: () => void }
  twice(a: Expression, b: Expression, write: (a: () => void, b: () => void) => void): void
}

export class Arithmetic {
  constructor(
    private readonly values: Values,
    private readonly code: Instructions,
    private readonly relaxed: boolean,
  ) {}

  unary(name: UnaryName, a: Expression): void {
    const { code } = this
    const type = prefix(a.type)
    const own = unaryNames[`${type}.${name}`]
    if (own) {
      this.values.emit(a)
      code.op(own)
      return
    }
    if (name === 'eqz' && (type === 'i32' || type === 'i64')) {
      this.values.emit(a)
      code.op(`${type}_eqz`)
      return
    }
    if (type !== 'i32' && type !== 'i64') throw unsupported(name, a.type)
    switch (name) {
      case 'neg':
        this.zero(type)
        this.values.emit(a)
        code.op(`${type}_sub`)
        return
      case 'not':
        this.values.emit(a)
        code.op(`${type}_const`).signed(-1).op(`${type}_xor`)
        return
      case 'abs': {
        const value = this.values.reusable(a)
        this.zero(type)
        value.push()
        code.op(`${type}_sub`)
        value.push()
        value.push()
        this.zero(type)
        code.op(`${type}_lt_s`).op('select')
        value.release()
        return
      }
      case 'eqz':
      case 'sqrt':
      case 'floor':
      case 'nearest':
        throw unsupported(name, a.type)
      default:
        throw unsupported(name satisfies never, a.type)
    }
  }

  binary({ name, a, b }: Extract<Expression, { kind: 'binary' }>): void {
    const { code } = this
    const type = prefix(a.type)
    if (type === 'f32' || type === 'f64' || type === 'f32x4') {
      if (name === 'min' || name === 'max') return this.floatMinimum(name, type, a, b)
      const suffix = floatSuffix[name]
      if (suffix === undefined) throw unsupported(name, a.type)
      this.values.emit(a)
      this.values.emit(b)
      code.op(named(type, suffix))
      return
    }
    const suffix = integerSuffix[name]
    if (suffix !== undefined) {
      this.values.emit(a)
      this.values.emit(b)
      code.op(named(type === 'i32x4' && ['and', 'or', 'xor'].includes(name) ? 'v128' : type, suffix))
      return
    }
    if (type === 'i32x4' && name === 'mulHighU') {
      // The products of the lower two lanes and of the upper two lanes have 64 bits each. A shuffle takes the upper
      // halves of the 64-bit products.
      this.values.twice(a, b, (left, right) => {
        for (const op of ['i64x2_extmul_low_i32x4_u', 'i64x2_extmul_high_i32x4_u'] as const) {
          left()
          right()
          code.op(op)
        }
      })
      code.op('i8x16_shuffle').append(upperHalves)
      return
    }
    if (type === 'i32x4') {
      const minimum = vectorMinimum[name]
      if (!minimum) throw unsupported(name, a.type)
      this.values.emit(a)
      this.values.emit(b)
      code.op(minimum)
      return
    }
    const scalar = type as 'i32' | 'i64'
    if (name === 'div' || name === 'divU' || name === 'rem' || name === 'remU')
      return this.divide(name, scalar, a, b)
    if (name === 'mulHighU') {
      if (scalar === 'i64') throw unsupported(name, a.type)
      for (const operand of [a, b]) {
        this.values.emit(operand)
        code.op('i64_extend_i32_u')
      }
      code.op('i64_mul').op('i64_const').signed(32).op('i64_shr_u').op('i32_wrap_i64')
      return
    }
    this.values.twice(a, b, (left, right) => {
      const less = { min: 'lt_s', max: 'gt_s', minU: 'lt_u', maxU: 'gt_u' }[
        name as 'min' | 'max' | 'minU' | 'maxU'
      ]
      left()
      right()
      left()
      right()
      code.op(named(scalar, less)).op('select')
    })
  }

  /** Division never traps: division by zero returns 0, and an overflow wraps. */
  private divide(
    name: 'div' | 'divU' | 'rem' | 'remU',
    type: 'i32' | 'i64',
    a: Expression,
    b: Expression,
  ): void {
    const { code } = this
    const op = named(type, { div: 'div_s', divU: 'div_u', rem: 'rem_s', remU: 'rem_u' }[name])
    if (b.kind === 'const' && b.value !== 0 && (b.value !== -1 || name !== 'div')) {
      this.values.emit(a)
      this.values.emit(b)
      code.op(op)
      return
    }
    this.values.twice(a, b, (left, right) => {
      right()
      if (name === 'div') {
        // For the divisors 0 and -1, the quotient is defined as the wrapped product of the operands: 0 or the negated
        // dividend.
        code.op(`${type}_const`).signed(1).op(`${type}_add`)
        code.op(`${type}_const`).signed(2).op(`${type}_lt_u`)
        code.op('if').byte(valueType[type])
        left()
        right()
        code.op(`${type}_mul`)
      } else {
        code.op(`${type}_eqz`).op('if').byte(valueType[type])
        this.zero(type)
      }
      code.op('else')
      left()
      right()
      code.op(op).op('end')
    })
  }

  /**
   * Computes min or max such that a NaN yields the other operand and -0 is below 0. Wasm's pmin(a, b) is b < a ? b : a,
   * so it returns its first operand for NaNs and equal zeros.
   */
  private floatMinimum(
    name: 'min' | 'max',
    type: 'f32' | 'f64' | 'f32x4',
    a: Expression,
    b: Expression,
  ): void {
    const { code, relaxed } = this
    if (a.kind === 'const') [a, b] = [b, a]
    const losingZero = name === 'min' ? 0 : -0
    if (b.kind === 'const' && !Number.isNaN(b.value) && !Object.is(b.value, losingZero)) {
      const limit = b
      if (type === 'f32x4') {
        this.values.emit(limit)
        this.values.emit(a)
        code.op(name === 'min' ? 'f32x4_pmin' : 'f32x4_pmax')
        return
      }
      this.values.twice(a, limit, (left, right) => {
        left()
        right()
        left()
        right()
        code.op(named(type, name === 'min' ? 'lt' : 'gt')).op('select')
      })
      return
    }
    this.values.twice(a, b, (left, right) => {
      if (type !== 'f32x4') {
        right()
        left()
        left()
        right()
        code.op(named(type, name))
        right()
        right()
        code.op(`${type}_ne`).op('select')
        left()
        left()
        code.op(`${type}_ne`).op('select')
        return
      }
      // Equal lanes can differ only in the sign of a zero, which `or` and `and` resolve. In min and max, a NaN in `a`
      // is replaced by `b` first.
      const choose = relaxed ? 'i32x4_relaxed_laneselect' : 'v128_bitselect'
      left()
      right()
      code.op(name === 'min' ? 'v128_or' : 'v128_and')
      right()
      left()
      left()
      left()
      code.op('f32x4_ne').op(choose)
      right()
      code.op(name === 'min' ? 'f32x4_pmin' : 'f32x4_pmax')
      left()
      right()
      code.op('f32x4_eq').op(choose)
    })
  }

  compare(name: CompareName, a: Expression, b: Expression): void {
    const { code } = this
    const type = prefix(a.type)
    this.values.emit(a)
    if (name === 'eq' && b.kind === 'const' && b.value === 0 && (type === 'i32' || type === 'i64')) {
      code.op(`${type}_eqz`)
      return
    }
    this.values.emit(b)
    const names = compareSuffix[name]
    const suffix = { float: names.float, integer: names.integer, pointer: names.pointer ?? names.integer }[
      kindOf[a.type]
    ]
    if (suffix === undefined) throw unsupported(name, a.type)
    code.op(named(type, suffix))
  }

  fma({ type, a, b, c }: Extract<Expression, { kind: 'fma' }>): void {
    const { code, relaxed } = this
    this.values.emit(a)
    this.values.emit(b)
    if (type === 'vf32' && relaxed) {
      this.values.emit(c)
      code.op('f32x4_relaxed_madd')
      return
    }
    const vector = type === 'vf32'
    code.op(vector ? 'f32x4_mul' : 'f32_mul')
    this.values.emit(c)
    code.op(vector ? 'f32x4_add' : 'f32_add')
  }

  private zero(type: 'i32' | 'i64'): void {
    this.code.op(`${type}_const`).signed(0)
  }
}
