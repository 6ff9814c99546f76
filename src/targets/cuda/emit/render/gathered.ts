/**
 * Renders the ops whose result elements depend on input elements at other indices, such as argmax and prefix sums. The
 * inputs are written to the scratch memory of the node in row-major order, one after another, and every thread reads
 * the input elements that its own result elements need.
 */
import { dtypes } from '../../../../ir/dtype.ts'
import { attribute, type Node } from '../../../../ir/node.ts'
import type { GatheredName } from '../../../../ir/ops/index.ts'
import type { ValueType } from '../../../../ir/type.ts'
import { isFragment } from '../assign.ts'
import { code, group, REGISTER, type Code } from '../code.ts'
import type { Emission } from '../emission.ts'
import { lib } from '../library.ts'
import { plainTile } from '../scratch.ts'
import { registerType } from '../spell.ts'
import { readElements, writeTile } from './exchange.ts'
import type { Renderer } from './renderer.ts'

const typeOf = (node: Node): ValueType => node.type as ValueType
const extentsOf = ({ shape }: ValueType): readonly [number, number] =>
  shape.length === 1 ? [1, shape[0]] : [shape[0], shape[1]]
/** Returns the row-major number of the element at the given indices. */
const numberOf = (type: ValueType, place: readonly Code[]): Code =>
  place.length === 1 ? place[0] : code`(${place[0]} * ${extentsOf(type)[1]} + ${place[1]})`

/** The address of the scratch memory of a node. */
const baseOf = (node: Node, emission: Emission): Code => group(emission.scratch(node))

/** Writes the inputs to scratch memory. */
function writeInputs(node: Node, emission: Emission): void {
  const base = baseOf(node, emission)
  node.inputs.forEach((input, i) => {
    const tile = plainTile(input, extentsOf(typeOf(input)))
    const at = i === 0 ? base : code`(${emission.scratch(node)} + ${i * tile.stageBytes})`
    writeTile(input, { tile, base: at, transposed: false, row: undefined }, emission)
  })
}

/** Writes the inputs of a node to its scratch memory, from which `read` then reads. */
const readingInputs = (node: Node, emission: Emission, read: () => void): void =>
  emission.exchange(node, { write: () => writeInputs(node, emission), read })

/**
 * Describes the rows (or columns) of the input along the axis of the node: `lines` is the number of rows, `extent` the
 * number of elements per row, `apart` the distance between rows in bytes, and `step` the distance between elements in
 * bytes.
 */
function linesOf(node: Node): { lines: number; extent: number; apart: number; step: number } {
  const type = typeOf(node.inputs[0])
  const [rows, columns] = extentsOf(type)
  const { bytes } = dtypes[type.dtype]
  const isAlongRow = type.shape.length === 1 || attribute<number>(node, 'axis') === 1
  return isAlongRow
    ? { lines: rows, extent: columns, apart: columns * bytes, step: bytes }
    : { lines: columns, extent: rows, apart: bytes, step: columns * bytes }
}

const best: Renderer = (node, emission) => readingInputs(node, emission, () => readBest(node, emission))

function readBest(node: Node, emission: Emission): void {
  const base = baseOf(node, emission)
  const { extent, apart, step } = linesOf(node)
  const { dtype } = typeOf(node.inputs[0])
  const call = (line: Code): Code =>
    code`${lib.best_of_line}<${registerType(dtype)}, ${String(node.op === 'argmax')}>(${line}, ${step}, ${extent})`
  if (!isFragment(node)) {
    const name = emission.variable(node.op)
    emission.out.line(code`const i32 ${name} = ${call(base)};`, node.site)
    return emission.setVariable(node, name)
  }
  const layout = emission.plans.layouts.of(node)
  const name = emission.declareFragment(node, node.op)
  const text = call(code`${base} + ${layout.place(REGISTER)[0]} * ${apart}`)
  const exists = layout.exists(REGISTER)
  emission.out.unrolled(
    layout.count,
    code`${name}[i] = ${exists ? code`(${exists}) ? ${text} : 0` : text};`,
    node.site,
  )
}

/** Renders a prefix sum. One thread adds up the elements of a row or column in order. */
const runningSum: Renderer = (node, emission) => {
  const { dtype } = typeOf(node)
  const base = baseOf(node, emission)
  const { lines, extent, apart, step } = linesOf(node)
  const type = registerType(dtype)
  const wide = dtype === 'i64' ? 'u64' : 'u32'
  const sum = dtype === 'i32' || dtype === 'i64' ? `(${dtype})((${wide})a + (${wide})b)` : 'a + b'
  const add = code`[](${type} a, ${type} b) { return ${sum}; }`
  const scan = code`for (u32 line = thread; line < ${lines}; line += ${emission.group.threads}) ${lib.scan_line}<${type}>(${base} + line * ${apart}, ${step}, ${extent}, ${add});`
  emission.exchange(node, {
    write: () => writeInputs(node, emission),
    change: () => emission.out.line(scan, node.site),
    read: () => readInOrder(node, emission),
  })
}

/** Reads the elements of a node from its scratch memory, where they are in row-major order. */
function readInOrder(node: Node, emission: Emission): void {
  const base = baseOf(node, emission)
  const { bytes } = dtypes[typeOf(node).dtype]
  readElements(node, (place) => code`${base} + ${numberOf(typeOf(node), place)} * ${bytes}`, emission)
}

const reshape: Renderer = (node, emission) => readingInputs(node, emission, () => readInOrder(node, emission))

const interleave: Renderer = (node, emission) => {
  const base = baseOf(node, emission)
  const type = typeOf(node.inputs[0])
  const { bytes } = dtypes[type.dtype]
  const [rows, columns] = extentsOf(type)
  const addressOf = (place: readonly Code[]): Code => {
    const column = place[place.length - 1]
    const number = numberOf(type, [...place.slice(0, -1), code`${column} / 2`])
    return code`${base} + (${column} % 2 * ${rows * columns} + ${number}) * ${bytes}`
  }
  readingInputs(node, emission, () => readElements(node, addressOf, emission))
}

export const gatherings: Readonly<Record<GatheredName, Renderer>> = {
  argmax: best,
  argmin: best,
  cumsum: runningSum,
  reshape,
  interleave,
}
