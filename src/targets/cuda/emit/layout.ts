/**
 * Layouts: which thread of a group holds which elements of a fragment, in which of its registers.
 *
 *   accumulator  what the matrix unit leaves: tiles of 16 x 8, of which a thread has pairs of columns in two rows; how warps
 *                share out the tiles is the matrix's spread
 *   left         the same, but every warp has all columns of its rows: what a product reads from registers
 *   swapped      what the matrix unit leaves of the transposed product: an accumulator whose rows are columns
 *   rows         one value a row of either: the four threads of a row, and all warps that have the row, hold the same
 *   columns      one value a column of an accumulator: all warps that have the column, and in them eight threads, hold the same
 *   blocked      elements in memory order, dealt out to the threads in vectors
 *
 * A layout answers in C++ text, for the register index `i` of the unrolled loops that emitted code is made of.
 */
import type { Shape } from '../../../ir/type.ts'
import type { Group } from './groups.ts'

export interface Layout {
  readonly kind: 'accumulator' | 'left' | 'swapped' | 'rows' | 'columns' | 'blocked'
  readonly shape: Shape
  /** Equal for layouts of one shape in which every thread holds the same elements in the same registers. */
  readonly key: string
  /** Elements a thread holds. */
  readonly count: number
  /** Registers `i`, `i` + 1, … of a multiple of this many lie side by side in a row. */
  readonly vector: number
  /** Of matrices: how warps share it out. */
  readonly spread: Spread | undefined
  /** Where register `i` lies, one text an axis. */
  place(i: string): readonly string[]
  /** A condition under which register `i` is an element at all; undefined: always. */
  exists(i: string): string | undefined
  /** A condition that holds in exactly one of the threads that hold the same element; undefined: in all. */
  isFirst: string | undefined
}

/**
 * How the warps of a group share out a matrix in tiles of 16 rows and 8 columns. Warps stand in a grid, columns inner; where
 * there are more warps than tiles, several hold the same.
 */
export interface Spread {
  readonly rowWarps: number
  readonly columnWarps: number
  /** Warps for each of `rowWarps`: those that share out the columns, and those that hold the same as another. */
  readonly warpsOfRow: number
  /** Tiles of 16 rows, and of 8 columns, that a warp holds. */
  readonly rowTiles: number
  readonly columnTiles: number
  /** As wgmma has it: every four warps have 64 rows side by side, and the tiles of a warp are 64 rows apart. */
  readonly isWarpgroups: boolean
}

const TILE_ROWS = 16
const TILE_COLUMNS = 8

/** Rows first: each warp has rows of its own while there are tiles of 16; then warps share out the columns. */
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

/** The largest power of two that divides both. */
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

/** Whether warpgroups can have so many rows of the transposed matrix, in whole octets of its columns. */
export const isSwappable = ([rows, columns]: Shape, group: Group): boolean =>
  rows % TILE_COLUMNS === 0 && spreadOf([columns, rows], group).isWarpgroups

/** Neighbours in a thread's registers are neighbours in a column, so nothing is stored in vectors. */
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

/** `rows` is the height of the matrix: it decides which warps have which columns. */
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

/** The axis of a vector, or the one of a matrix that is not 1. */
const vectorPlace = (shape: Shape, text: string): readonly string[] => {
  if (shape.length === 1) return [text]
  return shape[1] === 1 ? [text, '0'] : ['0', text]
}

/** The first row of the executing warp, and `+`. */
function firstRow({ rowWarps, rowTiles, warpsOfRow, isWarpgroups }: Spread, group: Group): string {
  if (isWarpgroups) return group.warps === 4 ? '' : `thread / 128 * ${64 * rowTiles} + `
  return rowWarps === 1 ? '' : `thread / ${32 * warpsOfRow} * ${TILE_ROWS * rowTiles} + `
}

/** The first column of the executing warp. */
export const firstColumn = ({ columnWarps, columnTiles }: Spread): string =>
  columnWarps === 1 ? '0' : `thread / 32 % ${columnWarps} * ${TILE_COLUMNS * columnTiles}`

/** Whether the executing warp is one of the first so many of those with its rows. */
const isFirstOfRow = ({ rowWarps, warpsOfRow }: Spread, count: number): string =>
  rowWarps === 1 ? `thread < ${32 * count}` : `thread / 32 % ${warpsOfRow} < ${count}`

/** Which register of a row (column) layout belongs to register `i` of the matrix it comes from. */
export function sliceIndex(kind: 'rows' | 'columns', { spread }: Layout, i: string): string {
  const { rowTiles, columnTiles } = spread!
  const perTile = 4 * columnTiles
  if (kind === 'columns') {
    const j = rowTiles === 1 ? i : `(${i} % ${perTile})`
    return `${j} / 4 * 2 + ${j} % 2`
  }
  return rowTiles === 1 ? `${i} / 2 % 2` : `${i} / ${perTile} * 2 + ${i} / 2 % 2`
}
