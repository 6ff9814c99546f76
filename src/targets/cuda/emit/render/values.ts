/** Renders constants, ids, elementwise arithmetic and shape changes. */
import { attribute, type Node } from '../../../../ir/node.ts'
import { origin } from '../../../../ir/ops/index.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { isFragment, isIndexed, isSplat, shapeOf } from '../assign.ts'
import {
  bare,
  cast,
  code,
  EVEN,
  group,
  integer,
  isNegative,
  nameOf as nameIn,
  ODD,
  plain,
  REGISTER,
  word,
  type Code,
} from '../code.ts'
import { oddOf, type Emission } from '../emission.ts'
import { sliceIndex } from '../layout.ts'
import { lib } from '../library.ts'
import { is16Bit, literal, spellElement, type Operand } from '../spell.ts'
import { viewOf } from '../views.ts'
import { move, moveElement } from './exchange.ts'
import { extentText } from './places.ts'
import type { Renderer } from './renderer.ts'

export const constant: Renderer = (node, emission) => {
  const { dtype } = node.type as ValueType
  const text = literal(dtype, attribute<number>(node, 'value'))
  emission.setScalar(node, isNegative(text) ? group(text) : text)
}

export const rank: Renderer = (node, emission) => emission.setScalar(node, emission.params.rank)
export const program: Renderer = (node, emission) =>
  emission.setScalar(node, cast(lib.i32, plain('blockIdx.x')))
export const programs: Renderer = (node, emission) =>
  emission.setScalar(node, cast(lib.i32, plain('gridDim.x')))

export const dim: Renderer = (node, emission) => {
  const [of] = node.inputs
  const axis = attribute<number>(node, 'axis')
  if (of.type.kind === 'flags') {
    return emission.setScalar(node, emission.params.dim(emission.paramName(origin(of).base), axis))
  }
  const view = viewOf(of)
  emission.setScalar(node, extentText(view, view.axes[axis], emission))
}

export const iota: Renderer = (node, emission) => {
  const layout = emission.plans.layouts.of(node)
  const at = ([index]: readonly Code[]): Code => cast(lib.i32, index)
  emission.setFragment(node, { layout, array: undefined, element: (i) => at(layout.place(i)), at })
}

const words: Partial<Record<Node['op'], string>> = {
  add: 'plus',
  sub: 'minus',
  mul: 'times',
  div: 'over',
  mod: 'mod',
}

/**
 * Returns a variable name that describes the computation, such as `m_plus_1`, or the op's name if the descriptive name
 * has more than 32 characters.
 */
function nameOf(node: Node, emission: Emission): string {
  const describe = (one: Node): string => {
    if (one.op === 'const') {
      const value = attribute<number>(one, 'value')
      return value < 0 ? `minus_${-value}` : String(value)
    }
    const [x, y] = one.inputs
    const verb = words[one.op]
    if (!verb) return known(one)
    if (one.op === 'div' && y.op === 'const' && isRoundedUp(x, attribute<number>(y, 'value')))
      return `${describe(x.inputs[0])}_ceil_${describe(y)}`
    return `${describe(x)}_${verb}_${describe(y)}`
  }
  const known = (one: Node): string => {
    const own = one === node ? undefined : emission.scalar(one)
    return (own && nameIn(own)) ?? one.op
  }
  const name = describe(node)
  return name.length <= 32 ? name : node.op
}

const isRoundedUp = (sum: Node, by: number): boolean =>
  sum.op === 'add' && sum.inputs[1].op === 'const' && attribute<number>(sum.inputs[1], 'value') === by - 1

export const elementwise: Renderer = (node, emission) => {
  const splat = isSplat(node)
  if (!isFragment(node) || splat) {
    const operands = node.inputs.map((input) => emission.operand(input))
    const expression = spellElement(node, operands)
    return emission.defineScalar(node, expression, nameOf(node, emission))
  }
  const { dtype } = node.type as ValueType
  if (node.op === 'convert' && !isIndexed(node)) return move(node, emission)
  const layout = emission.plans.layouts.of(node)
  const { count } = layout
  const at = (i: Code): Code =>
    spellElement(
      node,
      node.inputs.map((input) => emission.element(input, i, layout.place(i))),
    )
  if (isIndexed(node) && !is16Bit(dtype)) return indexed(node, emission)
  const isSameNumbers = node.op === 'cast' || node.op === 'convert'
  const name = emission.declareFragment(node, isSameNumbers ? `as_${dtype}` : node.op)
  if (!is16Bit(dtype)) return emission.out.unrolled(count, code`${name}[i] = ${at(REGISTER)};`, node.site)
  const [source] = node.inputs
  const isPacked = node.op === 'cast' && (source.type as ValueType).dtype === 'f32'
  // The register index `i` needs parentheses inside an expression, but not inside array brackets.
  const element = (i: Code): Code => emission.element(source, bare(i), layout.place(i)).text
  const pair = isPacked
    ? code`${lib[`pack_${dtype as 'f16' | 'bf16'}`]}(${element(EVEN)}, ${oddOf(count, element(ODD))})`
    : code`${lib.pack_bits}(${at(EVEN)}, ${oddOf(count, at(ODD))})`
  emission.out.unrolled(Math.ceil(count / 2), code`${name}[p] = ${pair};`, node.site, 'p')
}

/** Defines a fragment without registers, whose elements are computed from their indices at each use. */
function indexed(node: Node, emission: Emission): void {
  const layout = emission.plans.layouts.of(node)
  const at = (place: readonly Code[]): Code =>
    spellElement(
      node,
      node.inputs.map((input) =>
        isSplat(input) ? emission.operand(input) : indexedOperand(input, place, emission),
      ),
    )
  emission.setFragment(node, { layout, array: undefined, element: (i) => at(layout.place(i)), at })
}

function indexedOperand(node: Node, place: readonly Code[], emission: Emission): Operand {
  return { text: emission.fragment(node).at!(place), nonNegative: emission.plans.ranges.isNonNegative(node) }
}

export const expand: Renderer = (node, emission) => {
  const [source] = node.inputs
  if (isSplat(node)) return emission.setScalar(node, emission.scalar(source))
  const from = emission.fragment(source)
  const layout = emission.plans.layouts.of(node)
  if (!from.at) return emission.setFragment(node, { ...from, layout })
  // Elements that are computed from their index use the index in this node's layout, which may differ from the
  // source's layout.
  const kept = attribute<number>(node, 'axis') === 0 ? 1 : 0
  const at = (place: readonly Code[]): Code => from.at!([place[kept]])
  emission.setFragment(node, { layout, array: undefined, element: (i) => at(layout.place(i)), at })
}

export const broadcast: Renderer = (node, emission) => {
  const [source] = node.inputs
  if (isSplat(node)) return emission.setScalar(node, emission.scalar(source))
  const layout = emission.plans.layouts.of(node)
  const from = emission.fragment(source)
  const shape = shapeOf(source)
  const at =
    from.at &&
    ((place: readonly Code[]): Code =>
      from.at!(place.slice(-shape.length).map((index, axis) => (shape[axis] === 1 ? integer(0) : index))))
  const kind = from.layout.kind
  const axis = kind === 'rows' ? 0 : 1
  const isSlice =
    layout.spread !== undefined &&
    (kind === 'rows' || kind === 'columns') &&
    shape[axis] === shapeOf(node)[axis]
  if (emission.plans.scratch.has(node)) {
    const name = moveElement(node, emission)
    return emission.setFragment(node, { layout, array: undefined, element: () => word(name) })
  }
  if (isSlice) {
    const element = (i: Code): Code => from.element(sliceIndex(kind, layout, i))
    return emission.setFragment(node, { layout, array: undefined, element, ...(at && { at }) })
  }
  if (!at)
    return emission.refuse(
      node,
      `a broadcast of [${shape.join('x')}] to [${shapeOf(node).join('x')}] is not lowered to CUDA yet: reduce to a scalar first`,
    )
  emission.setFragment(node, { layout, array: undefined, element: (i) => at(layout.place(i)), at })
}

export const transpose: Renderer = (node, emission) => {
  if (node.type.kind !== 'value') return // a transposed shared tile is a view and emits nothing
  if (isSplat(node.inputs[0])) return emission.setScalar(node, emission.scalar(node.inputs[0]))
  move(node, emission)
}
