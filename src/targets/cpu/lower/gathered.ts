/**
 * Lowers ops such as `argmax` and `reshape`, whose result elements depend on input elements at other indices. A loop
 * nest visits the elements of the inputs one by one, in order, and writes the results to the program's private memory.
 */
import { attribute, type Node } from '../../../ir/node.ts'
import { entryOf, type GatheredName } from '../../../ir/ops/index.ts'
import { add, address, and, binary, compare, constant, i32, mul, use, type Operand } from '../build.ts'
import type { CodeType, Expression, Local, Statement } from '../code.ts'
import { valueOf, type Lowering } from './context.ts'
import { valueCodeType } from './convert.ts'
import { bufferFor, rowAxis, withLoads } from './fragments.ts'
import { extentsOf, type Buffer } from './frame.ts'
import { Nest, type Rows } from './nest.ts'

export function lowerGathered(l: Lowering, node: Node): void {
  const isScalar = valueOf(node).shape.length === 0
  const buffer = isScalar ? undefined : bufferFor(l, node)
  withLoads(l, node.inputs, node, (loads) => entryOf(lowerings, node)(l, node, loads, buffer!))
  if (buffer) l.buffers.set(node, buffer)
}

type Lower = (l: Lowering, node: Node, loads: ReadonlyMap<Node, Rows>, buffer: Buffer) => void

interface Walk {
  readonly nest: Nest
  readonly row: Local
  readonly column: Local
  /** Appends the finished loop nest to the function's code. */
  close(): void
  /** Appends the inner loop to the outer loop's body; code emitted next follows the inner loop in this body. */
  closeInner(): void
}

/**
 * Begins a loop nest over the single elements of a fragment of the given size. The argument `outermost` selects the
 * outer loop.
 */
function walk(
  l: Lowering,
  [rows, columns]: readonly [number, number],
  outermost: 'row' | 'column',
  loads: ReadonlyMap<Node, Rows>,
): Walk {
  const before = l.writer.statements
  const [outer, inner]: Statement[][] = [[], []]
  const row: Local = { type: 'i32', name: 'row' }
  const column: Local = { type: 'i32', name: 'column' }
  const indices = { row: use(row), column: use(column), outer: outermost, vector: false } as const
  const nest = new Nest(l, { ...indices, places: [before, outer, inner] }, loads)
  const loop = (name: 'row' | 'column', body: Statement[]): Statement => ({
    kind: 'for',
    index: name === 'row' ? row : column,
    from: i32(0),
    to: i32(name === 'row' ? rows : columns),
    step: 1,
    body,
  })
  return {
    nest,
    row,
    column,
    closeInner: () => void outer.push(loop(outermost === 'row' ? 'column' : 'row', inner)),
    close: () => void before.push(loop(outermost, outer)),
  }
}

/**
 * The extents of the input fragment, and whether rows or columns are in the outer loop, which follows from the node's
 * axis.
 */
function linesOf(node: Node): {
  readonly size: readonly [number, number]
  readonly outermost: 'row' | 'column'
} {
  const { shape } = valueOf(node.inputs[0])
  const isAlongRow = shape.length === 1 || attribute<number>(node, 'axis') === 1
  return { size: extentsOf(shape), outermost: isAlongRow ? 'row' : 'column' }
}

/** Stores one element of a fragment in the inner loop. A true element of a stored mask is -1. */
function store(nest: Nest, buffer: Buffer, at: Expression, value: Expression): void {
  const kind = buffer.dtype === 'i64' ? 'i64' : value.type === 'f32' ? 'f32' : 'i32'
  const kept = buffer.dtype === 'bool' ? binary('sub', i32(0), value) : value
  nest.within(2, () => nest.l.writer.store(kind, at, kept, buffer.offset))
}

type Plain = Exclude<CodeType, 'ptr'>

/**
 * The value at which the search for the largest (or smallest) element starts: no value of the dtype is smaller (or
 * larger).
 */
function worst(dtype: string, isLargest: boolean): number {
  if (dtype === 'f32') return isLargest ? -Infinity : Infinity
  if (dtype === 'u32') return isLargest ? 0 : -1
  if (dtype === 'i64') return isLargest ? Number.MIN_SAFE_INTEGER : Number.MAX_SAFE_INTEGER
  return isLargest ? -(2 ** 31) : 2 ** 31 - 1
}

const best: Lower = (l, node, loads, buffer) => {
  const { writer } = l
  const [source] = node.inputs
  const { dtype } = valueOf(source)
  const isLargest = node.op === 'argmax'
  const { size, outermost } = linesOf(node)
  const { nest, row, column, close, closeInner } = walk(l, size, outermost, loads)
  const type = valueCodeType(dtype, false) as Plain
  const held: Local = { type, name: 'best' }
  const index: Local = { type: 'i32', name: 'index' }
  nest.within(1, () => {
    writer.set(held, constant(type, worst(dtype, isLargest)))
    writer.set(index, i32(0))
  })
  const element = nest.value(source, rowAxis(size[0]), 'column')
  nest.within(2, () => {
    const next = writer.let('next', element)
    const name = isLargest ? 'gt' : 'lt'
    let isBetter = compare(dtype === 'u32' ? (`${name}U` as const) : name, next, held)
    if (dtype === 'f32') {
      // A NaN is the only value that differs from itself. In argmax and argmin, a NaN wins over every number, and the
      // first NaN is kept.
      const isFirstNaN = and(compare('ne', next, next), compare('eq', held, held))
      isBetter = binary('or', isBetter, isFirstNaN)
    }
    writer.if(isBetter, () => {
      writer.set(held, next)
      writer.set(index, outermost === 'row' ? column : row)
    })
  })
  closeInner()
  if (buffer) nest.keep(buffer, use(index), 'zero', outermost)
  else l.scalars.set(node, use(index))
  close()
}

/**
 * Lowers `cumsum`, which adds the elements in index order. The first sum is the first element itself, so that a zero
 * keeps its sign.
 */
const runningSum: Lower = (l, node, loads, buffer) => {
  const { writer } = l
  const [source] = node.inputs
  const { size, outermost } = linesOf(node)
  const { nest, row, column, close, closeInner } = walk(l, size, outermost, loads)
  const type = valueCodeType(valueOf(node).dtype, false) as Plain
  const total: Local = { type, name: 'total' }
  nest.within(1, () => writer.set(total, constant(type, type === 'f32' ? -0 : 0)))
  const element = nest.value(source, rowAxis(size[0]), 'column')
  nest.within(2, () => writer.set(total, add(total, element)))
  store(nest, buffer, placeOf(l, buffer, row, column), use(total))
  closeInner()
  close()
}

/** The address of an element of a buffer, without the buffer's offset. */
const placeOf = (l: Lowering, buffer: Buffer, row: Operand, column: Operand): Expression =>
  address(address(l.ambient.frame, row, buffer.stride), column, buffer.element)

const reshape: Lower = (l, node, loads, buffer) => {
  const [source] = node.inputs
  const size = extentsOf(valueOf(source).shape)
  const { nest, row, column, close, closeInner } = walk(l, size, 'row', loads)
  const element = nest.value(source, rowAxis(size[0]), 'column')
  const number = add(mul(row, i32(size[1])), column)
  const to = placeOf(
    l,
    buffer,
    binary('divU', number, i32(buffer.columns)),
    binary('remU', number, i32(buffer.columns)),
  )
  store(nest, buffer, to, element)
  closeInner()
  close()
}

const interleave: Lower = (l, node, loads, buffer) => {
  const size = extentsOf(valueOf(node.inputs[0]).shape)
  const { nest, row, column, close, closeInner } = walk(l, size, 'row', loads)
  node.inputs.forEach((input, which) => {
    const element = nest.value(input, rowAxis(size[0]), 'column')
    store(nest, buffer, placeOf(l, buffer, row, add(mul(column, i32(2)), i32(which))), element)
  })
  closeInner()
  close()
}

const lowerings: Readonly<Record<GatheredName, Lower>> = {
  argmax: best,
  argmin: best,
  cumsum: runningSum,
  reshape,
  interleave,
}
