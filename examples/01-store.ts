/**
 * 01: store. Every rank writes its own number into the next rank's memory.
 *
 * A store to `inbox.on(r)` writes directly into rank r's memory, without any action by rank r. Each inbox has one
 * writer and no kernel reads it, so no order is required. The host reads the inboxes after the launch has ended on
 * all ranks.
 */
import { expectClose, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const storeToPeer = kernel('storeToPeer', { inbox: tensor(i32, 1) }, (t, { inbox }) => {
  const next = t.rank.add(1).mod(t.world)
  t.store(inbox.on(next).at([0]), t.rank)
})

export const store = scenario('store to a peer', { ranks: [2, 4] }, async (world) => {
  const inbox = world.empty(i32, [1], { name: 'inbox' })
  world.launch(storeToPeer, { inbox }, { grid: 1 })

  const lines: string[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const previous = (rank + world.ranks - 1) % world.ranks
    const [value] = await world.read(inbox, rank)
    expectClose([value], [previous])
    lines.push(`rank ${rank} found ${value} in its inbox, stored by rank ${previous}`)
  }
  return lines
})

await show(import.meta.url, store)
