/**
 * 05: atomic exchange. Every rank leaves its number in one place on rank 0 and takes away what it finds there.
 *
 * Nothing is lost and nothing is seen twice: the numbers found, and the one that is left, are all that were ever put there.
 * The ranks form a chain whose order is the schedule's.
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
