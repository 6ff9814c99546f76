/**
 * 13: attention as on a GPU. Example 10 with the features of a real KV cache: batches, `G` query heads per KV head
 * (GQA), one length per batch entry, repeated launches, and tiles that are copied while the previous tile is multiplied.
 *
 * Each rank attends to its own shard and pushes the partial result (accumulator, maximum and sum of the softmax) to the owner
 * rank of the (batch, head). The owner merges partial results as they arrive. docs/lowering.md shows how this kernel becomes
 * GPU instructions. The operation `flashDecode` of `arke/ops` has several such kernels and divides sequences into more splits.
 *
 *   q, out    [batch, kv heads, G, D]; the owner of a (batch, head) writes `out`
 *   k, v      [batch, kv heads, capacity, D]: this rank's shard; `lengths[batch]` tokens are valid, possibly 0
 *   inbox     [2, world x batch x kv heads, G, D], stats [2, world x batch x kv heads, 2, G]: one slot per epoch parity
 *   arrived   [world, batch, kv heads]: the partial result of the source rank is in the inbox
 *   done      [world]: the rank has read its inbox; a slot is reused two launches later
 *
 * The softmax uses powers of two. The initial maximum is -1e30: unlike -Infinity, it can be subtracted from itself.
 */
import { bf16, ceilDiv, expectClose, f32, flags, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

const NOTHING = -1e30

export const decodeToOwners = kernel(
  'decodeToOwners',
  {
    q: tensor(bf16, 4),
    k: tensor(bf16, 4),
    v: tensor(bf16, 4),
    lengths: tensor(i32, 1),
    out: tensor(bf16, 4),
    inbox: tensor(f32, 4),
    stats: tensor(f32, 4),
    arrived: flags(3),
    done: flags(1),
  },
  { G: 16, D: 128, BN: 64, stages: 2, scale: 0.08838834764831845 },
  (t, { q, k, v, lengths, out, inbox, stats, arrived, done }, { G, D, BN, stages, scale }) => {
    const [batch, heads] = [q.dim(0), q.dim(1)]
    const slot = t.epoch(arrived).mod(2).to(i32)
    const ks = t.shared(bf16, [BN, D])
    const vs = t.shared(bf16, [BN, D])

    t.persistent([batch, heads], ([b, h]) => {
      const query = t.load(q.pick(b).pick(h).tile([0, 0], [G, D]))
      const length = t.load(lengths.at([b]))
      const keys = k.pick(b).pick(h).slice(0, 0, length)
      const values = v.pick(b).pick(h).slice(0, 0, length)
      const start = { m: t.full(f32, [G], NOTHING), l: t.zeros(f32, [G]), acc: t.zeros(f32, [G, D]) }
      const part = t.pipeline(
        [ceilDiv(length, BN)],
        start,
        ([j], { m, l, acc }) => {
          t.copy(keys.tile([j, 0], [BN, D]), ks)
          t.copy(values.tile([j, 0], [BN, D]), vs)
          const token = t.arange(BN).add(j.mul(BN)).expand(0).broadcast([G, BN])
          const scores = t.dot(query, ks.transpose(), t.zeros(f32, [G, BN])).mul(scale * Math.LOG2E)
          const masked = token.lt(length).select(scores, NOTHING)
          const next = m.max(masked.maximum(1))
          const p = masked.sub(next.expand(1)).exp2()
          const kept = m.sub(next).exp2()
          return {
            m: next,
            l: l.mul(kept).add(p.sum(1)),
            acc: t.dot(p.to(bf16), vs, acc.mul(kept.expand(1))),
          }
        },
        { stages },
      )
      const tile = b.mul(heads).add(h)
      const owner = tile.mod(t.world)
      const at = t.rank.mul(batch).mul(heads).add(tile)
      t.wait(done.at([owner]), { lag: 2 })
      t.store(inbox.on(owner).pick(slot).pick(at).tile([0, 0], [G, D]), part.acc)
      t.store(stats.on(owner).pick(slot).pick(at).pick(0).tile([0], [G]), part.m)
      t.store(stats.on(owner).pick(slot).pick(at).pick(1).tile([0], [G]), part.l)
      t.signal(arrived.on(owner).at([t.rank, b, h]))
    })

    const owned = batch
      .mul(heads)
      .sub(t.rank)
      .add(t.world - 1)
      .div(t.world)
    t.persistent([owned], ([n]) => {
      const tile = n.mul(t.world).add(t.rank)
      const [b, h] = [tile.div(heads), tile.mod(heads)]
      const start = { m: t.full(f32, [G], NOTHING), l: t.zeros(f32, [G]), acc: t.zeros(f32, [G, D]) }
      const { l, acc } = t.for(t.world, start, (source, { m, l, acc }) => {
        const at = source.mul(batch).mul(heads).add(tile)
        t.wait(arrived.at([source, b, h]))
        const from = {
          m: t.load(stats.pick(slot).pick(at).pick(0).tile([0], [G])),
          l: t.load(stats.pick(slot).pick(at).pick(1).tile([0], [G])),
          acc: t.load(inbox.pick(slot).pick(at).tile([0, 0], [G, D])),
        }
        const next = m.max(from.m)
        const [kept, added] = [m.sub(next).exp2(), from.m.sub(next).exp2()]
        return {
          m: next,
          l: l.mul(kept).add(from.l.mul(added)),
          acc: acc.mul(kept.expand(1)).add(from.acc.mul(added.expand(1))),
        }
      })
      const some = l.gt(0)
      const result = acc.div(some.select(l, 1).expand(1))
      t.copy(result.to(bf16), out.pick(b).pick(h).tile([0, 0], [G, D]))
    })
    t.last(() => t.signalAll(done.at([t.rank])))
  },
)

const [batch, heads, G, D, BN, capacity, scale] = [2, 1, 2, 4, 3, 5, 0.5]
/** The lengths of the sequences differ, and one of them is 0. */
const lengthOf = (rank: number, b: number): number => (rank === 1 && b === 0 ? 0 : [5, 2, 4][(rank + b) % 3])

/** Multiples of 1/4 between -1 and 1, which are exact in bf16. */
const numbers = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) => (((i * 7 + seed * 5 + ((i * i) % 3)) % 9) - 4) / 4)
const queries = numbers(batch * heads * G * D, 3)
const keysOf = (rank: number): number[] => numbers(batch * heads * capacity * D, rank + 20)
const valuesOf = (rank: number): number[] => numbers(batch * heads * capacity * D, rank + 40)

/** Computes attention from its definition: a softmax over all tokens of all ranks at once. */
function attend(ranks: number, b: number, g: number): number[] {
  const tokens = Array.from({ length: ranks }, (_, rank) =>
    Array.from({ length: lengthOf(rank, b) }, (_, s) => ({ rank, at: (b * capacity + s) * D })),
  ).flat()
  const weights = tokens.map(({ rank, at }) => {
    let score = 0
    for (let d = 0; d < D; d++) score += queries[(b * G + g) * D + d] * keysOf(rank)[at + d]
    return Math.exp(score * scale)
  })
  const total = weights.reduce((sum, weight) => sum + weight, 0)
  return Array.from({ length: D }, (_, d) =>
    tokens.reduce((sum, { rank, at }, i) => sum + (weights[i] / total) * valuesOf(rank)[at + d], 0),
  )
}

const launches = 3

export const ragged = scenario('attention in tiles, to owners', { ranks: [1, 2, 3] }, async (world) => {
  const { ranks } = world
  const cache = [batch, heads, capacity, D]
  const out = world.empty(bf16, [batch, heads, G, D], { name: 'out' })
  const args = {
    q: world.from(bf16, [batch, heads, G, D], queries, { name: 'q' }),
    k: world.from(bf16, cache, keysOf, { name: 'k' }),
    v: world.from(bf16, cache, valuesOf, { name: 'v' }),
    lengths: world.from(i32, [batch], (rank) => [lengthOf(rank, 0), lengthOf(rank, 1)], { name: 'lengths' }),
    out,
    inbox: world.empty(f32, [2, ranks * batch * heads, G, D], { name: 'inbox' }),
    stats: world.empty(f32, [2, ranks * batch * heads, 2, G], { name: 'stats' }),
    arrived: world.flags([ranks, batch, heads], { name: 'arrived' }),
    done: world.flags([ranks], { name: 'done' }),
  }
  for (let launch = 0; launch < launches; launch++)
    world.launch(decodeToOwners, args, { grid: 1, meta: { G, D, BN, scale } })
  for (let b = 0; b < batch; b++) {
    const mine = (await world.read(out, b % ranks)).subarray(b * G * D, (b + 1) * G * D)
    expectClose(mine, [...attend(ranks, b, 0), ...attend(ranks, b, 1)], { atol: 0.02 })
  }
  const tokens = Array.from({ length: ranks }, (_, rank) => lengthOf(rank, 0)).reduce((sum, n) => sum + n, 0)
  return [`owners have attended to all ${tokens} tokens of the first sequence, ${launches} times`]
})

await show(import.meta.url, ragged)
