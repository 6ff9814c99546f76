/**
 * Handles panels of global memory: tiles copied into a shared tile for a matrix product, or a whole tensor packed once.
 *
 * A packed tensor of K x N elements keeps its dtype. A packed tensor is divided into panels as wide as the microkernel,
 * over all K. Each panel is contiguous with k outermost: element (k, n) has index (n / width) * K * width + k * width +
 * n % width. The number of columns N is padded with zeros to whole panels. A tile whose first column begins a panel
 * needs no copy: within a panel, its rows are contiguous, in the order in which a matrix product reads them.
 *
 * A copy `t.copy(w.tile([k, j], [BK, BN]), shared)` from a packed tensor `w` can be omitted if `readsPacked` is true
 * and only matrix products read the shared tile, as their right operand. A matrix product `t.dot(a, shared, acc)` with
 * a copy that is omitted is lowered by `emitPackedDot`, with the result of `packedTile`.
 */
import { dtypes, type StorageDType } from '../../../ir/dtype.ts'
import {
  add,
  address,
  binary,
  codeFunction,
  compare,
  i32,
  max,
  min,
  mul,
  step,
  stride,
  sub,
  and,
} from '../build.ts'
import type { Operand, Writer } from '../build.ts'
import type { CodeFunction, Expression, Local, Machine } from '../code.ts'
import { memoryKind, rawCodeType, widen } from './convert.ts'
import type { PackedOperand } from './dot.ts'
import { numbersOf, panelColumns, panelElements, pointers, sharedFunction, wideBytes } from './dot/tiles.ts'
import type { TileLayout } from './dot/tiles.ts'
import { widenRun } from './dot/widening.ts'

/**
 * A tile of a tensor. The rows of the tile are `rowStride` bytes apart (a ptr-sized number), and its columns are
 * contiguous.
 */
export interface GlobalTile {
  readonly base: Expression
  readonly rowStride: Expression
  readonly dtype: StorageDType
  /**
   * The numbers (i32) of the tile's rows and columns that are inside the tensor: 0 if there are none, or even negative
   * if the tile begins beyond the end of the tensor.
   */
  readonly rows: Expression
  readonly columns: Expression
  readonly shape: readonly [number, number]
}

export interface PanelTarget {
  readonly base: Expression
  readonly layout: TileLayout
  readonly dtype: StorageDType
  readonly shape: readonly [number, number]
}

/** Copies global memory into panels. Elements outside the tensor become 0. */
export function emitPanelCopy(
  writer: Writer,
  machine: Machine,
  source: GlobalTile,
  target: PanelTarget,
): void {
  const { layout, shape, dtype } = target
  if (layout.kind !== 'panels') throw new Error('a panel copy needs a target with the panels layout')
  const copy = panelCopy(machine, dtype, shape, layout)
  writer.call(copy, source.base, source.rowStride, source.rows, source.columns, target.base)
}

type PanelLayout = Extract<TileLayout, { kind: 'panels' }>

function panelCopy(
  machine: Machine,
  dtype: StorageDType,
  shape: readonly [number, number],
  layout: PanelLayout,
): CodeFunction {
  const [rows, columns] = shape
  const { axis, width } = layout
  const name = `panels_${dtype}_${rows}x${columns}_axis${axis}_${width}`
  return sharedFunction(machine, name, () =>
    codeFunction(
      name,
      [...pointers('source', 'rowStride'), ['rows', 'i32'], ['columns', 'i32'], ['target', 'ptr']],
      (writer, source, rowStride, rowsInside, columnsInside, target) => {
        const part: Part = { writer, machine, dtype, shape, layout, source, rowStride, target }
        const whole = and(compare('ge', rowsInside, i32(rows)), compare('ge', columnsInside, i32(columns)))
        writer.if(
          whole,
          () => (axis === 1 ? copyWhole(part) : copyTransposed(part, i32(rows), i32(columns))),
          () => {
            writer.zeroBytes(target, i32(panelElements(shape, layout) * wideBytes))
            const [rowCount, columnCount] = [
              writer.let('rowCount', min(rowsInside, i32(rows))),
              writer.let('columnCount', min(columnsInside, i32(columns))),
            ]
            if (axis === 1) copyPart(part, rowCount, columnCount)
            else copyTransposed(part, rowCount, columnCount)
          },
        )
      },
      { hot: true },
    ),
  )
}

interface Part {
  readonly writer: Writer
  readonly machine: Machine
  readonly dtype: StorageDType
  readonly shape: readonly [number, number]
  readonly layout: PanelLayout
  readonly source: Local
  readonly rowStride: Local
  readonly target: Local
}

/**
 * The number of bytes of a row read at once: whole cache lines, but so few that the target panels stay in the L1 cache.
 */
const runBytes = 128

/**
 * Copies a few adjacent panels at a time, one row after the other. Copying all panels at once would read memory
 * sequentially, but write to addresses at large power-of-two distances, which evict each other from the caches.
 */
function copyWhole({ writer, machine, dtype, shape, layout, source, rowStride, target }: Part): void {
  const [rows, columns] = shape
  const { width } = layout
  const bytes = dtypes[dtype].bytes
  const panelBytes = rows * width * wideBytes
  const panels = Math.floor(columns / width)
  const rest = columns % width
  const together = Math.max(1, Math.floor(runBytes / (width * bytes)))
  /** Copies adjacent panels starting at `first`, with the given number of columns each. */
  const group = (first: Operand, counts: readonly number[]): void => {
    const from = writer.let('from', address(source, first, width * bytes))
    const to = writer.let('to', address(target, first, panelBytes))
    writer.for('row', 0, rows, 1, () => {
      counts.forEach((count, panel) => {
        const [run, place] = [panel * width * bytes, panel * panelBytes]
        widenRun(writer, machine, dtype, address(from, 0, 1, run), address(to, 0, 1, place), count)
      })
      writer.set(from, step(from, i32(1), rowStride))
      writer.set(to, address(to, 0, 1, width * wideBytes))
    })
  }
  const wide = (count: number): number[] => new Array<number>(count).fill(width)
  const whole = panels - (panels % together)
  if (whole > 0) writer.for('panel', 0, whole, together, (panel) => group(panel, wide(together)))
  const last = [...wide(panels - whole), ...(rest > 0 ? [rest] : [])]
  if (last.length > 0) group(i32(whole), last)
}

/**
 * Copies the rows and columns that are inside the tensor. The elements of the target outside the tensor are already 0.
 */
function copyPart(
  { writer, machine, dtype, shape, layout, source, rowStride, target }: Part,
  rowCount: Local,
  columnCount: Local,
): void {
  const [rows] = shape
  const { width } = layout
  const { lanes } = machine
  const bytes = dtypes[dtype].bytes
  const { memory } = numbersOf(dtype)
  const element = (vector: boolean, from: Local, to: Local, at: Local): void => {
    const raw = writer.load('raw', rawCodeType(dtype, vector), memoryKind(dtype), address(from, at, bytes))
    writer.store(memory, address(to, at, wideBytes), widen(writer, machine, dtype, raw))
  }
  writer.for('row', 0, rowCount, 1, (row) => {
    const from = writer.let('from', step(source, row, rowStride))
    const to = writer.let('to', address(target, row, width * wideBytes))
    writer.for('start', 0, columnCount, width, (start) => {
      const count = writer.let('count', min(i32(width), sub(columnCount, start)))
      const whole = writer.let('whole', mul(binary('div', count, i32(lanes)), i32(lanes)))
      writer.for('at', 0, whole, lanes, (at) => element(true, from, to, at))
      writer.for('at', whole, count, 1, (at) => element(false, from, to, at))
      writer.set(from, address(from, 0, 1, width * bytes))
      writer.set(to, address(to, 0, 1, rows * width * wideBytes))
    })
  })
}

/**
 * Copies rows into the columns of panels. A row is read sequentially, and each of its elements is written to another
 * row of the panel.
 */
function copyTransposed(
  { writer, machine, dtype, shape, layout, source, rowStride, target }: Part,
  rowCount: Operand,
  columnCount: Operand,
): void {
  const columns = shape[1]
  const { width } = layout
  const bytes = dtypes[dtype].bytes
  const { memory } = numbersOf(dtype)
  const unrolled = 4
  writer.for('row', 0, rowCount, 1, (row) => {
    const from = writer.let('from', step(source, row, rowStride))
    const panel = address(target, binary('divU', row, i32(width)), columns * width * wideBytes)
    const to = writer.let('to', address(panel, binary('remU', row, i32(width)), wideBytes))
    const element = (at: number): void => {
      const raw = writer.load('raw', rawCodeType(dtype, false), memoryKind(dtype), from, at * bytes)
      writer.store(memory, to, widen(writer, machine, dtype, raw), at * width * wideBytes)
    }
    const advance = (by: number): void => {
      writer.set(from, address(from, 0, 1, by * bytes))
      writer.set(to, address(to, 0, 1, by * width * wideBytes))
    }
    const whole = writer.let('whole', sub(columnCount, binary('rem', columnCount, i32(unrolled))))
    writer.for('column', 0, whole, unrolled, () => {
      for (let at = 0; at < unrolled; at++) element(at)
      advance(unrolled)
    })
    writer.for('column', max(whole, i32(0)), columnCount, 1, () => {
      element(0)
      advance(1)
    })
  })
}

/** The layout of a packed tensor in memory. */
export interface PackedLayout {
  readonly dtype: StorageDType
  readonly rows: number
  readonly columns: number
  /** The number of columns of a panel, and the number of panels. */
  readonly width: number
  readonly panels: number
  readonly bytes: number
}

export function packedLayout(
  machine: Machine,
  dtype: StorageDType,
  rows: number,
  columns: number,
): PackedLayout {
  const width = panelColumns(machine)
  const panels = Math.ceil(columns / width)
  return { dtype, rows, columns, width, panels, bytes: panels * rows * width * dtypes[dtype].bytes }
}

type Elements = Float32Array | Uint16Array | Uint8Array | Int8Array

/** Packs the bits of K x N elements. The result array has the array type of the source. */
export function packTensor<T extends Elements>(
  source: T,
  dtype: StorageDType,
  rows: number,
  columns: number,
  machine: Machine,
): T {
  if (source.BYTES_PER_ELEMENT !== dtypes[dtype].bytes)
    throw new Error(
      `packTensor: an element of ${dtype} has ${dtypes[dtype].bytes} bytes, the source's ${source.BYTES_PER_ELEMENT}`,
    )
  if (source.length !== rows * columns)
    throw new Error(`packTensor: ${rows} x ${columns} elements expected, the source has ${source.length}`)
  const { width, panels } = packedLayout(machine, dtype, rows, columns)
  const packed = new (source.constructor as new (length: number) => T)(panels * rows * width)
  for (let panel = 0; panel < panels; panel++) {
    const first = panel * width
    const count = Math.min(width, columns - first)
    for (let row = 0; row < rows; row++) {
      const from = row * columns + first
      packed.set(source.subarray(from, from + count), (panel * rows + row) * width)
    }
  }
  return packed
}

/** True if tiles of a given shape start at panel boundaries, so that a matrix product can read them in place. */
export const readsPacked = (machine: Machine, shape: readonly [number, number]): boolean =>
  shape[1] % panelColumns(machine) === 0

/** The tile [row, column] (tile indices) of a packed tensor whose extents are known at launch, for `emitPackedDot`. */
export function packedTile(
  writer: Writer,
  machine: Machine,
  tensor: {
    readonly base: Operand
    readonly dtype: StorageDType
    readonly rows: Operand
    readonly columns: Operand
  },
  at: readonly [Operand, Operand],
  shape: readonly [number, number],
): PackedOperand {
  const width = panelColumns(machine)
  const bytes = dtypes[tensor.dtype].bytes
  const [rows, columns] = shape
  const panelStride = writer.let('panelStride', stride(tensor.rows, width * bytes))
  const firstRow = writer.let('firstRow', mul(at[0], i32(rows)))
  const firstPanel = writer.let('firstPanel', mul(at[1], i32(columns / width)))
  const panels = binary('div', add(tensor.columns, i32(width - 1)), i32(width))
  const base = address(step(tensor.base, firstPanel, panelStride), firstRow, width * bytes)
  return {
    base: writer.let('tile', base),
    dtype: tensor.dtype,
    rows,
    columns,
    panelStride,
    rowsInside: writer.let('rowsInside', min(i32(rows), sub(tensor.rows, firstRow))),
    panelsInside: writer.let('panelsInside', min(i32(columns / width), sub(panels, firstPanel))),
  }
}
