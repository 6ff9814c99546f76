/**
 * Defines layouts: a layout maps each element of a fragment to a thread of the group and to a register of that thread.
 *
 *   accumulator  the output layout of the matrix unit: 16 x 8 tiles in which a thread holds column pairs in two rows
 *   left         tiles like those of an accumulator, but every warp holds all columns of its rows, as in a left operand
 *   swapped      the output layout of the transposed product: an accumulator with rows and columns exchanged
 *   rows         one value per row of an accumulator or left operand, replicated in the threads that hold the row
 *   columns      one value per column of an accumulator, replicated in the threads that hold the column
 *   blocked      elements in memory order, assigned to the threads in vectors
 *
 * The `spread` of a matrix assigns its tiles to warps. The methods of a layout return C++ expressions in the register
 * index `i` of the unrolled loops in the emitted code.
 */
import type { Shape } from '../../../ir/type.ts'
import { all, code, group as grouped, hasSum, integer, operand, plain, plus, sum, type Code } from './code.ts'
import type { Group } from './groups.ts'
import { lib } from './library.ts'

export interface Layout {
  readonly kind: 'accumulator' | 'left' | 'swapped' | 'rows' | 'columns' | 'blocked'
  readonly shape: Shape
  /**
   * Identifies the layout. Two layouts of one shape have equal keys if every thread holds the same elements in the same
   * registers.
   */
  readonly key: string
  /** The number of elements per thread. */
  readonly count: number
  /** The number of elements per vector: groups of `vector` consecutive registers hold consecutive elements of a row. */
  readonly vector: number
  /** For matrices, the assignment of tiles to warps. */
  readonly spread: Spread | undefined
  /** The coordinates of the element in register `i`, one expression per axis. */
  place(i: Code): readonly Code[]
  /** The condition under which register `i` holds an element, or undefined if the register always holds an element. */
  exists(i: Code): Code | undefined
  /**
   * A condition that is true in exactly one of the threads that hold the same element; undefined if elements are not
   * replicated.
   */
  isFirst: Code | undefined
}

/**
 * The assignment of a matrix's tiles, of 16 rows and 8 columns each, to the warps of a group. The warps form a grid in
 * row-major order. If a group has more warps than tiles, several warps hold the same tiles.
 */
export interface Spread {
  readonly rowWarps: number
  readonly columnWarps: number
  /**
   * The number of warps that hold the same rows: the warps that divide the columns, times the warps that hold the same
   * tiles.
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
  const inTile = (i: Code): Code => (rowTiles === 1 ? i : code`${i} % ${perTile}`)
  const height = isWarpgroups ? 64 : TILE_ROWS
  const first = firstRow(spread, group)
  const rowInTile = isWarpgroups ? lib.fragment_row : lib.tile_row
  const row = (i: Code): Code => {
    const own = sum(first, code`${rowInTile}(${inTile(i)}, thread)`)
    const whole = rowTiles === 1 ? own : plus(own, code`${i} / ${perTile} * ${height}`)
    return isWarpgroups || hasSum(whole) || hasSum(i) ? grouped(whole) : whole
  }
  const column = (i: Code): Code => {
    const inWarp = code`${lib.fragment_column}(${inTile(i)}, thread)`
    return columnWarps === 1 ? inWarp : grouped(plus(firstColumn(spread), inWarp))
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
      all([
        isPadded.rows ? code`${row(i)} < ${rows}` : undefined,
        isPadded.columns ? code`${column(i)} < ${columns}` : undefined,
      ]),
    isFirst: columnWarps === warpsOfRow ? undefined : isFirstOfRow(spread, columnWarps),
  }
}

/**
 * True if wgmma can compute the transposed matrix: the rows of the transpose fill warpgroups, and its columns are a
 * multiple of 8.
 */
export const isSwappable = ([rows, columns]: Shape, group: Group): boolean =>
  rows % TILE_COLUMNS === 0 && spreadOf([columns, rows], group).isWarpgroups

/**
 * Returns the layout of the result of a transposed matrix product (`swapped`). Consecutive registers of the `swapped`
 * layout hold neighbours in a column, so elements are not stored as vectors.
 */
export function swappedLayout(shape: Shape, group: Group): Layout {
  const [rows, columns] = shape
  const transposed = matrixLayout('accumulator', [columns, rows], group)
  const place = (i: Code): readonly Code[] => transposed.place(i).toReversed()
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
  const { rowWarps, rowTiles, warpsOfRow, isWarpgroups } = spread
  const first = firstRow(spread, group)
  const inTiles = (i: Code): Code => {
    const inTile = code`${lib.tile_row}(${i} % 2 * 2, thread)`
    return rowTiles === 1 ? inTile : plus(code`${i} / 2 * 16`, inTile)
  }
  const row = (i: Code): Code =>
    isWarpgroups
      ? grouped(sum(first, code`${i} / 2 * 64 + ${lib.fragment_row}(${i} % 2 * 2, thread)`))
      : rowTiles === 1 && rowWarps === 1
        ? code`${lib.tile_row}(${i} * 2, thread)`
        : grouped(sum(first, inTiles(i)))
  return {
    kind: 'rows',
    shape,
    key: `rows ${rowTiles} ${warpsOfRow}`,
    count: 2 * rowTiles,
    vector: 1,
    spread: undefined,
    place: (i) => vectorPlace(shape, row(i)),
    exists: (i) => (rows % TILE_ROWS === 0 ? undefined : code`${row(i)} < ${rows}`),
    isFirst:
      warpsOfRow === 1 ? plain('thread % 4 == 0') : code`thread % 4 == 0 && ${isFirstOfRow(spread, 1)}`,
  }
}

/**
 * Returns the layout of the columns of a matrix with `rows` rows. The number of rows determines the assignment of
 * columns to warps.
 */
export function columnsLayout(shape: Shape, rows: number, group: Group): Layout {
  const columns = Math.max(...shape)
  const spread = spreadOf([rows, columns], group)
  const { columnTiles, columnWarps } = spread
  const inWarp = (i: Code): Code => grouped(code`${i} / 2 * 8 + thread % 4 * 2 + ${i} % 2`)
  const column = (i: Code): Code =>
    columnWarps === 1 ? inWarp(i) : grouped(plus(firstColumn(spread), inWarp(i)))
  return {
    kind: 'columns',
    shape,
    key: `columns ${columnTiles} ${columnWarps} ${spread.warpsOfRow}`,
    count: 2 * columnTiles,
    vector: columns % 2 === 0 ? 2 : 1,
    spread: undefined,
    place: (i) => vectorPlace(shape, column(i)),
    exists: (i) => (columns % TILE_COLUMNS === 0 ? undefined : code`${column(i)} < ${columns}`),
    isFirst: columnWarps === 1 ? plain('thread < 4') : code`thread % 32 < 4 && thread < ${32 * columnWarps}`,
  }
}

export function blockedLayout(shape: Shape, bytes: number, group: Group): Layout {
  const elements = shape.reduce((product, extent) => product * extent, 1)
  const inner = shape[shape.length - 1]
  let vector = 16 / bytes
  while (vector > 1 && (inner % vector !== 0 || elements < vector * group.threads)) vector /= 2
  const rounds = Math.ceil(elements / (vector * group.threads))
  const at = (i: Code): Code =>
    vector === 1
      ? grouped(code`${i} * ${group.threads} + thread`)
      : grouped(code`${i} / ${vector} * ${vector * group.threads} + thread * ${vector} + ${i} % ${vector}`)
  return {
    kind: 'blocked',
    shape,
    key: `blocked ${vector}`,
    count: rounds * vector,
    vector,
    spread: undefined,
    place: (i) =>
      shape.length === 1 ? [at(i)] : [grouped(code`${at(i)} / ${inner}`), grouped(code`${at(i)} % ${inner}`)],
    exists: (i) => (elements === rounds * vector * group.threads ? undefined : code`${at(i)} < ${elements}`),
    isFirst: undefined,
  }
}

/** Returns the coordinates of an element of a vector, or of a matrix with one axis of extent 1. */
const vectorPlace = (shape: Shape, text: Code): readonly Code[] => {
  if (shape.length === 1) return [text]
  return shape[1] === 1 ? [text, integer(0)] : [integer(0), text]
}

/** The first row that the executing warp holds. */
function firstRow({ rowWarps, rowTiles, warpsOfRow, isWarpgroups }: Spread, group: Group): Code {
  if (isWarpgroups) return group.warps === 4 ? integer(0) : code`thread / 128 * ${64 * rowTiles}`
  return rowWarps === 1 ? integer(0) : code`thread / ${32 * warpsOfRow} * ${TILE_ROWS * rowTiles}`
}

/** The first column that the executing warp holds. */
export const firstColumn = ({ columnWarps, columnTiles }: Spread): Code =>
  columnWarps === 1 ? integer(0) : code`thread / 32 % ${columnWarps} * ${TILE_COLUMNS * columnTiles}`

/** Returns a condition: the executing warp is one of the first `count` warps among those that hold the same rows. */
const isFirstOfRow = ({ rowWarps, warpsOfRow }: Spread, count: number): Code =>
  rowWarps === 1 ? code`thread < ${32 * count}` : code`thread / 32 % ${warpsOfRow} < ${count}`

/**
 * The index of the register that holds, in a layout of rows (or columns), the row (or column) of a matrix's register
 * `i`.
 */
export function sliceIndex(kind: 'rows' | 'columns', { spread }: Layout, index: Code): Code {
  const i = operand(index)
  const { rowTiles, columnTiles } = spread!
  const perTile = 4 * columnTiles
  if (kind === 'columns') {
    const j = rowTiles === 1 ? i : grouped(code`${i} % ${perTile}`)
    return code`${j} / 4 * 2 + ${j} % 2`
  }
  return rowTiles === 1 ? code`${i} / 2 % 2` : code`${i} / ${perTile} * 2 + ${i} / 2 % 2`
}
