/**
 * Reductions. Along the columns of an accumulator a row's four threads exchange by shuffles; along its rows, and of a vector
 * to a scalar, warps exchange partial results through shared memory, so that every thread ends with the same bits.
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

/** What a reduction starts from where a thread may hold nothing. */
function neutral(node: Node, dtype: DType): string {
  if (node.op === 'reduce.sum') return literal(dtype, 0)
  const largest: Partial<Record<DType, number>> = { f32: Infinity, i32: 2 ** 31 - 1, u32: 2 ** 32 - 1 }
  const smallest: Partial<Record<DType, number>> = { f32: -Infinity, i32: -(2 ** 31), u32: 0 }
  if (dtype === 'i64')
    return node.op === 'reduce.min' ? '0x7fffffffffffffffll' : '(-0x7fffffffffffffffll - 1)'
  return literal(dtype, (node.op === 'reduce.min' ? largest : smallest)[dtype]!)
}

export const reduce: Renderer = (node, emission) => {
  const [source] = node.inputs
  if (isSplat(source)) emission.refuse(node, 'of a constant fragment: compute it when recording')
  const from = emission.plans.layouts.of(source)
  if (!isFragment(node)) return toScalar(node, emission)
  if (from.kind !== 'accumulator')
    emission.refuse(
      node,
      'of a matrix that is not a product is not lowered to CUDA yet: reduce one row at a time',
    )
  if (attribute<number>(node, 'axis') === 1) alongColumns(node, emission)
  else alongRows(node, emission)
}

function alongColumns(node: Node, emission: Emission): void {
  const [source] = node.inputs
  const matrix = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype, node)
  const combine = combineOf(node)
  const name = emission.declareFragment(node, node.op.replace('reduce.', 'row_'))
  const { count } = emission.plans.layouts.of(node)
  const slot = sliceIndex('rows', matrix, 'i')
  emission.out.unrolled(count, `${name}[i] = ${neutral(node, dtype)};`, node.site)
  emission.out.unrolled(
    matrix.count,
    `${name}[${slot}] = ${combine(`${name}[${slot}]`, emission.element(source, 'i').text)};`,
  )
  emission.out.unrolled(count, `${name}[i] = across<1, 4>(${name}[i], ${lambda(type, combine)});`)
}

function alongRows(node: Node, emission: Emission): void {
  const [source] = node.inputs
  const { out, group } = emission
  const matrix = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype, node)
  const combine = combineOf(node)
  const columns = matrix.shape[1]
  const name = emission.declareFragment(node, node.op.replace('reduce.', 'column_'))
  const layout = emission.plans.layouts.of(node)
  const slot = sliceIndex('columns', matrix, 'i')
  out.unrolled(layout.count, `${name}[i] = ${neutral(node, dtype)};`, node.site)
  out.unrolled(
    matrix.count,
    `${name}[${slot}] = ${combine(`${name}[${slot}]`, emission.element(source, 'i').text)};`,
  )
  out.unrolled(layout.count, `${name}[i] = across<4, 32>(${name}[i], ${lambda(type, combine)});`)
  const bytes = dtype === 'i64' ? 8 : 4
  const at = (warp: string): string =>
    `${emission.exchange()} + (${warp} * ${columns} + ${layout.place('i')[0]}) * ${bytes}`
  out.unrolled(layout.count, `if (thread % 32 < 4) shared_store<${type}>(${at('thread / 32')}, ${name}[i]);`)
  emission.meet()
  out.unrolled(
    layout.count,
    `{ ${type} total = ${neutral(node, dtype)}; for (u32 w = 0; w < ${group.warps}; ++w) total = ${combine('total', `shared_load<${type}>(${at('w')})`)}; ${name}[i] = total; }`,
  )
  emission.meet()
}

function toScalar(node: Node, emission: Emission): void {
  const [source] = node.inputs
  const { out, group } = emission
  const layout = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype, node)
  const combine = combineOf(node)
  const partial = emission.names.take(node.op.replace('reduce.', ''))
  out.line(`${type} ${partial} = ${neutral(node, dtype)};`, node.site)
  const exists = layout.exists('i')
  out.unrolled(
    layout.count,
    `${exists ? `if (${exists}) ` : ''}${partial} = ${combine(partial, emission.element(source, 'i').text)};`,
  )
  const f = lambda(type, combine)
  if (layout.kind === 'columns') out.line(`${partial} = across<1, 4>(${partial}, ${f});`)
  else {
    out.line(`${partial} = across<${layout.kind === 'rows' ? 4 : 1}, 32>(${partial}, ${f});`)
    const bytes = dtype === 'i64' ? 8 : 4
    const at = (warp: string): string => `${emission.exchange()} + ${warp} * ${bytes}`
    out.line(`if (thread % 32 == 0) shared_store<${type}>(${at('thread / 32')}, ${partial});`)
    emission.meet()
    out.line(`${partial} = ${neutral(node, dtype)};`)
    out.line(
      `for (u32 w = 0; w < ${group.warps}; ++w) ${partial} = ${combine(partial, `shared_load<${type}>(${at('w')})`)};`,
    )
    emission.meet()
  }
  emission.setScalar(node, partial)
}

/** Bytes of the group's exchange that a reduction needs. */
export function exchangeBytes(node: Node, warps: number): number {
  const source = node.inputs[0].type as ValueType
  const bytes = source.dtype === 'i64' ? 8 : 4
  if (!isFragment(node)) return warps * bytes
  return attribute<number>(node, 'axis') === 0 ? warps * source.shape[1] * bytes : 0
}
