/**
 * 11: epochs and credits. Ranks form a chain: each takes a number from the rank before, adds its own, and passes it on.
 *
 * The kernel is launched many times and nothing is reset in between: every launch has its epoch, and a wait wants the signal of
 * that epoch. The first rank hears from nobody, so two slots are not enough to keep it from overwriting what the next rank has
 * not read: a credit must come back. `taken` is that credit, and `lag` says how old it may be. With three slots, a rank wants to
 * know that its message of three launches ago was read; so it runs up to three launches ahead, and no further.
 */
import { expectClose, f32, flags, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const passOn = kernel(
  'passOn',
  { own: tensor(f32, 1), slots: tensor(f32, 1), results: tensor(f32, 1), sent: flags(), taken: flags() },
  { SLOTS: 3 },
  (t, { own, slots, results, sent, taken }, { SLOTS }) => {
    const launch = t.epoch(sent).sub(1).to(i32) // epochs start at 1
    const slot = launch.mod(SLOTS)
    const mine = t.load(own.at([launch]))
    const sum = t.if(
      t.rank.gt(0),
      () => {
        t.wait(sent)
        const received = t.load(slots.at([slot]))
        t.signal(taken.on(t.rank.sub(1))) // the rank before may use the slot again
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
