/**
 * Copies rows of bytes between memories. A row that is completely inside both tensors is copied whole. For a tile that
 * extends past its tensor's edge, only the elements inside are copied; if the target is in the program's private
 * memory, its other elements become zeros. The copy of rows does not convert elements.
 */
import { address, binary, compare, i32, mul, select, step, sub, use, type Operand } from '../build.ts'
import type { Expression, Local } from '../code.ts'
import type { Lowering } from './context.ts'
import { storedBytes } from './frame.ts'
import type { RowsView, TileView } from './views.ts'

export interface Lines {
  at(row: Operand): Expression
  /** The distance between rows in bytes, or undefined if it is known only at launch. */
  readonly stride: number | undefined
  /** The number of rows and columns that are inside the tensor, or undefined if all are. */
  readonly inside: { readonly rows: Expression; readonly columns: Expression } | undefined
  /** Tests whether a row is inside the tensor. The test is present only if each row must be tested individually. */
  hasRow?(row: Operand): Expression
}

export function linesOf(l: Lowering, view: TileView | RowsView): Lines {
  if (view.kind === 'tile')
    return {
      at: (row) =>
        typeof view.rowStride === 'number'
          ? address(view.base, row, view.rowStride)
          : step(view.base, row, view.rowStride),
      stride: typeof view.rowStride === 'number' ? view.rowStride : undefined,
      inside: view.inside,
    }
  const indices = l.buffers.get(view.indices)!
  const index = (row: Operand): Local =>
    l.writer.load('index', 'i32', 'i32', address(l.ambient.frame, row, indices.element), indices.offset)
  return {
    at: (row) => step(view.base, index(row), view.tensor.strides[0]),
    stride: undefined,
    inside: { rows: i32(view.rows), columns: view.insideColumns },
    hasRow: (row) => compare('ltU', index(row), view.tensor.extents[0]),
  }
}

export const frameLines = (base: Expression, stride: number): Lines => ({
  at: (row) => address(base, row, stride),
  stride,
  inside: undefined,
})

/**
 * A test at run time whether the whole tile is inside its tensor, or undefined if it is known at compile time that the
 * tile is inside.
 */
export function isFull(
  l: Lowering,
  inside: Lines['inside'],
  rows: number,
  columns: number,
): Local | undefined {
  if (!inside) return undefined
  const wide = compare('ge', inside.columns, i32(columns))
  const { rows: given } = inside
  if (given.kind === 'const' && given.value >= rows) return l.writer.let('full', wide)
  return l.writer.let('full', binary('and', wide, compare('ge', given, i32(rows))))
}

/** Clamps a value to the range from 0 to `most`. */
const within = (l: Lowering, value: Expression, most: number): Local => {
  const low = l.writer.let('some', select(compare('lt', value, i32(most)), value, i32(most)))
  return l.writer.let('some', select(compare('gt', low, i32(0)), low, i32(0)))
}

/**
 * Copies `rows` rows of `columns` elements of `bytes` bytes each. The function `fill` writes zeros past the end of the
 * source. The argument `reachesOver` is true if the caller knows that the tile extends past the tensor.
 */
export function copyLines(
  l: Lowering,
  from: Lines,
  to: Lines,
  rows: number,
  columns: number,
  bytes: number,
  fill: boolean,
  reachesOver = false,
): void {
  const { writer } = l
  const perRow = from.hasRow ?? to.hasRow
  const full =
    perRow || reachesOver ? [] : [from, to].flatMap((lines) => isFull(l, lines.inside, rows, columns) ?? [])
  const whole = (): void => {
    if (from.stride === columns * bytes && to.stride === columns * bytes) {
      copyRow(l, to.at(i32(0)), from.at(i32(0)), rows * columns * bytes)
      return
    }
    forRows(l, rows, (row) => copyRow(l, to.at(row), from.at(row), columns * bytes))
  }
  const edge = (): void => {
    const some = (axis: 'rows' | 'columns', most: number): Local => {
      const [first, second] = [from, to].flatMap((lines) =>
        lines.inside ? [within(l, lines.inside[axis], most)] : [],
      )
      return second ? writer.let('some', select(compare('lt', first, second), first, second)) : first
    }
    const [height, width] = [some('rows', rows), some('columns', columns)]
    const taken = writer.let('taken', mul(width, i32(bytes)))
    const left = writer.let('left', sub(i32(columns * bytes), taken))
    const clear = (row: Operand): void => writer.zeroBytes(to.at(row), i32(columns * bytes))
    const copy = (row: Operand): void => {
      writer.copyBytes(to.at(row), from.at(row), taken)
      if (fill) writer.zeroBytes(address(to.at(row), taken, 1), left)
    }
    const guarded = (row: Operand): void => {
      if (!perRow) return copy(row)
      const inside = [from, to].flatMap((lines) => lines.hasRow?.(row) ?? [])
      writer.if(
        inside.length === 2 ? binary('and', inside[0], inside[1]) : inside[0],
        () => copy(row),
        fill ? () => clear(row) : undefined,
      )
    }
    writer.for('row', 0, height, 1, guarded)
    if (fill) writer.for('row', height, rows, 1, clear)
  }
  if (perRow || reachesOver) edge()
  else if (full.length === 0) whole()
  else writer.if(full.length === 2 ? binary('and', full[0], full[1]) : full[0], whole, edge)
}

function forRows(l: Lowering, rows: number, body: (row: Expression) => void): void {
  if (rows === 1) body(i32(0))
  else l.writer.for('row', 0, rows, 1, (row) => body(use(row)))
}

/**
 * Copies a number of bytes that is known when the kernel is compiled. Short rows are copied with vector loads and
 * stores, because a call would cost more.
 */
export function copyRow(l: Lowering, to: Expression, from: Expression, bytes: number): void {
  const { writer, machine } = l
  const vector = machine.lanes * 4
  if (bytes > 8 * vector) return writer.copyBytes(to, from, i32(bytes))
  const [target, source] = [writer.let('to', to), writer.let('from', from)]
  let at = 0
  for (; at + vector <= bytes; at += vector)
    writer.store('i32', target, writer.load('part', 'vi32', 'i32', source, at), at)
  for (; at + 8 <= bytes; at += 8)
    writer.store('i64', target, writer.load('part', 'i64', 'i64', source, at), at)
  for (; at + 4 <= bytes; at += 4)
    writer.store('i32', target, writer.load('part', 'i32', 'i32', source, at), at)
  for (; at + 2 <= bytes; at += 2)
    writer.store('u16', target, writer.load('part', 'i32', 'u16', source, at), at)
  for (; at < bytes; at++) writer.store('u8', target, writer.load('part', 'i32', 'u8', source, at), at)
}

export const lineBytes = (view: TileView | RowsView): number =>
  storedBytes(view.kind === 'tile' ? view.dtype : view.tensor.dtype)
