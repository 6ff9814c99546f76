/**
 * 21: rounds of an exchange on one flag. A ring all-reduce of three ranks: each rank sends one chunk to the next rank
 * in every round. In the first rounds the chunks are added up, and in the last rounds the sums are passed on.
 *
 * A counting flag is signalled once per round, and round k waits for k + 1 signals with `atLeast`. The flag has one
 * signaller, the previous rank, so the count shows which rounds have arrived. Each round has its own slot in the inbox.
 */
import { expectClose, f32, flags, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

const RANKS = 3
const ROUNDS = 2 * (RANKS - 1)

export const ringAllReduce = kernel(
  'ringAllReduce',
  { x: tensor(f32, 2), inbox: tensor(f32, 2), arrived: flags(0, { arrivals: ROUNDS }) },
  { CHUNK: 8 },
  (t, { x, inbox, arrived }, { CHUNK }) => {
    const next = t.rank.add(1).mod(RANKS)
    t.for(ROUNDS, (k) => {
      const mine = t.rank
        .sub(k)
        .add(2 * RANKS)
        .mod(RANKS) // the chunk that has changed last on this rank
      t.put(x.pick(mine).tile([0], [CHUNK]), inbox.on(next).pick(k).tile([0], [CHUNK]))
      t.signal(arrived.on(next))
      t.wait(arrived, { atLeast: k.add(1) })
      const received = t.load(inbox.pick(k).tile([0], [CHUNK]))
      const place = x.pick(mine.add(RANKS - 1).mod(RANKS)).tile([0], [CHUNK])
      t.store(place, k.lt(RANKS - 1).select(received.add(t.load(place)), received))
    })
  },
)

export const sumOfAll = scenario('reduce around a ring', { ranks: RANKS }, async (world) => {
  const length = 5
  const valueOf = (rank: number, i: number): number => 10 ** rank * (i + 1)
  const xOf = (rank: number): number[] => Array.from({ length: RANKS * length }, (_, i) => valueOf(rank, i))
  const x = world.from(f32, [RANKS, length], xOf, { name: 'x' })
  const inbox = world.empty(f32, [ROUNDS, length], { name: 'inbox' })
  const arrived = world.flags([], { name: 'arrived', arrivals: ROUNDS })
  world.launch(ringAllReduce, { x, inbox, arrived }, { grid: 1 })

  const expected = Array.from(
    { length: RANKS * length },
    (_, i) => valueOf(0, i) + valueOf(1, i) + valueOf(2, i),
  )
  for (let rank = 0; rank < RANKS; rank++) expectClose(await world.read(x, rank), expected)
  return [`after ${ROUNDS} rounds, every rank has ${expected.slice(0, 4).join(' ')} …`]
})

await show(import.meta.url, sumOfAll)
