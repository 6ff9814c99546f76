/**
 * 12: teams. The matrix product of example 07 in one kernel whose programs divide the work: one program sends, and the
 * others multiply.
 *
 * `t.teams` divides the programs of a launch. The sender pushes this rank's tiles of A into the peers' inboxes, with
 * one flag per tile and two slots as in example 09. The multipliers start with the local slice and use each other
 * tile once it has arrived. No separate kernel publishes A, and no rank waits for a whole slice. Programs that wait
 * for each other must be resident together: `residency` is the number of resident programs per rank, and `grid:
 * 'resident'` launches that many.
 */
import { ceilDiv, expectClose, f32, flags, i32, kernel, scenario, tensor, type World } from 'arke'
import { show } from './show.ts'

export const sendAndMultiply = kernel(
  'sendAndMultiply',
  { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2), inbox: tensor(f32, 4), arrived: flags(2) },
  { BM: 128, BN: 128, BK: 64, senders: 1 },
  (t, { a, b, c, inbox, arrived }, { BM, BN, BK, senders }) => {
    const as = t.shared(f32, [BM, BK])
    const bs = t.shared(f32, [BK, BN])
    const slot = t.epoch(arrived).mod(2).to(i32)
    const depth = a.dim(1)
    t.teams({
      send: {
        programs: senders,
        body: () =>
          t.persistent([t.world - 1, ceilDiv(a.dim(0), BM)], ([step, i]) => {
            const peer = t.rank.add(step).add(1).mod(t.world)
            const place = inbox.on(peer).pick(slot).pick(t.rank)
            t.for(ceilDiv(depth, BK), (k) => t.put(a.tile([i, k], [BM, BK]), place.tile([i, k], [BM, BK])))
            t.signal(arrived.on(peer).at([t.rank, i]))
          }),
      },
      multiply: {
        programs: 'rest',
        body: () =>
          t.persistent(c.tiles([BM, BN]), (tile, [i, j]) => {
            const slices = [t.world, ceilDiv(depth, BK)]
            const product = t.pipeline(slices, t.zeros(f32, [BM, BN]), ([step, k], sum) => {
              const owner = t.rank.add(step).mod(t.world)
              t.if(
                owner.eq(t.rank),
                () => t.copy(a.tile([i, k], [BM, BK]), as),
                () => {
                  t.wait(arrived.at([owner, i]))
                  t.copy(inbox.pick(slot).pick(owner).tile([i, k], [BM, BK]), as)
                },
              )
              t.copy(b.slice(0, owner.mul(depth), depth).tile([k, j], [BK, BN]), bs)
              return t.dot(as, bs, sum)
            })
            t.copy(product, tile)
          }),
      },
    })
  },
)

/** The extents of the matrices and of the tiles. K is the number of columns of A per rank. */
const tiny = { M: 4, N: 2, K: 2, BM: 2, BN: 2, BK: 2 }
/** The TMA copies rows of at least 16 bytes. */
const forTma = { M: 4, N: 4, K: 4, BM: 2, BN: 4, BK: 4 }
const launches = 3

async function multiply(world: World, { M, N, K, BM, BN, BK }: typeof tiny): Promise<string[]> {
  const { ranks } = world
  const sliceOf = (rank: number): number[] =>
    Array.from({ length: M * K }, (_, i) => ((i * 5 + rank) % 7) - 3)
  const weights = Array.from({ length: ranks * K * N }, (_, i) => ((i * 3) % 5) - 2)
  const args = {
    a: world.from(f32, [M, K], sliceOf, { name: 'a' }),
    b: world.from(f32, [ranks * K, N], weights, { name: 'b' }),
    c: world.empty(f32, [M, N], { name: 'c' }),
    inbox: world.empty(f32, [2, ranks, M, K], { name: 'inbox' }),
    arrived: world.flags([ranks, 2], { name: 'arrived' }),
  }
  for (let step = 0; step < launches; step++)
    world.launch(sendAndMultiply, args, { grid: 'resident', meta: { BM, BN, BK } })

  const expected = new Array<number>(M * N).fill(0)
  for (let i = 0; i < M; i++)
    for (let j = 0; j < N; j++)
      for (let k = 0; k < ranks * K; k++)
        expected[i * N + j] += sliceOf(Math.floor(k / K))[i * K + (k % K)] * weights[k * N + j]
  for (let rank = 0; rank < ranks; rank++) expectClose(await world.read(args.c, rank), expected)
  return [`every rank has the product; its first row is ${expected.slice(0, N).join(' ')}`]
}

const where = { ranks: 2, residency: 3 }
export const teams = scenario('send while multiplying', where, (world) => multiply(world, tiny))
export const teamsByTma = scenario('the same in tiles that TMA copies', where, (world) =>
  multiply(world, forTma),
)

await show(import.meta.url, teams)
