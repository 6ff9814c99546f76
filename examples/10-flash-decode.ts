/**
 * 10: attention over a divided sequence. A sequence is divided among the ranks. Each rank computes attention to its own
 * tokens, and the partial results are merged.
 *
 * A softmax needs the largest score of the whole sequence, which no single rank knows. A partial result therefore
 * consists of the rank's own largest score m, the sum l of powers relative to m, and the values `sum` weighted by those
 * powers. Two partial results are merged by scaling both to the larger m. No sum overflows, however large the scores
 * are. A partial result without tokens has weight 0: its m is -1e30, because unlike -Infinity it can be subtracted from
 * itself. The softmax of this example uses powers of two in place of powers of e.
 */
import { expectClose, f32, flags, kernel, scalar, scenario, tensor } from 'arke'
import { show } from './show.ts'

const nothing = -1e30

export const decode = kernel(
  'decode',
  {
    q: tensor(f32, 2),
    k: tensor(f32, 2),
    v: tensor(f32, 2),
    length: scalar('i32'), // the number of tokens of this rank
    sums: tensor(f32, 3),
    stats: tensor(f32, 3),
    arrived: flags(1),
    out: tensor(f32, 2),
  },
  { HEADS: 2, D: 2, TOKENS: 4 },
  (t, { q, k, v, length, sums, stats, arrived, out }, { HEADS, D, TOKENS }) => {
    const keys = t.load(k.tile([0, 0], [TOKENS, D]))
    const values = t.load(v.tile([0, 0], [TOKENS, D]))
    const scores = t.dot(t.load(q.tile([0, 0], [HEADS, D])), keys.transpose(), t.zeros(f32, [HEADS, TOKENS]))
    const exists = t.arange(TOKENS).lt(length).expand(0).broadcast([HEADS, TOKENS])
    const m = exists.select(scores.mul(Math.LOG2E), nothing).maximum(1)
    const powers = exists.select(scores.mul(Math.LOG2E).sub(m.expand(1)).exp2(), 0)
    const part = { m, l: powers.sum(1), sum: t.dot(powers, values, t.zeros(f32, [HEADS, D])) }

    t.for(t.world, (step) => {
      const peer = t.rank.add(step).mod(t.world)
      t.store(sums.on(peer).pick(t.rank).tile([0, 0], [HEADS, D]), part.sum)
      t.store(stats.on(peer).pick(t.rank).pick(0).tile([0], [HEADS]), part.m)
      t.store(stats.on(peer).pick(t.rank).pick(1).tile([0], [HEADS]), part.l)
      t.signal(arrived.on(peer).at([t.rank]))
    })

    const empty = {
      m: t.full(f32, [HEADS], nothing),
      l: t.zeros(f32, [HEADS]),
      sum: t.zeros(f32, [HEADS, D]),
    }
    const whole = t.for(t.world, empty, (source, { m, l, sum }) => {
      t.wait(arrived.at([source]))
      const theirs = t.load(stats.pick(source).pick(0).tile([0], [HEADS]))
      const larger = m.max(theirs)
      const [kept, added] = [m.sub(larger).exp2(), theirs.sub(larger).exp2()]
      return {
        m: larger,
        l: l.mul(kept).add(t.load(stats.pick(source).pick(1).tile([0], [HEADS])).mul(added)),
        sum: sum
          .mul(kept.expand(1))
          .add(t.load(sums.pick(source).tile([0, 0], [HEADS, D])).mul(added.expand(1))),
      }
    })
    t.copy(whole.sum.div(whole.l.expand(1)), out.tile([0, 0], [HEADS, D]))
  },
)

const [heads, D, tokens] = [2, 2, 4]
/** The number of tokens of each rank. In this example, rank 1 has no tokens. */
const lengths = [4, 0, 3]

export const attention = scenario('attention in parts', { ranks: 3 }, async (world) => {
  const { ranks } = world
  const queries = [60, 0.5, 70, -0.25]
  const keysOf = (rank: number): number[] =>
    Array.from({ length: tokens * D }, (_, i) => (i % D === 0 ? 2 : (i * 3 + rank) % 5))
  const valuesOf = (rank: number): number[] =>
    Array.from({ length: tokens * D }, (_, i) => ((i * 3 + rank) % 8) / 4)
  const args = {
    q: world.from(f32, [heads, D], queries, { name: 'q' }),
    k: world.from(f32, [tokens, D], keysOf, { name: 'k' }),
    v: world.from(f32, [tokens, D], valuesOf, { name: 'v' }),
    length: (rank: number) => lengths[rank],
    sums: world.empty(f32, [ranks, heads, D], { name: 'sums' }),
    stats: world.empty(f32, [ranks, 2, heads], { name: 'stats' }),
    arrived: world.flags([ranks], { name: 'arrived' }),
    out: world.empty(f32, [heads, D], { name: 'out' }),
  }
  world.launch(decode, args, { grid: 1 })

  const everyToken = Array.from({ length: ranks }, (_, rank) =>
    Array.from({ length: lengths[rank] }, (_, token) => ({
      key: keysOf(rank).slice(token * D, (token + 1) * D),
      value: valuesOf(rank).slice(token * D, (token + 1) * D),
    })),
  ).flat()
  const expected: number[] = []
  let largest = -Infinity
  for (let head = 0; head < heads; head++) {
    const scores = everyToken.map(({ key }) => key.reduce((sum, x, d) => sum + x * queries[head * D + d], 0))
    const most = Math.max(...scores)
    const weights = scores.map((score) => Math.exp(score - most))
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    for (let d = 0; d < D; d++)
      expected.push(everyToken.reduce((sum, { value }, i) => sum + (weights[i] / total) * value[d], 0))
    largest = Math.max(largest, most)
  }
  for (let rank = 0; rank < ranks; rank++)
    expectClose(await world.read(args.out, rank), expected, { atol: 1e-5 })
  return [
    `the largest score is ${largest}; e to that power is no f32`,
    `every rank attends to all ${everyToken.length} tokens: ${expected.map((x) => x.toFixed(3)).join(' ')}`,
  ]
})

await show(import.meta.url, attention)
