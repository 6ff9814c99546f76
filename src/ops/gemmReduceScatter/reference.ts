/** The contents of the inputs, and the reference result: one rank's shard of A x B, computed in float64. */
import { matrixProduct } from '../gathered/reference.ts'
import type { Scatter } from './product.ts'

export interface GemmReduceScatterContents {
  /** The whole matrix A, with M x K elements. */
  readonly a: ArrayLike<number>
  /** The whole matrix B, with K x N elements. */
  readonly b: ArrayLike<number>
}

/** A rectangle of C: its first row and column, and its extents. The extents of a shard without elements are 0. */
export interface Shard {
  readonly top: number
  readonly left: number
  readonly rows: number
  readonly columns: number
}

/** The shard of C that a rank receives, without padding. */
export function shardOf(
  rank: number,
  ranks: number,
  scatter: Scatter,
  { M, N }: { readonly M: number; readonly N: number },
): Shard {
  const part = (all: number) => {
    const height = Math.ceil(all / ranks)
    const first = Math.min(all, rank * height)
    return { first, extent: Math.min(all - first, height) }
  }
  const { first, extent } = part(scatter === 'M' ? M : N)
  return scatter === 'M'
    ? { top: first, left: 0, rows: extent, columns: N }
    : { top: 0, left: first, rows: M, columns: extent }
}

/** The given rows of a shard of C = A x B. Rows are numbered from the first row of the shard. */
export function shardOfProduct(
  { a, b }: GemmReduceScatterContents,
  shape: { readonly M: number; readonly N: number; readonly K: number },
  { top, left, columns }: Shard,
  rows: readonly number[],
): Float64Array {
  const whole = matrixProduct(
    a,
    b,
    shape,
    rows.map((row) => top + row),
  )
  if (columns === shape.N) return whole
  const shard = new Float64Array(rows.length * columns)
  for (let i = 0; i < rows.length; i++)
    shard.set(whole.subarray(i * shape.N + left, i * shape.N + left + columns), i * columns)
  return shard
}
