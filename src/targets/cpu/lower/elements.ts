/**
 * One element of an operation on values, or a vector of them: what `evaluate` of src/ir/ops/values.ts means. An operation that has
 * no vector form says so, and one that can fail is told where to go.
 */
import type { DType } from '../../../ir/dtype.ts'
import { dtypes } from '../../../ir/dtype.ts'
import type { Node } from '../../../ir/node.ts'
import { and, binary, compare, constant, convert, i32, select, unary, use } from '../build.ts'
import type { BinaryName, CodeType, CompareName, Expression } from '../code.ts'
import { constantOf, valueOf, type Lowering } from './context.ts'
import { cast, isVector } from './convert.ts'
import { exp2, log2, sigmoid, tanh } from './math.ts'
import { raise } from './sync.ts'

type Plain = Exclude<CodeType, 'ptr'>
const filled = (type: CodeType, value: number): Expression => constant(type as Plain, value)
const isUnsigned = (dtype: DType): boolean => dtype === 'u32'
const isInteger = (dtype: DType): boolean => dtypes[dtype].kind === 'int'

/** Whether the operation works on vectors of its inputs. Shifts do if every lane shifts by the same. */
export function hasVectorForm(node: Node): boolean {
  const { dtype } = valueOf(node)
  const from = node.inputs.length > 0 ? valueOf(node.inputs[0]).dtype : dtype
  if (dtype === 'i64' || from === 'i64') return false
  switch (node.op) {
    case 'div':
    case 'mod':
      return dtype === 'f32'
    case 'rsqrt':
      return false
    case 'shl':
    case 'shr':
      return uniform(node.inputs[1]) !== undefined
    default:
      return true
  }
}

/** The scalar that fills a fragment. */
export function uniform(node: Node): Node | undefined {
  if (valueOf(node).shape.length === 0) return node
  return node.op === 'broadcast' || node.op === 'expand' ? uniform(node.inputs[0]) : undefined
}

const compares: Readonly<Record<string, CompareName>> = {
  eq: 'eq',
  ne: 'ne',
  lt: 'lt',
  le: 'le',
  gt: 'gt',
  ge: 'ge',
}
const unsignedCompares: Readonly<Record<string, CompareName>> = {
  ...compares,
  lt: 'ltU',
  le: 'leU',
  gt: 'gtU',
  ge: 'geU',
}

/** `inputs` are of one kind, scalar or vector; a shift's amount is a scalar always. Emits into `l.writer` what it needs. */
export function element(l: Lowering, node: Node, inputs: readonly Expression[]): Expression {
  const { writer } = l
  const [a, b, c] = inputs
  const { dtype } = valueOf(node)
  switch (node.op) {
    case 'neg':
      return dtype === 'f32' ? unary('neg', a) : binary('sub', filled(a.type, 0), a)
    case 'abs': {
      if (dtype === 'f32') return unary('abs', a)
      const value = writer.let('value', a)
      return select(compare('lt', value, filled(a.type, 0)), binary('sub', filled(a.type, 0), value), value)
    }
    case 'not':
      return dtype === 'bool' && !isVector(a.type) ? unary('eqz', a) : binary('xor', a, filled(a.type, -1))
    case 'exp2':
      return exp2(writer, a)
    case 'log2':
      return log2(writer, a)
    case 'tanh':
      return tanh(writer, a)
    case 'sigmoid':
      return sigmoid(writer, a)
    case 'sqrt':
      return unary('sqrt', a)
    case 'rsqrt': {
      const root = unary('sqrt', convert('promote', 'f64', a))
      return convert('demote', 'f32', binary('div', constant('f64', 1), root))
    }
    case 'add':
    case 'sub':
    case 'mul':
    case 'and':
    case 'or':
    case 'xor':
      return binary(node.op, a, b)
    case 'div':
    case 'mod':
      return quotient(l, node, a, b)
    case 'min':
    case 'max':
      return extreme(l, node.op, dtype, a, b)
    case 'shl':
    case 'shr': {
      const name: BinaryName = node.op === 'shl' ? 'shl' : isUnsigned(dtype) ? 'shrU' : 'shr'
      const by =
        b.type === 'i64'
          ? and(b, constant('i64', 63))
          : b.kind === 'const'
            ? i32(b.value & 31)
            : and(b, i32(31))
      return binary(name, a, by)
    }
    case 'eq':
    case 'ne':
    case 'lt':
    case 'le':
    case 'gt':
    case 'ge': {
      const names = isUnsigned(valueOf(node.inputs[0]).dtype) ? unsignedCompares : compares
      return compare(names[node.op], a, b)
    }
    case 'select':
      return select(a, b, c)
    case 'cast':
      return cast(writer, l.machine, valueOf(node.inputs[0]).dtype, dtype, a)
    default:
      throw new Error(`${node.op} is not an operation on elements`)
  }
}

function quotient(l: Lowering, node: Node, a: Expression, b: Expression): Expression {
  const { dtype } = valueOf(node)
  if (dtype === 'f32') return binary('div', a, b)
  const filler = uniform(node.inputs[1])
  const known = filler && constantOf(filler)
  if (known === undefined || known === 0)
    l.writer.if(compare('eq', b, filled(b.type, 0)), () => raise(l, 'divisionByZero', node))
  const name: BinaryName =
    node.op === 'div' ? (isUnsigned(dtype) ? 'divU' : 'div') : isUnsigned(dtype) ? 'remU' : 'rem'
  return binary(name, a, b)
}

/** The smaller or the larger of two values. Scalar integers have no operation of their own. */
export function extreme(
  l: Lowering,
  name: 'min' | 'max',
  dtype: DType,
  a: Expression,
  b: Expression,
): Expression {
  if (!isInteger(dtype)) return binary(name, a, b)
  if (isVector(a.type)) return binary(isUnsigned(dtype) ? (`${name}U` as const) : name, a, b)
  const [x, y] = [l.writer.let('a', a), l.writer.let('b', b)]
  const before = name === 'min' ? 'lt' : 'gt'
  return select(compare(isUnsigned(dtype) ? (`${before}U` as const) : before, x, y), use(x), use(y))
}
