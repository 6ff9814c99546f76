/** Tiles rewritten for a product: widened to f32 (i8 to i32), or cut into one panel of the right operand. */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import { address, constant, i32, type Operand, type Writer } from '../../build.ts'
import type { Expression, Machine } from '../../code.ts'
import { memoryKind, rawCodeType, widen } from '../convert.ts'
import { numbersOf, panelColumns, wideBytes } from './tiles.ts'

/** `count` neighbours at `from` widened to neighbours at `to`: vectors, then what is left one by one. `count` is static. */
export function widenRun(
  writer: Writer,
  machine: Machine,
  dtype: StorageDType,
  from: Operand,
  to: Operand,
  count: number,
): void {
  const bytes = dtypes[dtype].bytes
  const { lanes } = machine
  const { memory } = numbersOf(dtype)
  const element = (vector: boolean, source: Operand, target: Operand, at: number): void => {
    const raw = writer.load('raw', rawCodeType(dtype, vector), memoryKind(dtype), source, at * bytes)
    writer.store(memory, target, widen(writer, machine, dtype, raw), at * wideBytes)
  }
  const whole = Math.floor(count / lanes)
  const mostUnrolled = 4
  if (whole <= mostUnrolled)
    for (let vector = 0; vector < whole; vector++) element(true, from, to, vector * lanes)
  else
    writer.for('at', 0, whole * lanes, lanes, (at) => {
      element(true, address(from, at, bytes), address(to, at, wideBytes), 0)
    })
  for (let at = whole * lanes; at < count; at++) element(false, from, to, at)
}

/**
 * `rows` runs of `columns` neighbours, `rowStride` bytes apart, widened and packed row after row. `rows` may be known only when
 * the code runs.
 */
export function widenRows(
  writer: Writer,
  machine: Machine,
  dtype: StorageDType,
  source: { readonly base: Operand; readonly rowStride: number },
  target: { readonly base: Operand; readonly rowStride: number },
  rows: Operand,
  columns: number,
): void {
  writer.for('row', 0, rows, 1, (row) => {
    const from = writer.let('from', address(source.base, row, source.rowStride))
    const to = writer.let('to', address(target.base, row, target.rowStride))
    widenRun(writer, machine, dtype, from, to, columns)
  })
}

/**
 * One panel: `columns` columns (at most a panel's) of a tile of which `depth` steps of the inner axis are taken; step k of
 * column n lies at base + k * stepStride + n * columnStride.
 */
export function packPanel(
  writer: Writer,
  machine: Machine,
  dtype: StorageDType,
  source: { readonly base: Expression; readonly stepStride: number; readonly columnStride: number },
  panel: Operand,
  columns: number,
  depth: Operand,
): void {
  const width = panelColumns(machine)
  const { memory, scalar } = numbersOf(dtype)
  const bytes = dtypes[dtype].bytes
  if (source.columnStride === bytes) {
    writer.for('step', 0, depth, 1, (step) => {
      const from = writer.let('from', address(source.base, step, source.stepStride))
      const to = writer.let('to', address(panel, step, width * wideBytes))
      widenRun(writer, machine, dtype, from, to, columns)
      // What lies beyond is multiplied too: zeros are never slow.
      for (let at = columns; at < width; at++) writer.store(memory, to, constant(scalar, 0), at * wideBytes)
    })
    return
  }
  writer.for('column', 0, i32(columns), 1, (column) => {
    const from = writer.let('from', address(source.base, column, source.columnStride))
    const to = writer.let('to', address(panel, column, wideBytes))
    writer.for('step', 0, depth, 1, (step) => {
      const place = address(from, step, source.stepStride)
      const raw = writer.load('raw', rawCodeType(dtype, false), memoryKind(dtype), place)
      writer.store(memory, address(to, step, width * wideBytes), widen(writer, machine, dtype, raw))
    })
  })
  if (columns < width)
    writer.for('step', 0, depth, 1, (step) => {
      const to = writer.let('to', address(panel, step, width * wideBytes))
      for (let at = columns; at < width; at++) writer.store(memory, to, constant(scalar, 0), at * wideBytes)
    })
}
