/**
 * Renders reductions. Threads of one warp combine a row or a column of a matrix by shuffles. Warps that share a row
 * or a column, and all warps in a reduction to a scalar, exchange partial results through shared memory. Every
 * thread ends with the same bits.
 */
import type { DType } from '../../../../ir/dtype.ts'
import { attribute, type Node } from '../../../../ir/node.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { isFragment, isSplat } from '../assign.ts'
import type { Emission } from '../emission.ts'
import { sliceIndex } from '../layout.ts'
import { literal, registerType } from '../spell.ts'
import type { Renderer } from './renderer.ts'

type Combine = (a: string, b: string) => string

function combineOf(node: Node): Combine {
  const { dtype } = node.type as ValueType
  const kind = node.op.slice('reduce.'.length)
  if (kind === 'sum') {
    const wide = dtype === 'i64' ? 'u64' : 'u32'
    return dtype === 'i32' || dtype === 'i64'
      ? (a, b) => `(${dtype})((${wide})${a} + (${wide})${b})`
      : (a, b) => `${a} + ${b}`
  }
  if (dtype === 'f32') return (a, b) => `f${kind}f(${a}, ${b})`
  return (a, b) => `(${a} ${kind === 'min' ? '<' : '>'} ${b} ? ${a} : ${b})`
}

const lambda = (type: string, combine: Combine): string =>
  `[](${type} a, ${type} b) { return ${combine('a', 'b')}; }`

/**
 * The initial value of a reduction, for threads that may hold no element. For the minimum and maximum of floats it
 * is NaN: fminf and fmaxf prefer any number to NaN, and return NaN if both operands are NaN.
 */
function neutral(node: Node, dtype: DType): string {
  if (node.op === 'reduce.sum') return literal(dtype, 0)
  const largest: Partial<Record<DType, number>> = { f32: NaN, i32: 2 ** 31 - 1, u32: 2 ** 32 - 1 }
  const smallest: Partial<Record<DType, number>> = { f32: NaN, i32: -(2 ** 31), u32: 0 }
  if (dtype === 'i64')
    return node.op === 'reduce.min' ? '0x7fffffffffffffffll' : '(-0x7fffffffffffffffll - 1)'
  return literal(dtype, (node.op === 'reduce.min' ? largest : smallest)[dtype]!)
}

export const reduce: Renderer = (node, emission) => {
  const [source] = node.inputs
  if (isSplat(source)) emission.refuse(node, 'of a constant fragment: compute it when recording')
  const from = emission.plans.layouts.of(source)
  if (!isFragment(node)) return toScalar(node, emission)
  if (!from.spread) emission.refuse(node, 'of a vector along an axis it does not have')
  if (attribute<number>(node, 'axis') === 1) alongColumns(node, emission)
  else alongRows(node, emission)
}

function alongColumns(node: Node, emission: Emission): void {
  const name = withinThread(node, 'rows', emission)
  const { count } = emission.plans.layouts.of(node)
  emission.out.unrolled(count, `${name}[i] = across<1, 4>(${name}[i], ${functionOf(node).f});`)
}

function alongRows(node: Node, emission: Emission): void {
  const name = withinThread(node, 'columns', emission)
  const { count } = emission.plans.layouts.of(node)
  emission.out.unrolled(count, `${name}[i] = across<4, 32>(${name}[i], ${functionOf(node).f});`)
}

/** Combines the partial results of the warps that share a row or a column. */
export const combine: Renderer = (node, emission) => {
  const [reduction] = node.inputs
  const matrix = emission.plans.layouts.of(reduction.inputs[0])
  const { columnWarps, rowWarps, warpsOfRow } = matrix.spread!
  const bytes = functionOf(reduction).type === 'i64' ? 8 : 4
  const isAlongRow = attribute<number>(reduction, 'axis') === 1
  amongWarps(
    node,
    emission,
    isAlongRow
      ? {
          warps: columnWarps,
          isWriter: 'thread % 4 == 0',
          own: `thread / 32 % ${columnWarps}`,
          at: (warp, place) => `(${place} * ${columnWarps} + ${warp}) * ${bytes}`,
        }
      : {
          warps: rowWarps,
          isWriter: 'thread % 32 < 4',
          own: `thread / ${32 * warpsOfRow}`,
          at: (warp, place) => `(${warp} * ${matrix.shape[1]} + ${place}) * ${bytes}`,
        },
  )
}

function functionOf(node: Node): { readonly type: string; readonly f: string } {
  const type = registerType((node.type as ValueType).dtype)
  return { type, f: lambda(type, combineOf(node)) }
}

/** Reduces the thread's own elements of each row or column, and returns the name of the registers with the results. */
function withinThread(node: Node, kind: 'rows' | 'columns', emission: Emission): string {
  const [source] = node.inputs
  const matrix = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const combine = combineOf(node)
  const prefix = kind === 'rows' ? 'row_' : 'column_'
  const name = emission.declareFragment(node, node.op.replace('reduce.', prefix))
  const { count } = emission.plans.layouts.of(node)
  const slot = sliceIndex(kind, matrix, 'i')
  const exists = matrix.exists('i')
  const text = `${name}[${slot}] = ${combine(`${name}[${slot}]`, emission.element(source, 'i').text)};`
  emission.out.unrolled(count, `${name}[i] = ${neutral(node, dtype)};`, node.site)
  emission.out.unrolled(matrix.count, exists ? `if (${exists}) ${text}` : text)
  return name
}

interface Exchange {
  readonly warps: number
  /** A condition that selects one thread of a warp for each different result. */
  readonly isWriter: string
  /** The index of this warp among the warps that share a row or column. */
  readonly own: string
  /** Returns the offset in bytes, in the scratch memory of the node, of a warp's result for row or column `place`. */
  at(warp: string, place: string): string
}

function amongWarps(node: Node, emission: Emission, { warps, isWriter, own, at }: Exchange): void {
  const { out } = emission
  const [reduction] = node.inputs
  const name = emission.fragment(reduction).array!
  emission.aliasFragment(node, name)
  const { dtype, shape } = node.type as ValueType
  const { type } = functionOf(reduction)
  const layout = emission.plans.layouts.of(node)
  const combine = combineOf(reduction)
  const place = layout.place('i')[shape.length - 1]
  const exists = layout.exists('i')
  const scratch = emission.scratch(node)
  const guard = exists ? `${isWriter} && ${exists}` : isWriter
  out.unrolled(
    layout.count,
    `if (${guard}) shared_store<${type}>(${scratch} + ${at(own, place)}, ${name}[i]);`,
  )
  emission.meet(node.site)
  const total = `${type} total = ${neutral(reduction, dtype)}; for (u32 w = 0; w < ${warps}; ++w) total = ${combine('total', `shared_load<${type}>(${scratch} + ${at('w', place)})`)}; ${name}[i] = total;`
  out.unrolled(layout.count, exists ? `if (${exists}) { ${total} }` : `{ ${total} }`)
}

function toScalar(node: Node, emission: Emission): void {
  const [source] = node.inputs
  const { out, group } = emission
  const layout = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype)
  const combine = combineOf(node)
  const partial = emission.names.take(node.op.replace('reduce.', ''))
  out.line(`${type} ${partial} = ${neutral(node, dtype)};`, node.site)
  const guard = [layout.isFirst, layout.exists('i')].filter((one) => one !== undefined).join(' && ')
  out.unrolled(
    layout.count,
    `${guard ? `if (${guard}) ` : ''}${partial} = ${combine(partial, emission.element(source, 'i').text)};`,
  )
  out.line(`${partial} = across<1, 32>(${partial}, ${lambda(type, combine)});`)
  const bytes = dtype === 'i64' ? 8 : 4
  const at = (warp: string): string => `${emission.exchange()} + ${warp} * ${bytes}`
  out.line(`if (thread % 32 == 0) shared_store<${type}>(${at('thread / 32')}, ${partial});`)
  emission.meet()
  out.line(`${partial} = ${neutral(node, dtype)};`)
  out.line(
    `for (u32 w = 0; w < ${group.warps}; ++w) ${partial} = ${combine(partial, `shared_load<${type}>(${at('w')})`)};`,
  )
  emission.meet()
  emission.setVariable(node, partial)
}
