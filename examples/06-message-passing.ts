/**
 * 06: message passing. Every rank puts a tile into the next rank's inbox and signals a flag. The next rank waits for
 * the flag, then reads the tile.
 *
 * A launch does not order accesses of different ranks, so a flag must order the put before the read. `signal` publishes
 * everything done before it (a release), and `wait` observes it (an acquire). If the put and the signal are exchanged,
 * `arke check` names the two lines that race, as in examples/broken/message-passing.ts.
 */
import { expectClose, f32, flags, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const passMessages = kernel(
  'passMessages',
  { message: tensor(f32, 1), inbox: tensor(f32, 1), received: tensor(f32, 1), arrived: flags() },
  { LENGTH: 4 },
  (t, { message, inbox, received, arrived }, { LENGTH }) => {
    const next = t.rank.add(1).mod(t.world)
    t.put(message.tile([0], [LENGTH]), inbox.on(next).tile([0], [LENGTH]))
    t.signal(arrived.on(next))

    t.wait(arrived)
    t.copy(inbox.tile([0], [LENGTH]), received.tile([0], [LENGTH]))
  },
)

export const messagePassing = scenario('pass a message', { ranks: [2, 4] }, async (world) => {
  const messageOf = (rank: number): number[] => [0, 1, 2, 3].map((i) => 10 * rank + i)
  const message = world.from(f32, [4], messageOf, { name: 'message' })
  const inbox = world.empty(f32, [4], { name: 'inbox' })
  const received = world.empty(f32, [4], { name: 'received' })
  const arrived = world.flags([], { name: 'arrived' })
  world.launch(passMessages, { message, inbox, received, arrived }, { grid: 1 })

  const lines: string[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const previous = (rank + world.ranks - 1) % world.ranks
    const got = await world.read(received, rank)
    expectClose(got, messageOf(previous))
    lines.push(`rank ${rank} received ${got.join(' ')} from rank ${previous}`)
  }
  return lines
})

await show(import.meta.url, messagePassing)
