/**
 * 02: all-load. Every rank reads a tile from every rank and adds the tiles: an all-reduce that pulls.
 *
 * `t.for` carries state: it takes the initial sum, passes the current sum to the body, and returns the final sum. Each
 * rank starts with its own tile and continues with the next rank's, so that the ranks do not all read from rank 0 at once.
 */
import { expectClose, f32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

const length = 6

export const allLoad = kernel(
  'allLoad',
  { x: tensor(f32, 1), sum: tensor(f32, 1) },
  { BLOCK: 8 }, // The tile is wider than the tensor: elements outside read as 0.
  (t, { x, sum }, { BLOCK }) => {
    const total = t.for(t.world, t.zeros(f32, [BLOCK]), (step, soFar) => {
      const peer = t.rank.add(step).mod(t.world)
      return soFar.add(t.load(x.on(peer).tile([0], [BLOCK])))
    })
    t.copy(total, sum.tile([0], [BLOCK]))
  },
)

export const pullAll = scenario('load from every peer', { ranks: [2, 4] }, async (world) => {
  const element = (rank: number, i: number): number => 10 ** rank * (i + 1)
  const contents = (rank: number): number[] => Array.from({ length }, (_, i) => element(rank, i))
  const x = world.from(f32, [length], contents, { name: 'x' })
  const sum = world.empty(f32, [length], { name: 'sum' })
  world.launch(allLoad, { x, sum }, { grid: 1 })

  const expected = Array.from({ length }, (_, i) => {
    let total = 0
    for (let rank = 0; rank < world.ranks; rank++) total += element(rank, i)
    return total
  })
  for (let rank = 0; rank < world.ranks; rank++) expectClose(await world.read(sum, rank), expected)
  return [`every rank has the sum ${expected.join(' ')}`]
})

await show(import.meta.url, pullAll)
