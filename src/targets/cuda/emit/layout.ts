/**
 * Defines layouts: a layout maps each element of a fragment to a thread of the group and to a register of that thread.
 *
 *   accumulator  the output layout of the matrix unit: tiles of 16 x 8, in which a thread holds pairs of columns in two
 *                rows. The spread of the matrix assigns the tiles to warps
 *   left         the same tiles, but every warp holds all columns of its rows: the layout of a left operand in
 *                registers
 *   swapped      the output layout of the transposed product: an accumulator with rows and columns exchanged
 *   rows         one value per row of an accumulator or left operand, replicated in the four threads of the row and in
 *                all warps that hold the row
 *   columns      one value per column of an accumulator, replicated in all warps that hold the column and in eight
 *                threads of each
 *   blocked      elements in memory order, assigned to the threads in vectors
 *
 * The methods of a layout return C++ expressions in the register index `i` of the unrolled loops in the emitted code.
 */
import type { Shape } from '../../../ir/type.ts'
import type { Group } from './groups.ts'

export interface Layout {
  readonly kind: 'accumulator' | 'left' | 'swapped' | 'rows' | 'columns' | 'blocked'
  readonly shape: Shape
  /** Equal for layouts of one shape in which every thread holds the same elements in the same registers. */
  readonly key: string
  /** The number of elements per thread. */
  readonly count: number
  /** This many consecutive registers, starting at a multiple of this number, hold consecutive elements of a row. */
  readonly vector: number
  /** For matrices, the assignment of tiles to warps. */
  readonly spread: Spread | undefined
  /** The coordinates of the element in register `i`, one expression per axis. */
  place(i: string): readonly string[]
  /** A condition for register `i` to hold an element; undefined if it always does. */
  exists(i: string): string | undefined
  /**
   * A condition that is true in exactly one of the threads that hold the same element; undefined if elements are not
   * replicated.
   */
  isFirst: string | undefined
}

/**
 * The assignment of a matrix's tiles, of 16 rows and 8 columns each, to the warps of a group. The warps form a grid in
 * row-major order. If a group has more warps than tiles, several warps hold the same tiles.
 */
export interface Spread {
  readonly rowWarps: number
  readonly columnWarps: number
  /**
   * The number of warps per entry of `rowWarps`: warps that divide the columns, times warps that hold the same tiles.
   */
  readonly warpsOfRow: number
  /**
   * The number of tiles per warp along the rows (16 rows each); `columnTiles` counts along the columns (8 columns
   * each).
   */
  readonly rowTiles: number
  readonly columnTiles: number
  /** True for the layout of wgmma: four warps hold 64 consecutive rows, and the tiles of a warp are 64 rows apart. */
  readonly isWarpgroups: boolean
}

const TILE_ROWS = 16
const TILE_COLUMNS = 8

/** Assigns tiles to warps. The row tiles are divided among the warps first, and remaining warps divide the columns. */
export function spreadOf([rows, columns]: Shape, { warps }: Group, sharesColumns = true): Spread {
  const columnTiles = Math.ceil(columns / TILE_COLUMNS)
  if (warps % 4 === 0 && rows % (TILE_ROWS * warps) === 0) {
    const rowTiles = rows / TILE_ROWS / warps
    return { rowWarps: warps, columnWarps: 1, warpsOfRow: 1, rowTiles, columnTiles, isWarpgroups: true }
  }
  const tiles = Math.ceil(rows / TILE_ROWS)
  const rowWarps = commonPower(tiles, warps)
  const warpsOfRow = warps / rowWarps
  const columnWarps = sharesColumns ? commonPower(columnTiles, warpsOfRow) : 1
  return {
    rowWarps,
    columnWarps,
    warpsOfRow,
    rowTiles: tiles / rowWarps,
    columnTiles: columnTiles / columnWarps,
    isWarpgroups: false,
  }
}

/** The largest power of two that divides both numbers. */
const commonPower = (a: number, b: number): number => Math.min(a & -a, b & -b)

export function matrixLayout(kind: 'accumulator' | 'left', shape: Shape, group: Group): Layout {
  const [rows, columns] = shape
  const spread = spreadOf(shape, group, kind === 'accumulator')
  const { rowTiles, columnTiles, columnWarps, warpsOfRow, isWarpgroups } = spread
  const perTile = 4 * columnTiles
  const inTile = (i: string): string => (rowTiles === 1 ? i : `${i} % ${perTile}`)
  const height = isWarpgroups ? 64 : TILE_ROWS
  const tile = (i: string): string => (rowTiles === 1 ? '' : ` + ${i} / ${perTile} * ${height}`)
  const rowInTile = isWarpgroups ? 'fragment_row' : 'tile_row'
  const row = (i: string): string => {
    const text = `${firstRow(spread, group)}${rowInTile}(${inTile(i)}, thread)${tile(i)}`
    return isWarpgroups || text.includes(' + ') ? `(${text})` : text
  }
  const column = (i: string): string => {
    const inWarp = `fragment_column(${inTile(i)}, thread)`
    return columnWarps === 1 ? inWarp : `(${firstColumn(spread)} + ${inWarp})`
  }
  const isPadded = { rows: rows % TILE_ROWS !== 0, columns: columns % TILE_COLUMNS !== 0 }
  return {
    kind,
    shape,
    key: `matrix ${Object.values(spread).join(' ')}`,
    count: rowTiles * perTile,
    vector: columns % 2 === 0 ? 2 : 1,
    spread,
    place: (i) => [row(i), column(i)],
    exists: (i) =>
      [
        ...(isPadded.rows ? [`${row(i)} < ${rows}`] : []),
        ...(isPadded.columns ? [`${column(i)} < ${columns}`] : []),
      ].join(' && ') || undefined,
    isFirst: columnWarps === warpsOfRow ? undefined : isFirstOfRow(spread, columnWarps),
  }
}

/** True if wgmma can compute the transposed matrix: its rows fill warpgroups, and its columns are a multiple of 8. */
export const isSwappable = ([rows, columns]: Shape, group: Group): boolean =>
  rows % TILE_COLUMNS === 0 && spreadOf([columns, rows], group).isWarpgroups

/** Consecutive registers of a swapped layout hold neighbours in a column, so elements are not stored as vectors. */
export function swappedLayout(shape: Shape, group: Group): Layout {
  const [rows, columns] = shape
  const transposed = matrixLayout('accumulator', [columns, rows], group)
  const place = (i: string): readonly string[] => transposed.place(i).toReversed()
  return {
    ...transposed,
    kind: 'swapped',
    shape,
    key: `swapped ${transposed.key}`,
    vector: 1,
    spread: undefined,
    place,
  }
}

export function rowsLayout(shape: Shape, group: Group): Layout {
  const rows = Math.max(...shape)
  const spread = spreadOf([rows, TILE_COLUMNS], group)
  const { rowTiles, warpsOfRow, isWarpgroups } = spread
  const first = firstRow(spread, group)
  const row = (i: string): string =>
    isWarpgroups
      ? `(${first}${i} / 2 * 64 + fragment_row(${i} % 2 * 2, thread))`
      : rowTiles === 1 && first === ''
        ? `tile_row(${i} * 2, thread)`
        : `(${first}${rowTiles === 1 ? '' : `${i} / 2 * 16 + `}tile_row(${i} % 2 * 2, thread))`
  return {
    kind: 'rows',
    shape,
    key: `rows ${rowTiles} ${warpsOfRow}`,
    count: 2 * rowTiles,
    vector: 1,
    spread: undefined,
    place: (i) => vectorPlace(shape, row(i)),
    exists: (i) => (rows % TILE_ROWS === 0 ? undefined : `${row(i)} < ${rows}`),
    isFirst: warpsOfRow === 1 ? 'thread % 4 == 0' : `thread % 4 == 0 && ${isFirstOfRow(spread, 1)}`,
  }
}

/** `rows` is the height of the matrix, which determines the assignment of columns to warps. */
export function columnsLayout(shape: Shape, rows: number, group: Group): Layout {
  const columns = Math.max(...shape)
  const spread = spreadOf([rows, columns], group)
  const { columnTiles, columnWarps } = spread
  const inWarp = (i: string): string => `(${i} / 2 * 8 + thread % 4 * 2 + ${i} % 2)`
  const column = (i: string): string =>
    columnWarps === 1 ? inWarp(i) : `(${firstColumn(spread)} + ${inWarp(i)})`
  return {
    kind: 'columns',
    shape,
    key: `columns ${columnTiles} ${columnWarps} ${spread.warpsOfRow}`,
    count: 2 * columnTiles,
    vector: columns % 2 === 0 ? 2 : 1,
    spread: undefined,
    place: (i) => vectorPlace(shape, column(i)),
    exists: (i) => (columns % TILE_COLUMNS === 0 ? undefined : `${column(i)} < ${columns}`),
    isFirst: columnWarps === 1 ? 'thread < 4' : `thread % 32 < 4 && thread < ${32 * columnWarps}`,
  }
}

export function blockedLayout(shape: Shape, bytes: number, group: Group): Layout {
  const elements = shape.reduce((product, extent) => product * extent, 1)
  const inner = shape[shape.length - 1]
  let vector = 16 / bytes
  while (vector > 1 && (inner % vector !== 0 || elements < vector * group.threads)) vector /= 2
  const rounds = Math.ceil(elements / (vector * group.threads))
  const at = (i: string): string =>
    vector === 1
      ? `(${i} * ${group.threads} + thread)`
      : `(${i} / ${vector} * ${vector * group.threads} + thread * ${vector} + ${i} % ${vector})`
  return {
    kind: 'blocked',
    shape,
    key: `blocked ${vector}`,
    count: rounds * vector,
    vector,
    spread: undefined,
    place: (i) => (shape.length === 1 ? [at(i)] : [`(${at(i)} / ${inner})`, `(${at(i)} % ${inner})`]),
    exists: (i) => (elements === rounds * vector * group.threads ? undefined : `${at(i)} < ${elements}`),
    isFirst: undefined,
  }
}

/** The coordinates of an element of a vector, or of a matrix with one axis of extent 1. */
const vectorPlace = (shape: Shape, text: string): readonly string[] => {
  if (shape.length === 1) return [text]
  return shape[1] === 1 ? [text, '0'] : ['0', text]
}

/** The first row of the executing warp, followed by ` + `; empty if the first row is 0. */
function firstRow({ rowWarps, rowTiles, warpsOfRow, isWarpgroups }: Spread, group: Group): string {
  if (isWarpgroups) return group.warps === 4 ? '' : `thread / 128 * ${64 * rowTiles} + `
  return rowWarps === 1 ? '' : `thread / ${32 * warpsOfRow} * ${TILE_ROWS * rowTiles} + `
}

/** The first column of the executing warp. */
export const firstColumn = ({ columnWarps, columnTiles }: Spread): string =>
  columnWarps === 1 ? '0' : `thread / 32 % ${columnWarps} * ${TILE_COLUMNS * columnTiles}`

/** A condition: the executing warp is among the first `count` warps that hold its rows. */
const isFirstOfRow = ({ rowWarps, warpsOfRow }: Spread, count: number): string =>
  rowWarps === 1 ? `thread < ${32 * count}` : `thread / 32 % ${warpsOfRow} < ${count}`

/** The register of a row (column) layout that corresponds to register `i` of the matrix layout. */
export function sliceIndex(kind: 'rows' | 'columns', { spread }: Layout, i: string): string {
  const { rowTiles, columnTiles } = spread!
  const perTile = 4 * columnTiles
  if (kind === 'columns') {
    const j = rowTiles === 1 ? i : `(${i} % ${perTile})`
    return `${j} / 4 * 2 + ${j} % 2`
  }
  return rowTiles === 1 ? `${i} / 2 % 2` : `${i} / ${perTile} * 2 + ${i} / 2 % 2`
}
