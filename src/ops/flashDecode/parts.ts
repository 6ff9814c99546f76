/**
 * Who attends to what on a rank, in parts of its (batch, kv head) tiles of the cache:
 *
 *   splits    every tile in so many; programs take one part after the other
 *   even      one share for each program, all of the same size: a run of blocks of tokens, which may begin in one tile and end in
 *             another. No multiprocessor idles, however few tiles there are, and a tile has no more parts than programs touch it
 *
 * A tile has as many blocks as the longest sequence of the batch, however much room the cache has. Tiles and programs are in groups as
 * small as can be, twelve and sixteen in four of three and four: shares are rounded up, and so groups begin together.
 *
 * Either way every tile has `splits` parts. In even shares some may be empty, where fewer programs touch a tile than another;
 * whoever has the end of the tile makes those.
 */
import { i32 } from '../../lang/dtypes.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv } from '../../lang/tensor.ts'
import type { Scalar } from '../../lang/value.ts'
import type { AttentionMeta, Cache, Where } from './attention.ts'

type Attend = (b: Scalar, h: Scalar, split: Scalar, where?: Where) => void

/** Calls `attend` for each part that this program has. */
export function eachPart(
  t: Program,
  { q, lengths }: Pick<Cache, 'q' | 'lengths'>,
  { splits, programs, groups, BN }: AttentionMeta,
  attend: Attend,
): void {
  const [batch, heads] = [q.dim(0), q.dim(1)]
  if (programs === 0) {
    t.persistent([splits, batch, heads], ([split, b, h]) => attend(b, h, split))
    return
  }
  const longest = t.for(batch, t.constant(i32, 1), (b, most) => most.max(t.load(lengths.at([b]))))
  const blocks = ceilDiv(longest, BN)
  const [members, tiles] = [programs / groups, batch.mul(heads).div(groups)]
  const [group, member] = [t.program.div(members), t.program.mod(members)]
  const all = tiles.mul(blocks)
  const share = ceilDiv(all, members)
  const from = member.mul(share).min(all)
  const to = from.add(share).min(all)
  t.for({ from: from.div(blocks), to: to.add(blocks).sub(1).div(blocks) }, (n) => {
    const top = n.mul(blocks)
    const first = from.sub(top).max(0)
    const end = to.sub(top).min(blocks)
    const split = member.sub(top.div(share))
    const more = end.lt(blocks).select(split.add(1), splits)
    const tile = group.mul(tiles).add(n)
    t.for({ from: split, to: more }, (part) => {
      const count = part.eq(split).select(end.sub(first), 0)
      attend(tile.div(heads), tile.mod(heads), part, { first: first.mul(BN), most: count.mul(BN) })
    })
  })
}

/** Of so many tiles and programs: the largest number that divides both. */
export const groupsOf = (tiles: number, programs: number): number =>
  programs === 0 ? tiles : groupsOf(programs, tiles % programs)

/**
 * The most programs of a group that touch one of its tiles, of any number of blocks up to so many. A tile is at most as long as
 * `programs / tiles` shares, and less where shares are rounded up: where it then begins just before a share does, it touches one more.
 */
export function splitsOfShares(tiles: number, mostBlocks: number, programs: number): number {
  let most = 1
  for (let tile = 0; tile < tiles; tile++) {
    const before = Math.floor((tile * programs) / tiles)
    most = Math.max(most, Math.ceil(((tile + 1) * programs) / tiles) - before)
    for (let shares = 1; shares <= before; shares++)
      most = Math.max(most, Math.ceil(((tile + 1) * shares) / tile) - (shares - 1))
  }
  return Math.min(most, mostBlocks)
}
