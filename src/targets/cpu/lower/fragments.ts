/**
 * Lowers fragments that are stored in the frame (the private memory of a program): each is computed by one loop nest.
 * This file also lowers reductions, and the loads inside loop nests.
 */
import type { DType } from '../../../ir/dtype.ts'
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, type ReductionName } from '../../../ir/ops/index.ts'
import { constant, extract, i32, select, stride, use } from '../build.ts'
import type { CodeType, Expression, Local, Statement } from '../code.ts'
import { eventKind } from '../abi.ts'
import { constantOf, refOf, valueOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { extreme, uniform } from './elements.ts'
import { extentsOf, storedBytes, type Buffer } from './frame.ts'
import { copyLines, copyRow, frameLines, isFull, lineBytes, linesOf } from './lines.ts'
import { computesByVectors, Nest, vectorises, type Rows } from './nest.ts'
import { isFragment } from './plan.ts'
import { recorded } from './sync.ts'
import { refView, strideOf, type RefView } from './views.ts'

export const newBuffer = (l: Lowering, node: Node): Buffer =>
  l.shared.frame.fragment(valueOf(node), l.machine)
export const bufferFor = (l: Lowering, node: Node): Buffer => l.preferred.get(node) ?? newBuffer(l, node)

/**
 * Emits the code that computes a fragment and stores its elements, unless the readers of the fragment compute the
 * elements themselves.
 */
export function lowerFragment(l: Lowering, node: Node): void {
  if (!l.plan.isKept(node)) return
  const buffer = bufferFor(l, node)
  computeInto(l, node, buffer)
  l.buffers.set(node, buffer)
}

/** Writes a fragment's elements into the given buffer. */
export function evaluateInto(l: Lowering, node: Node, buffer: Buffer): void {
  const known = l.buffers.get(node)
  if (!known) return computeInto(l, node, buffer)
  if (known.offset !== buffer.offset) copyBuffer(l, known, buffer)
}

export function copyBuffer(l: Lowering, from: Buffer, to: Buffer): void {
  const { frame } = l.ambient
  const at = ({ offset }: Buffer): Expression => ({
    kind: 'address',
    type: 'ptr',
    base: use(frame),
    scale: 1,
    offset,
  })
  copyRow(l, at(to), at(from), from.rows * from.stride)
}

/** True if all elements are the constant +0. */
export function isZero(node: Node): boolean {
  const filler = uniform(node)
  return filler !== undefined && Object.is(constantOf(filler), 0)
}

function computeInto(l: Lowering, node: Node, buffer: Buffer): void {
  if (isZero(node)) {
    const base: Expression = {
      kind: 'address',
      type: 'ptr',
      base: use(l.ambient.frame),
      scale: 1,
      offset: buffer.offset,
    }
    l.writer.zeroBytes(base, i32(buffer.rows * buffer.stride))
    return
  }
  withLoads(l, [node], node, (loads) => {
    const vector =
      buffer.columns > 1 &&
      buffer.dtype !== 'i64' &&
      computesByVectors(l, node, rowAxis(buffer.rows), 'column')
    // Buffer rows are padded to whole vectors. Rows of tensors are not padded, so a nest that loads from memory must
    // not read past the end of a row.
    const padded = loads.size === 0 && !readsMemory(l, node)
    overElements(l, buffer.rows, buffer.columns, vector, loads, padded, (nest) =>
      nest.keep(buffer, nest.compute(node, rowAxis(buffer.rows), 'column'), rowAxis(buffer.rows), 'column'),
    )
  })
}

export const rowAxis = (rows: number): 'zero' | 'row' => (rows === 1 ? 'zero' : 'row')

/**
 * Emits a loop nest with rows in the outer loop and columns in the inner loop. Remaining columns that do not fill a
 * vector are processed one by one.
 */
export function overElements(
  l: Lowering,
  rows: number,
  columns: number,
  vector: boolean,
  loads: ReadonlyMap<Node, Rows>,
  padded: boolean,
  body: (nest: Nest) => void,
): void {
  const { writer, machine } = l
  const before = writer.statements
  const row: Local = { type: 'i32', name: 'row' }
  const outer: Statement[] = rows === 1 ? before : []
  const rowIndex = rows === 1 ? i32(0) : use(row)
  const run = (from: number, to: number, step: number): void => {
    if (from >= to) return
    const column: Local = { type: 'i32', name: 'column' }
    const single = to - from <= step
    const inner: Statement[] = single ? outer : []
    const nest = new Nest(
      l,
      {
        row: rowIndex,
        column: single ? i32(from) : use(column),
        outer: 'row',
        vector: step > 1,
        places: [before, outer, inner],
      },
      loads,
    )
    nest.within(2, () => body(nest))
    if (!single) outer.push({ kind: 'for', index: column, from: i32(from), to: i32(to), step, body: inner })
  }
  const whole = vector ? Math.floor(columns / machine.lanes) * machine.lanes : 0
  if (vector && padded) run(0, Math.ceil(columns / machine.lanes) * machine.lanes, machine.lanes)
  else {
    run(0, whole, machine.lanes)
    run(whole, columns, 1)
  }
  if (rows > 1) before.push({ kind: 'for', index: row, from: i32(0), to: i32(rows), step: 1, body: outer })
}

/** All loads whose elements are loaded in the loop nest that computes the fragment `node`. */
function loadsOf(l: Lowering, node: Node, into = new Set<Node>()): Set<Node> {
  if (!isFragment(node) && node.op !== 'at') return into
  if (l.buffers.has(node)) return into
  if (node.op === 'load') into.add(node)
  for (const input of node.inputs) if (isFragment(input) || input.op === 'at') loadsOf(l, input, into)
  return into
}

const readsMemory = (l: Lowering, node: Node): boolean => loadsOf(l, node).size > 0

/** The rank that owns a view, or undefined if it is this rank. */
export const ownerOf = (view: RefView): Expression | undefined =>
  view.kind === 'rows' ? view.tensor.owner : view.owner

/**
 * Runs `body`, which emits a loop nest in which some loads read a copy of their rows. A tile that extends past its
 * tensor's edge is read from a zero-padded copy, and gathered rows are read from a contiguous copy.
 */
export function withLoads(
  l: Lowering,
  roots: readonly Node[],
  node: Node,
  body: (loads: ReadonlyMap<Node, Rows>) => void,
): void {
  const loads = new Map<Node, Rows>()
  const all = new Set(roots.flatMap((root) => [...loadsOf(l, root)]))
  const run = (): void => {
    for (const load of all) {
      const view = refView(l, load.inputs[0])
      if (view.kind === 'places' || (view.kind === 'tile' && !view.inside)) continue
      loads.set(load, edgeRows(l, view))
    }
    body(loads)
  }
  const remote = [...all].flatMap((load) => {
    const view = refView(l, load.inputs[0])
    const owner = ownerOf(view)
    return owner && view.kind !== 'places' ? [{ load, owner, view }] : []
  })
  const nested = remote.reduceRight<() => void>(
    (inner, { load, owner, view }) =>
      () => {
        const { shape } = refOf(load.inputs[0])
        const bytes = shape.reduce((product, extent) => product * extent, lineBytes(view as never))
        recorded(l, eventKind.copy, load, owner, i32(bytes), inner)
      },
    run,
  )
  l.shared.frame.scope(nested)
}

function edgeRows(l: Lowering, view: Exclude<RefView, { kind: 'places' }>): Rows {
  const { writer, shared, ambient } = l
  const bytes = lineBytes(view)
  const pitch = view.columns * bytes
  const copy: Expression = {
    kind: 'address',
    type: 'ptr',
    base: use(ambient.frame),
    scale: 1,
    offset: shared.frame.take(view.rows * pitch),
  }
  const lines = linesOf(l, view)
  const fetch = (): void =>
    copyLines(l, lines, frameLines(copy, pitch), view.rows, view.columns, bytes, true, true)
  if (view.kind === 'rows') {
    fetch()
    return { base: copy, stride: strideOf(l, pitch) }
  }
  const full = isFull(l, view.inside, view.rows, view.columns)!
  const base = writer.let('base', view.base)
  const pitchLocal = writer.let(
    'pitch',
    view.rows === 1 ? stride(i32(pitch), 1) : strideOf(l, view.rowStride),
  )
  writer.if(select(full, i32(0), i32(1)), () => {
    fetch()
    writer.set(base, copy)
    writer.set(pitchLocal, strideOf(l, pitch))
  })
  return { base: use(base), stride: use(pitchLocal) }
}

// Reductions of fragments

export function lowerReduction(l: Lowering, node: Node): void {
  const source = node.inputs[0]
  const { shape, dtype } = valueOf(source)
  const axis = attribute<number>(node, 'axis')
  const [rows, columns] = extentsOf(shape)
  const buffer = shape.length === 1 ? undefined : bufferFor(l, node)
  withLoads(l, [source], node, (loads) => {
    const vector =
      columns >= l.machine.lanes && dtype !== 'i64' && vectorises(l, source, rowAxis(rows), 'column')
    if (!buffer) {
      const total: Local = { type: valueCodeType(dtype, false), name: 'total' }
      reduceRow(l, node, 1, columns, vector, loads, (value) => l.writer.set(total, value))
      l.scalars.set(node, use(total))
    } else if (axis === 1)
      reduceRow(l, node, rows, columns, vector, loads, (value, nest) =>
        nest.keep(buffer, value, 'zero', rowAxis(rows)),
      )
    else reduceColumns(l, node, rows, columns, vector, loads, buffer)
  })
  if (buffer) l.buffers.set(node, buffer)
}

type Plain = Exclude<CodeType, 'ptr'>

function combine(l: Lowering, node: Node, a: Expression, b: Expression): Expression {
  const { dtype } = valueOf(node)
  return reductionOf(node).combine(l, dtype, a, b)
}

/**
 * The neutral element of a reduction: 0 for `sum`, NaN for a `min` or `max` of floats, and the largest integer (for
 * `min`) or the smallest (for `max`).
 */
function neutral(node: Node, type: Plain): Expression {
  return constant(type, reductionOf(node).neutral(valueOf(node).dtype))
}

interface Reduction {
  combine(l: Lowering, dtype: DType, a: Expression, b: Expression): Expression
  neutral(dtype: DType): number
}

const bound = (name: 'min' | 'max', u32: number, i64: number, i32: number): Reduction => ({
  combine: (l, dtype, a, b) => extreme(l, name, dtype, a, b),
  // The operations `min` and `max` return the other operand for a NaN, so NaN is their neutral element, and a row of
  // only NaN yields NaN.
  neutral: (dtype) => (dtype === 'f32' ? NaN : dtype === 'u32' ? u32 : dtype === 'i64' ? i64 : i32),
})

const reductions: Readonly<Record<ReductionName, Reduction>> = {
  'reduce.sum': {
    combine: (_, __, a, b) => ({ kind: 'binary', type: a.type, name: 'add', a, b }),
    neutral: () => 0,
  },
  'reduce.max': bound('max', 0, Number.MIN_SAFE_INTEGER, -(2 ** 31)),
  'reduce.min': bound('min', -1, Number.MAX_SAFE_INTEGER, 2 ** 31 - 1),
}

const reductionOf = (node: Node): Reduction => entryOf(reductions, node, 'is not a reduction')

/**
 * The number of vectors in which a row is accumulated in parallel. A single chain of dependent additions would be
 * limited by the latency of an addition.
 */
const chains = 4

function reduceRow(
  l: Lowering,
  node: Node,
  rows: number,
  columns: number,
  vector: boolean,
  loads: ReadonlyMap<Node, Rows>,
  done: (value: Expression, nest: Nest) => void,
): void {
  const { writer, machine } = l
  const source = node.inputs[0]
  const { dtype } = valueOf(node)
  const before = writer.statements
  const row: Local = { type: 'i32', name: 'row' }
  const outer: Statement[] = rows === 1 ? before : []
  const nestOf = (column: Expression, inner: Statement[], isVector: boolean): Nest =>
    new Nest(
      l,
      {
        row: rows === 1 ? i32(0) : use(row),
        column,
        outer: 'row',
        vector: isVector,
        places: [before, outer, inner],
      },
      loads,
    )
  const inOuter = (write: () => void): void => {
    writer.statements = outer
    write()
    writer.statements = before
  }
  const scalarType = valueCodeType(dtype, false) as Plain
  const total: Local = { type: scalarType, name: 'total' }
  const whole = vector ? Math.floor(columns / machine.lanes) * machine.lanes : 0
  if (whole > 0) {
    const vectorType = valueCodeType(dtype, true) as Plain
    const side = Math.min(chains, whole / machine.lanes)
    const step = side * machine.lanes
    const sums = Array.from({ length: side }, (): Local => ({ type: vectorType, name: 'sums' }))
    inOuter(() => sums.forEach((sum) => writer.set(sum, neutral(node, vectorType))))
    const index: Local = { type: 'i32', name: 'column' }
    const blocks = Math.floor(whole / step) * step
    const inner: Statement[] = []
    sums.forEach((sum, k) => {
      const column: Expression =
        k === 0
          ? use(index)
          : { kind: 'binary', type: 'i32', name: 'add', a: use(index), b: i32(k * machine.lanes) }
      const nest = nestOf(column, inner, true)
      nest.within(2, () =>
        writer.set(
          sum,
          combine(l, node, use(sum), nest.shaped(nest.value(source, rowAxis(rows), 'column'), true)),
        ),
      )
    })
    outer.push({ kind: 'for', index, from: i32(0), to: i32(blocks), step, body: inner })
    for (let at = blocks; at < whole; at += machine.lanes) {
      const nest = nestOf(i32(at), outer, true)
      inOuter(() =>
        writer.set(
          sums[0],
          combine(l, node, use(sums[0]), nest.shaped(nest.value(source, rowAxis(rows), 'column'), true)),
        ),
      )
    }
    inOuter(() => {
      let all: Expression = use(sums[0])
      for (const sum of sums.slice(1)) all = use(writer.let('sums', combine(l, node, all, use(sum))))
      let value: Expression = extract(all, 0)
      for (let lane = 1; lane < machine.lanes; lane++)
        value = use(writer.let('total', combine(l, node, value, extract(all, lane))))
      writer.set(total, value)
    })
  } else inOuter(() => writer.set(total, neutral(node, scalarType)))
  if (whole < columns) {
    const index: Local = { type: 'i32', name: 'column' }
    const inner: Statement[] = []
    const nest = nestOf(use(index), inner, false)
    nest.within(2, () =>
      writer.set(total, combine(l, node, use(total), nest.value(source, rowAxis(rows), 'column'))),
    )
    outer.push({ kind: 'for', index, from: i32(whole), to: i32(columns), step: 1, body: inner })
  }
  const last = nestOf(i32(0), outer, false)
  inOuter(() => done(use(total), last))
  if (rows > 1) before.push({ kind: 'for', index: row, from: i32(0), to: i32(rows), step: 1, body: outer })
}

/** Reduces along rows with the column loop outside, so that a vector of results stays in a register. */
function reduceColumns(
  l: Lowering,
  node: Node,
  rows: number,
  columns: number,
  vector: boolean,
  loads: ReadonlyMap<Node, Rows>,
  buffer: Buffer,
): void {
  const { writer, machine } = l
  const { dtype } = valueOf(node)
  const before = writer.statements
  const run = (from: number, to: number, step: number): void => {
    if (from >= to) return
    const column: Local = { type: 'i32', name: 'column' }
    const row: Local = { type: 'i32', name: 'row' }
    const outer: Statement[] = []
    const inner: Statement[] = []
    const isVector = step > 1
    const nest = new Nest(
      l,
      {
        row: use(row),
        column: use(column),
        outer: 'column',
        vector: isVector,
        places: [before, outer, inner],
      },
      loads,
    )
    const type = valueCodeType(dtype, isVector) as Plain
    const total: Local = { type, name: 'total' }
    nest.within(1, () => writer.set(total, neutral(node, type)))
    nest.within(2, () => {
      const value = nest.shaped(nest.value(node.inputs[0], rowAxis(rows), 'column'), isVector)
      writer.set(total, combine(l, node, use(total), value))
    })
    outer.push({ kind: 'for', index: row, from: i32(0), to: i32(rows), step: 1, body: inner })
    nest.keep(buffer, use(total), 'zero', 'column')
    before.push({ kind: 'for', index: column, from: i32(from), to: i32(to), step, body: outer })
  }
  const whole = vector ? Math.floor(columns / machine.lanes) * machine.lanes : 0
  run(0, whole, machine.lanes)
  run(whole, columns, 1)
}

export const bytesOfRef = (node: Node): number =>
  refOf(node).shape.reduce((product, extent) => product * extent, storedBytes(refOf(node).dtype))
