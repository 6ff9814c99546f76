/**
 * Example 06 with a mistake: the flag is signalled before the message is in the inbox. On real hardware the result may
 * still be correct. `arke check examples/broken/message-passing.ts` shows the two lines that are not ordered.
 */
import { expectClose, f32, flags, kernel, scenario, tensor } from 'arke'

export const signalTooEarly = kernel(
  'signalTooEarly',
  { inbox: tensor(f32, 1), received: tensor(f32, 1), arrived: flags() },
  (t, { inbox, received, arrived }) => {
    t.if(
      t.rank.eq(0),
      () => {
        t.signal(arrived.on(1))
        t.store(inbox.on(1).tile([0], [4]), t.arange(4).to(f32))
      },
      () => {
        t.wait(arrived)
        t.copy(inbox.tile([0], [4]), received.tile([0], [4]))
      },
    )
  },
)

export const tooEarly = scenario('signal too early', { ranks: 2 }, async (world) => {
  const inbox = world.zeros(f32, [4], { name: 'inbox' })
  const received = world.empty(f32, [4], { name: 'received' })
  const arrived = world.flags([], { name: 'arrived' })
  world.launch(signalTooEarly, { inbox, received, arrived }, { grid: 1 })
  expectClose(await world.read(received, 1), [0, 1, 2, 3])
})
