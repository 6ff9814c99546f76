/**
 * Renders reductions. Threads of one warp combine a row or a column of a matrix by shuffles. Warps that share a row or
 * a column, and all warps in a reduction to a scalar, exchange partial results through shared memory. At the end of a
 * reduction, all threads that hold the same result element hold identical bits.
 */
import type { DType } from '../../../../ir/dtype.ts'
import { attribute, type Node } from '../../../../ir/node.ts'
import { entryOf, type ReductionName } from '../../../../ir/ops/index.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { isFragment, isSplat } from '../assign.ts'
import { all, code, plain, REGISTER, type Code, type Part, type Variable } from '../code.ts'
import type { Emission } from '../emission.ts'
import { sliceIndex } from '../layout.ts'
import { literal, registerType } from '../spell.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'

type Combine = (a: Part, b: Part) => Code

const verbs: Readonly<Record<ReductionName, 'sum' | 'max' | 'min'>> = {
  'reduce.sum': 'sum',
  'reduce.max': 'max',
  'reduce.min': 'min',
}

const verbOf = (node: Node): 'sum' | 'max' | 'min' => entryOf(verbs, node, 'is not a reduction')

function combineOf(node: Node): Combine {
  const { dtype } = node.type as ValueType
  const kind = verbOf(node)
  if (kind === 'sum') {
    const wide = dtype === 'i64' ? 'u64' : 'u32'
    return dtype === 'i32' || dtype === 'i64'
      ? (a, b) => code`(${registerType(dtype)})((${wide})${a} + (${wide})${b})`
      : (a, b) => code`${a} + ${b}`
  }
  if (dtype === 'f32') return (a, b) => code`f${kind}f(${a}, ${b})`
  return (a, b) => code`(${a} ${kind === 'min' ? '<' : '>'} ${b} ? ${a} : ${b})`
}

const lambda = (type: Code, combine: Combine): Code =>
  code`[](${type} a, ${type} b) { return ${combine('a', 'b')}; }`

/**
 * The initial value of a reduction, for threads that may hold no element. For the minimum and maximum of floats, the
 * initial value is NaN: fminf and fmaxf prefer any number to NaN, and return NaN if both operands are NaN.
 */
function neutral(node: Node, dtype: DType): Code {
  const verb = verbOf(node)
  if (verb === 'sum') return literal(dtype, 0)
  const largest: Partial<Record<DType, number>> = { f32: NaN, i32: 2 ** 31 - 1, u32: 2 ** 32 - 1 }
  const smallest: Partial<Record<DType, number>> = { f32: NaN, i32: -(2 ** 31), u32: 0 }
  if (dtype === 'i64')
    return verb === 'min' ? plain('0x7fffffffffffffffll') : plain('(-0x7fffffffffffffffll - 1)')
  return literal(dtype, (verb === 'min' ? largest : smallest)[dtype]!)
}

export const reduce: Renderer = (node, emission) => {
  const [source] = node.inputs
  if (isSplat(source))
    emission.refuse(node, 'the reduced fragment is constant: compute the result when the kernel is recorded')
  const from = emission.plans.layouts.of(source)
  if (!isFragment(node)) return toScalar(node, emission)
  if (!from.spread) emission.refuse(node, 'the reduced fragment is a vector, which does not have this axis')
  if (attribute<number>(node, 'axis') === 1) alongColumns(node, emission)
  else alongRows(node, emission)
}

function alongColumns(node: Node, emission: Emission): void {
  const name = withinThread(node, 'rows', emission)
  const { count } = emission.plans.layouts.of(node)
  emission.out.unrolled(count, code`${name}[i] = ${lib.across}<1, 4>(${name}[i], ${functionOf(node).f});`)
}

function alongRows(node: Node, emission: Emission): void {
  const name = withinThread(node, 'columns', emission)
  const { count } = emission.plans.layouts.of(node)
  emission.out.unrolled(count, code`${name}[i] = ${lib.across}<4, 32>(${name}[i], ${functionOf(node).f});`)
}

/** Combines the partial results of the warps that share a row or a column. */
export const combine: Renderer = (node, emission) => {
  const [reduction] = node.inputs
  const matrix = emission.plans.layouts.of(reduction.inputs[0])
  const { columnWarps, rowWarps, warpsOfRow } = matrix.spread!
  const bytes = (reduction.type as ValueType).dtype === 'i64' ? 8 : 4
  const isAlongRow = attribute<number>(reduction, 'axis') === 1
  amongWarps(
    node,
    emission,
    isAlongRow
      ? {
          warps: columnWarps,
          isWriter: 'thread % 4 == 0',
          own: code`thread / 32 % ${columnWarps}`,
          at: (warp, place) => code`(${place} * ${columnWarps} + ${warp}) * ${bytes}`,
        }
      : {
          warps: rowWarps,
          isWriter: 'thread % 32 < 4',
          own: code`thread / ${32 * warpsOfRow}`,
          at: (warp, place) => code`(${warp} * ${matrix.shape[1]} + ${place}) * ${bytes}`,
        },
  )
}

function functionOf(node: Node): { readonly type: Code; readonly f: Code } {
  const type = registerType((node.type as ValueType).dtype)
  return { type, f: lambda(type, combineOf(node)) }
}

/** Reduces the thread's own elements of each row or column, and returns the registers with the results. */
function withinThread(node: Node, kind: 'rows' | 'columns', emission: Emission): Variable {
  const [source] = node.inputs
  const matrix = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const combine = combineOf(node)
  const name = emission.declareFragment(node, `${kind === 'rows' ? 'row' : 'column'}_${verbOf(node)}`)
  const { count } = emission.plans.layouts.of(node)
  const slot = sliceIndex(kind, matrix, REGISTER)
  const exists = matrix.exists(REGISTER)
  const text = code`${name}[${slot}] = ${combine(code`${name}[${slot}]`, emission.element(source, REGISTER).text)};`
  emission.out.unrolled(count, code`${name}[i] = ${neutral(node, dtype)};`, node.site)
  emission.out.unrolled(matrix.count, exists ? code`if (${exists}) ${text}` : text)
  return name
}

interface Exchange {
  readonly warps: number
  /** A condition that selects one thread of a warp for each different result. */
  readonly isWriter: string
  /** The index of the executing warp among the warps that share a row or column. */
  readonly own: Code
  /** Returns the offset in bytes, in the scratch memory of the node, of a warp's result for row or column `place`. */
  at(warp: Part, place: Code): Code
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
  const place = layout.place(REGISTER)[shape.length - 1]
  const exists = layout.exists(REGISTER)
  const scratch = emission.scratch(node)
  const guard = exists ? code`${isWriter} && ${exists}` : isWriter
  const write = code`if (${guard}) ${lib.shared_store}<${type}>(${scratch} + ${at(own, place)}, ${name}[i]);`
  const total = code`${type} total = ${neutral(reduction, dtype)}; for (u32 w = 0; w < ${warps}; ++w) total = ${combine('total', code`${lib.shared_load}<${type}>(${scratch} + ${at('w', place)})`)}; ${name}[i] = total;`
  const read = exists ? code`if (${exists}) { ${total} }` : code`{ ${total} }`
  emission.exchange(node, {
    write: () => out.unrolled(layout.count, write),
    read: () => out.unrolled(layout.count, read),
  })
}

function toScalar(node: Node, emission: Emission): void {
  const [source] = node.inputs
  const { out, group } = emission
  const layout = emission.plans.layouts.of(source)
  const { dtype } = node.type as ValueType
  const type = registerType(dtype)
  const combine = combineOf(node)
  const partial = emission.variable(verbOf(node))
  out.line(code`${type} ${partial} = ${neutral(node, dtype)};`, node.site)
  const guard = all([layout.isFirst, layout.exists(REGISTER)])
  out.unrolled(
    layout.count,
    code`${guard ? code`if (${guard}) ` : ''}${partial} = ${combine(partial, emission.element(source, REGISTER).text)};`,
  )
  out.line(code`${partial} = ${lib.across}<1, 32>(${partial}, ${lambda(type, combine)});`)
  const bytes = dtype === 'i64' ? 8 : 4
  const at = (warp: string): Code => code`${emission.exchangeBuffer()} + ${warp} * ${bytes}`
  const total = code`for (u32 w = 0; w < ${group.warps}; ++w) ${partial} = ${combine(partial, code`${lib.shared_load}<${type}>(${at('w')})`)};`
  emission.exchange(node, {
    write: () =>
      out.line(code`if (thread % 32 == 0) ${lib.shared_store}<${type}>(${at('thread / 32')}, ${partial});`),
    read: () => {
      out.line(code`${partial} = ${neutral(node, dtype)};`)
      out.line(total)
    },
  })
  emission.setVariable(node, partial)
}
