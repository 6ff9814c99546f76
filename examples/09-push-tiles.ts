/**
 * 09: push with a flag per tile. Every rank puts its vector into every peer's inbox, tile by tile, and adds up what it gets.
 *
 * A flag per tile: whoever waits for tile 0 does not wait for tile 1. Two slots: the kernel is launched again and again, and a
 * fast rank may be a launch ahead, so it writes the slot of this epoch's parity while a slow one still reads the other.
 * Nothing has to come back. To write a slot again, two launches later, a rank must have ended the launch in between, and
 * there it heard from every peer; each of them had ended its launch before that, the one that read the slot. With SLOTS: 1
 * `arke check` names the put and the load that race.
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
      t.store(x.tile([i], [TILE]), t.load(x.tile([i], [TILE])).mul(10)) // the next launch sends something else
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
