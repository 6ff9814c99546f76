/**
 * 00: load. Every rank reads one number from the next rank's memory.
 *
 * A tensor allocated on a world has one copy per rank. Inside a kernel, `x` is this rank's copy and `x.on(r)` is rank
 * r's copy. A load works on any copy. The host wrote `x` before the launch, so the load needs no synchronisation.
 */
import { expectClose, f32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const loadFromPeer = kernel(
  'loadFromPeer',
  { x: tensor(f32, 1), out: tensor(f32, 1) },
  (t, { x, out }) => {
    const next = t.rank.add(1).mod(t.world)
    const value = t.load(x.on(next).at([0]))
    t.store(out.at([0]), value)
  },
)

export const load = scenario('load from a peer', { ranks: [2, 4] }, async (world) => {
  const x = world.from(f32, [1], (rank) => [100 + rank], { name: 'x' })
  const out = world.empty(f32, [1], { name: 'out' })
  world.launch(loadFromPeer, { x, out }, { grid: 1 })

  const lines: string[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const next = (rank + 1) % world.ranks
    const [value] = await world.read(out, rank)
    expectClose([value], [100 + next])
    lines.push(`rank ${rank} loaded ${value} from rank ${next}`)
  }
  return lines
})

await show(import.meta.url, load)
