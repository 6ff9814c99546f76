/**
 * Lowers one element of a value operation, or a vector of elements. The semantics of value operations are those of
 * `evaluate` in src/ir/ops/values.ts. Operations without a vector form are marked as such. Operations that can fail
 * raise a fault at their source line.
 */
import type { DType } from '../../../ir/dtype.ts'
import { dtypes } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, opOf, type ElementwiseName } from '../../../ir/ops/index.ts'
import { and, binary, compare, constant, convert, i32, select, unary, use } from '../build.ts'
import type { BinaryName, CodeType, CompareName, Expression } from '../code.ts'
import { constantOf, valueOf, type Lowering } from './context.ts'
import { cast, isVector } from './convert.ts'
import { erf, exp, exp2, log, log2, sigmoid, tanh } from './math.ts'
import { cosine, power, sine } from './math64.ts'
import { philoxWord } from './random.ts'
import { raise } from './sync.ts'

type Plain = Exclude<CodeType, 'ptr'>
const filled = (type: CodeType, value: number): Expression => constant(type as Plain, value)
const isUnsigned = (dtype: DType): boolean => dtype === 'u32'
const isInteger = (dtype: DType): boolean => dtypes[dtype].kind === 'int'

/** The scalar that fills the whole fragment, or undefined if the elements differ. */
export function uniform(node: Node): Node | undefined {
  if (valueOf(node).shape.length === 0) return node
  return opOf(node).elements === 'stretched' ? uniform(node.inputs[0]) : undefined
}

type Make = (l: Lowering, node: Node, inputs: readonly Expression[]) => Expression

/** How the lowering emits an operation, and whether the operation accepts vector inputs. */
interface Element {
  readonly make: Make
  hasVectors(node: Node): boolean
}

const onBoth = (make: Make): Element => ({ make, hasVectors: () => true })
const onScalars = (make: Make): Element => ({ make, hasVectors: () => false })
const onFloats = (make: Make): Element => ({ make, hasVectors: (node) => valueOf(node).dtype === 'f32' })

const same = (name: BinaryName): Element => onBoth((_, __, [a, b]) => binary(name, a, b))
const bound = (name: 'min' | 'max'): Element =>
  onBoth((l, node, [a, b]) => extreme(l, name, valueOf(node).dtype, a, b))
const comparison = (name: CompareName, unsigned: CompareName): Element =>
  onBoth((_, node, [a, b]) => compare(isUnsigned(valueOf(node.inputs[0]).dtype) ? unsigned : name, a, b))
/** A shift accepts vectors if all lanes shift by the same amount. */
const shift = (name: BinaryName, unsigned: BinaryName): Element => ({
  hasVectors: (node) => uniform(node.inputs[1]) !== undefined,
  make(_, node, [a, b]) {
    const by =
      b.type === 'i64'
        ? and(b, constant('i64', 63))
        : b.kind === 'const'
          ? i32(b.value & 31)
          : and(b, i32(31))
    return binary(isUnsigned(valueOf(node).dtype) ? unsigned : name, a, by)
  },
})

const elements: Readonly<Record<ElementwiseName, Element>> = {
  neg: onBoth((_, node, [a]) =>
    valueOf(node).dtype === 'f32' ? unary('neg', a) : binary('sub', filled(a.type, 0), a),
  ),
  abs: onBoth((l, node, [a]) => {
    if (valueOf(node).dtype === 'f32') return unary('abs', a)
    const value = l.writer.let('value', a)
    return select(compare('lt', value, filled(a.type, 0)), binary('sub', filled(a.type, 0), value), value)
  }),
  not: onBoth((_, node, [a]) =>
    valueOf(node).dtype === 'bool' && !isVector(a.type)
      ? unary('eqz', a)
      : binary('xor', a, filled(a.type, -1)),
  ),
  exp2: onBoth((l, _, [a]) => exp2(l.writer, a)),
  exp: onBoth((l, _, [a]) => exp(l.writer, a)),
  log2: onBoth((l, _, [a]) => log2(l.writer, a)),
  log: onBoth((l, _, [a]) => log(l.writer, a)),
  erf: onBoth((l, _, [a]) => erf(l.writer, a)),
  sin: onScalars((l, _, [a]) => use(l.writer.call(sine, a)!)),
  cos: onScalars((l, _, [a]) => use(l.writer.call(cosine, a)!)),
  pow: onScalars((l, _, [a, b]) => use(l.writer.call(power, a, b)!)),
  floor: onBoth((_, __, [a]) => unary('floor', a)),
  // Computes ceil(x) as -floor(-x), which also gives a zero result the correct sign.
  ceil: onBoth((_, __, [a]) => unary('neg', unary('floor', unary('neg', a)))),
  round: onBoth((_, __, [a]) => unary('nearest', a)),
  tanh: onBoth((l, _, [a]) => tanh(l.writer, a)),
  sigmoid: onBoth((l, _, [a]) => sigmoid(l.writer, a)),
  sqrt: onBoth((_, __, [a]) => unary('sqrt', a)),
  rsqrt: onScalars((_, __, [a]) => {
    const root = unary('sqrt', convert('promote', 'f64', a))
    return convert('demote', 'f32', binary('div', constant('f64', 1), root))
  }),
  random: onBoth((l, node, [a, b, c, d, low, high]) =>
    philoxWord(l.writer, attribute<number>(node, 'word'), [a, b, c, d], [low, high]),
  ),
  add: same('add'),
  sub: same('sub'),
  mul: same('mul'),
  and: same('and'),
  or: same('or'),
  xor: same('xor'),
  div: onFloats((l, node, [a, b]) => quotient(l, node, a, b, 'div', 'divU')),
  mod: onFloats((l, node, [a, b]) => quotient(l, node, a, b, 'rem', 'remU')),
  min: bound('min'),
  max: bound('max'),
  shl: shift('shl', 'shl'),
  shr: shift('shr', 'shrU'),
  eq: comparison('eq', 'eq'),
  ne: comparison('ne', 'ne'),
  lt: comparison('lt', 'ltU'),
  le: comparison('le', 'leU'),
  gt: comparison('gt', 'gtU'),
  ge: comparison('ge', 'geU'),
  select: onBoth((_, __, [a, b, c]) => select(a, b, c)),
  // On a CPU, fragments are not distributed over threads, so layout conversions do nothing.
  convert: onBoth((_, __, [a]) => a),
  combine: onBoth((_, __, [a]) => a),
  cast: onBoth((l, node, [a]) =>
    cast(l.writer, l.machine, valueOf(node.inputs[0]).dtype, valueOf(node).dtype, a),
  ),
}

const elementOf = (node: Node): Element => entryOf(elements, node, 'is not an operation on elements')

/** True if the operation accepts vectors of its inputs. */
export function hasVectorForm(node: Node): boolean {
  const { dtype } = valueOf(node)
  const from = node.inputs.length > 0 ? valueOf(node.inputs[0]).dtype : dtype
  return dtype !== 'i64' && from !== 'i64' && elementOf(node).hasVectors(node)
}

/**
 * Emits an operation into `l.writer`. The `inputs` are all scalars or all vectors, except that a shift amount is always
 * a scalar.
 */
export function element(l: Lowering, node: Node, inputs: readonly Expression[]): Expression {
  return elementOf(node).make(l, node, inputs)
}

function quotient(
  l: Lowering,
  node: Node,
  a: Expression,
  b: Expression,
  name: BinaryName,
  unsigned: BinaryName,
): Expression {
  const { dtype } = valueOf(node)
  if (dtype === 'f32') return binary('div', a, b)
  const filler = uniform(node.inputs[1])
  const known = filler && constantOf(filler)
  if (known === undefined || known === 0)
    l.writer.if(compare('eq', b, filled(b.type, 0)), () => raise(l, 'divisionByZero', node))
  return binary(isUnsigned(dtype) ? unsigned : name, a, b)
}

/**
 * The minimum or maximum of two values. Code has no minimum or maximum of scalar integers, so these operations use
 * compare and select.
 */
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
