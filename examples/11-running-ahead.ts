/**
 * 11: epochs and credits. Ranks form a chain: each takes a number from the previous rank, adds its own, and passes it
 * on.
 *
 * The kernel is launched many times and no flag is reset. Every launch has its own epoch, and a wait requires the
 * signal of that epoch. Rank 0 waits for no data, so slots alone cannot keep it from overwriting a number that rank 1
 * has not read. The reader signals `taken` when it has read a slot. With `lag` 3 and three slots, a rank waits until
 * its message of three launches ago was read. A rank can therefore be up to three launches ahead of the next rank.
 */
import { expectClose, f32, flags, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const passOn = kernel(
  'passOn',
  { own: tensor(f32, 1), slots: tensor(f32, 1), results: tensor(f32, 1), sent: flags(), taken: flags() },
  { SLOTS: 3 },
  (t, { own, slots, results, sent, taken }, { SLOTS }) => {
    const launch = t.epoch(sent).sub(1).to(i32) // The first epoch is 1.
    const slot = launch.mod(SLOTS)
    const mine = t.load(own.at([launch]))
    const sum = t.if(
      t.rank.gt(0),
      () => {
        t.wait(sent)
        const received = t.load(slots.at([slot]))
        t.signal(taken.on(t.rank.sub(1))) // the previous rank may reuse the slot
        return received.add(mine)
      },
      () => mine,
    )
    t.if(
      t.rank.lt(t.world - 1),
      () => {
        t.wait(taken, { lag: SLOTS })
        t.store(slots.on(t.rank.add(1)).at([slot]), sum)
        t.signal(sent.on(t.rank.add(1)))
      },
      () => t.store(results.at([launch]), sum),
    )
  },
)

const launches = 6

export const runningAhead = scenario('a chain of ranks', { ranks: 3 }, async (world) => {
  const last = world.ranks - 1
  const ownOf = (rank: number): number[] => Array.from({ length: launches }, (_, i) => 10 ** rank * (i + 1))
  const own = world.from(f32, [launches], ownOf, { name: 'own' })
  const slots = world.empty(f32, [3], { name: 'slots' })
  const results = world.empty(f32, [launches], { name: 'results' })
  const [sent, taken] = [world.flags([], { name: 'sent' }), world.flags([], { name: 'taken' })]
  const launch = (rank: number, times: number): void => {
    for (let time = 0; time < times; time++)
      world.launch(passOn, { own, slots, results, sent, taken }, { grid: 1, ranks: [rank] })
  }
  launch(0, 3)
  await world.synchronize()
  const lines = ['rank 0 has ended 3 launches, and no other rank has begun its first']
  launch(0, launches - 3)
  for (let rank = 1; rank <= last; rank++) launch(rank, launches)

  const got = await world.read(results, last)
  expectClose(
    got,
    Array.from({ length: launches }, (_, i) => ownOf(0)[i] + ownOf(1)[i] + ownOf(2)[i]),
  )
  lines.push(`rank ${last}, the end of the chain, has ${got.join(' ')}`)
  return lines
})

await show(import.meta.url, runningAhead)
