/**
 * 05: atomic exchange. Every rank swaps its number with the content of one element on rank 0.
 *
 * Every number is found exactly once, either by a rank or by the host at the end. The exchanged numbers form a chain of
 * ranks. The order of the chain depends on the schedule.
 */
import { expectClose, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const swapInto = kernel(
  'swapInto',
  { place: tensor(i32, 1), found: tensor(i32, 1) },
  (t, { place, found }) => {
    const before = t.atomic.xchg(place.on(0).at([0]), t.rank)
    t.store(found.at([0]), before)
  },
)

export const atomicExchange = scenario('exchange through one place', { ranks: [2, 4] }, async (world) => {
  const nobody = -1
  const place = world.full(i32, [1], nobody, { name: 'place' })
  const found = world.empty(i32, [1], { name: 'found' })
  world.launch(swapInto, { place, found }, { grid: 1 })

  const lines: string[] = []
  const seen: number[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const [number] = await world.read(found, rank)
    seen.push(number)
    lines.push(`rank ${rank} found ${number === nobody ? 'nobody' : `rank ${number}`}`)
  }
  const [left] = await world.read(place, 0)
  lines.push(`rank ${left} came last`)
  const everybody = Array.from({ length: world.ranks + 1 }, (_, i) => i - 1)
  expectClose(
    [...seen, left].sort((a, b) => a - b),
    everybody,
  )
  return lines
})

await show(import.meta.url, atomicExchange)
