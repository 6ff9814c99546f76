/**
 * 04: atomic add. All programs of all ranks draw numbers from one counter on rank 0.
 *
 * An atomic reads and writes in one step and returns the previous value, so every program gets a different number.
 * Which program gets which number depends on the schedule. Each rank runs two programs, as `grid` specifies.
 */
import { expectClose, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const drawNumbers = kernel(
  'drawNumbers',
  { counter: tensor(i32, 1), drawn: tensor(i32, 1) },
  (t, { counter, drawn }) => {
    const number = t.atomic.add(counter.on(0).at([0]), 1)
    t.store(drawn.at([t.program]), number)
  },
)

export const atomicAdd = scenario('add to one counter', { ranks: [2, 3] }, async (world) => {
  const programs = 2
  const counter = world.zeros(i32, [1], { name: 'counter' })
  const drawn = world.empty(i32, [programs], { name: 'drawn' })
  world.launch(drawNumbers, { counter, drawn }, { grid: programs })

  const lines: string[] = []
  const all: number[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const mine = await world.read(drawn, rank)
    all.push(...mine)
    lines.push(`rank ${rank} drew ${mine.join(' and ')}`)
  }
  const everyNumber = Array.from({ length: world.ranks * programs }, (_, i) => i)
  expectClose(
    all.sort((a, b) => a - b),
    everyNumber,
  )
  expectClose(await world.read(counter, 0), [world.ranks * programs])
  return lines
})

await show(import.meta.url, atomicAdd)
