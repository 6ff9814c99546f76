/**
 * Rewrites tiles for a matrix product: widens them to f32 (i8 to i32), or copies them into one panel of the right
 * operand.
 */
import { dtypes, type StorageDType } from '../../../../ir/dtype.ts'
import { address, constant, i32, type Operand, type Writer } from '../../build.ts'
import type { Expression, Machine } from '../../code.ts'
import { memoryKind, rawCodeType, widen } from '../convert.ts'
import { numbersOf, panelColumns, wideBytes } from './tiles.ts'

/**
 * Widens `count` contiguous elements from `from` to `to`, first as vectors, then the remainder one by one. The number
 * `count` is static.
 */
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
 * Widens `rows` rows of `columns` contiguous elements, `rowStride` bytes apart. The number `rows` may be known only at
 * run time.
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
 * Writes one panel from `columns` columns (at most a panel's width) and `depth` steps of the inner axis. Step k of
 * column n is read from base + k * stepStride + n * columnStride.
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
      // The padding columns of a panel are multiplied, too. The padding of a panel must be zero, because garbage could
      // be subnormal numbers, which are slow.
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
