/**
 * Assigns splits of a rank's (batch, kv head) tiles to programs. There are two ways to assign splits:
 *
 *   splits    every tile has `splits` parts, and programs take one part after another
 *   even      stream-K: one equal share per program, a run of blocks of tokens that may span several tiles
 *
 * With stream-K no processor idles, however few tiles there are, and a tile has only as many nonempty splits as
 * programs that touch it. In both assignments, every tile has `splits` splits. With stream-K some splits may be empty,
 * because fewer programs work on one tile than on another. The program that works on the end of a tile also produces
 * the tile's empty partial results.
 */
import type { Program } from '../../lang/program.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { AttentionMeta, Cache, Where } from './attention.ts'

type Attend = (b: Scalar, h: Scalar, split: Scalar, where?: Where) => void

/** Calls `attend` for each split that is assigned to this program. */
export function eachPart(
  t: Program,
  { q, k }: Pick<Cache, 'q' | 'k'>,
  { splits, programs, BN }: AttentionMeta,
  attend: Attend,
): void {
  const [batch, heads] = [q.dim(0), q.dim(1)]
  if (programs === 0) {
    t.persistent([splits, batch, heads], ([split, b, h]) => attend(b, h, split))
    return
  }
  const blocks = ceilDiv(k.dim(2), BN)
  const all = batch.mul(heads).mul(blocks)
  const share = ceilDiv(all, programs)
  const from = t.program.mul(share).min(all)
  const to = from.add(share).min(all)
  t.for({ from: from.div(blocks), to: to.add(blocks).sub(1).div(blocks) }, (tile) => {
    const top = tile.mul(blocks)
    const first = from.sub(top).max(0)
    const end = to.sub(top).min(blocks)
    const split = t.program.sub(top.div(share))
    const more = end.lt(blocks).select(split.add(1), splits)
    t.for({ from: split, to: more }, (part) => {
      const count = part.eq(split).select(end.sub(first), 0)
      attend(tile.div(heads), tile.mod(heads), part, { first: first.mul(BN), most: count.mul(BN) })
    })
  })
}

/**
 * The largest number of programs that work on one tile in the stream-K assignment, given `tiles` tiles of `blocks`
 * blocks each.
 */
export function splitsOfShares(tiles: number, blocks: number, programs: number): number {
  const share = Math.ceil((tiles * blocks) / programs)
  let most = 1
  for (let tile = 0; tile < tiles; tile++) {
    const [first, last] = [tile * blocks, (tile + 1) * blocks - 1]
    most = Math.max(most, Math.floor(last / share) - Math.floor(first / share) + 1)
  }
  return most
}
