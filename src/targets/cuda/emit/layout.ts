/**
 * Layouts: which thread of a group holds which elements of a fragment, in which of its registers.
 *
 *   accumulator  what wgmma leaves: a warpgroup has 64 rows (or several times 64), a warp 16 of them, a thread pairs of columns
 *   rows         one value a row of an accumulator: the four threads of a row hold the same
 *   columns      one value a column of an accumulator: all warps, and in them eight threads, hold the same
 *   blocked      elements in memory order, dealt out to the threads in vectors
 *
 * A layout answers in C++ text, for the register index `i` of the unrolled loops that emitted code is made of.
 */
import type { Shape } from '../../../ir/type.ts'
import type { Group } from './groups.ts'

export interface Layout {
  readonly kind: 'accumulator' | 'rows' | 'columns' | 'blocked'
  readonly shape: Shape
  /** Elements a thread holds. */
  readonly count: number
  /** Registers `i`, `i` + 1, … of a multiple of this many lie side by side in a row. */
  readonly vector: number
  /** Where register `i` lies, one text an axis. */
  place(i: string): readonly string[]
  /** A condition under which register `i` is an element at all; undefined: always. */
  exists(i: string): string | undefined
  /** A condition that holds in exactly one of the threads that hold the same element; undefined: in all. */
  isFirst: string | undefined
}

export const sameLayout = (a: Layout, b: Layout): boolean =>
  a.kind === b.kind && a.count === b.count && a.vector === b.vector && a.shape.join() === b.shape.join()

/** Rows of a [m x n] accumulator that one warpgroup holds, in tiles of 64; 0 if they cannot be dealt out evenly. */
export function rowTiles(rows: number, group: Group): number {
  const warpgroups = group.warps / 4
  const tiles = rows / 64 / warpgroups
  return Number.isInteger(warpgroups) && Number.isInteger(tiles) ? tiles : 0
}

export function accumulatorLayout(shape: Shape, group: Group): Layout {
  const [rows, columns] = shape
  const tiles = rowTiles(rows, group)
  const perTile = columns / 2
  const first = firstRow(tiles, group)
  const inTile = (i: string): string => (tiles === 1 ? i : `${i} % ${perTile}`)
  const tile = (i: string): string => (tiles === 1 ? '' : ` + ${i} / ${perTile} * 64`)
  return {
    kind: 'accumulator',
    shape,
    count: tiles * perTile,
    vector: 2,
    place: (i) => [
      `(${first}fragment_row(${inTile(i)}, thread)${tile(i)})`,
      `fragment_column(${inTile(i)}, thread)`,
    ],
    exists: () => undefined,
    isFirst: undefined,
  }
}

export function rowsLayout(shape: Shape, group: Group): Layout {
  const tiles = rowTiles(Math.max(...shape), group)
  const first = firstRow(tiles, group)
  const row = (i: string): string => `(${first}${i} / 2 * 64 + fragment_row(${i} % 2 * 2, thread))`
  return {
    kind: 'rows',
    shape,
    count: 2 * tiles,
    vector: 1,
    place: (i) => (shape.length === 1 ? [row(i)] : [row(i), '0']),
    exists: () => undefined,
    isFirst: 'thread % 4 == 0',
  }
}

export function columnsLayout(shape: Shape): Layout {
  const columns = Math.max(...shape)
  const column = (i: string): string => `(${i} / 2 * 8 + thread % 4 * 2 + ${i} % 2)`
  return {
    kind: 'columns',
    shape,
    count: columns / 4,
    vector: 2,
    place: (i) => (shape.length === 1 ? [column(i)] : ['0', column(i)]),
    exists: () => undefined,
    isFirst: 'thread < 4',
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
    count: rounds * vector,
    vector,
    place: (i) => (shape.length === 1 ? [at(i)] : [`(${at(i)} / ${inner})`, `(${at(i)} % ${inner})`]),
    exists: (i) => (elements === rounds * vector * group.threads ? undefined : `${at(i)} < ${elements}`),
    isFirst: undefined,
  }
}

const firstRow = (tiles: number, group: Group): string =>
  group.warps === 4 ? '' : `thread / 128 * ${64 * tiles} + `

/** Which register of a row (column) layout belongs to register `i` of the accumulator it comes from. */
export function sliceIndex(kind: 'rows' | 'columns', matrix: Layout, i: string): string {
  const perTile = matrix.shape[1] / 2
  const tiles = matrix.count / perTile
  if (kind === 'columns') {
    const j = tiles === 1 ? i : `(${i} % ${perTile})`
    return `${j} / 4 * 2 + ${j} % 2`
  }
  return tiles === 1 ? `${i} / 2 % 2` : `${i} / ${perTile} * 2 + ${i} / 2 % 2`
}
