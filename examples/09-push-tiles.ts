/**
 * 09: push with one flag per tile. Every rank puts its vector into every peer's inbox, tile by tile, and sums the
 * tiles it receives.
 *
 * With one flag per tile, a wait for tile 0 does not wait for tile 1. The kernel is launched repeatedly and a fast rank
 * may be one launch ahead, so the inbox has two slots. A fast rank writes the slot of its epoch's parity while a slow
 * rank still reads the other slot. No credit is needed: before a rank reuses a slot, two launches later, it has
 * received a signal from every peer in the launch in between. A peer signals in a launch only after it has finished its
 * previous launch, which read the slot. With SLOTS: 1, `arke check` names the put and the load that race.
 */
import { ceilDiv, expectClose, f32, flags, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const pushTiles = kernel(
  'pushTiles',
  { x: tensor(f32, 1), inbox: tensor(f32, 3), total: tensor(f32, 1), arrived: flags(2) },
  { TILE: 2, SLOTS: 2 },
  (t, { x, inbox, total, arrived }, { TILE, SLOTS }) => {
    const slot = t.epoch(arrived).mod(SLOTS).to(i32)
    t.persistent([ceilDiv(x.dim(0), TILE)], ([i]) => {
      t.for({ from: 1, to: t.world }, (step) => {
        const peer = t.rank.add(step).mod(t.world)
        t.put(x.tile([i], [TILE]), inbox.on(peer).pick(slot).pick(t.rank).tile([i], [TILE]))
        t.signal(arrived.on(peer).at([t.rank, i]))
      })
      t.store(x.tile([i], [TILE]), t.load(x.tile([i], [TILE])).mul(10)) // the next launch sends different data
    })
    t.persistent([ceilDiv(x.dim(0), TILE)], ([i]) => {
      const before = t.load(total.tile([i], [TILE]))
      const after = t.for({ from: 1, to: t.world }, before, (step, sum) => {
        const source = t.rank.add(step).mod(t.world)
        t.wait(arrived.at([source, i]))
        return sum.add(t.load(inbox.pick(slot).pick(source).tile([i], [TILE])))
      })
      t.store(total.tile([i], [TILE]), after)
    })
  },
)

const [length, launches] = [3, 3]

export const push = scenario('push tiles three times', { ranks: 3 }, async (world) => {
  const { ranks } = world
  const vectorOf = (rank: number): number[] => Array.from({ length }, (_, i) => rank + i)
  const x = world.from(f32, [length], vectorOf, { name: 'x' })
  const inbox = world.empty(f32, [2, ranks, length], { name: 'inbox' })
  const total = world.zeros(f32, [length], { name: 'total' })
  const arrived = world.flags([ranks, 2], { name: 'arrived' })
  for (let step = 0; step < launches; step++)
    world.launch(pushTiles, { x, inbox, total, arrived }, { grid: 1 })

  const lines: string[] = []
  for (let rank = 0; rank < ranks; rank++) {
    const expected = Array.from({ length }, (_, i) => {
      let sum = 0
      for (let peer = 0; peer < ranks; peer++) if (peer !== rank) sum += 111 * vectorOf(peer)[i]
      return sum
    })
    const got = await world.read(total, rank)
    expectClose(got, expected)
    lines.push(`rank ${rank} has got ${got.join(' ')} in all`)
  }
  return lines
})

await show(import.meta.url, push)
