/**
 * 23: fetch ahead. Every rank adds the vectors of all ranks. While a rank adds one tile, the next tile is on its way.
 *
 * `getNbi` returns at once, and `quiet` waits for the tile. On a GPU all threads start the copy in chunks (cp.async). The
 * scenario names sizes of tiles: `arke tune examples/23-fetch-ahead.ts` finds the fastest on this machine.
 */
import { ceilDiv, expectClose, f32, kernel, scenario, tensor, type Scalar } from 'arke'
import { show } from './show.ts'

export const addAhead = kernel(
  'addAhead',
  { x: tensor(f32, 1), sum: tensor(f32, 1) },
  { BLOCK: 4 },
  (t, { x, sum }, { BLOCK }) => {
    const tiles = t.shared(f32, [2, BLOCK])
    t.persistent([ceilDiv(x.dim(0), BLOCK)], ([i]) => {
      const fetch = (step: Scalar): void => {
        const owner = t.rank.add(step).mod(t.world) // not all from rank 0 at first
        t.getNbi(x.on(owner).tile([i], [BLOCK]), tiles.pick(step.mod(2)))
      }
      fetch(t.constant('i32', 0))
      t.quiet()
      const total = t.for(t.world, t.zeros(f32, [BLOCK]), (step, before) => {
        t.if(step.add(1).lt(t.world), () => fetch(step.add(1)))
        const after = before.add(t.load(tiles.pick(step.mod(2))))
        t.quiet() // the next tile has arrived
        return after
      })
      t.store(sum.tile([i], [BLOCK]), total)
    })
  },
)

const n = 6
export const ahead = scenario(
  'fetch ahead',
  { ranks: [2, 3], tune: { BLOCK: [4, 16, 64] } },
  async (world, { BLOCK }) => {
    const x = world.from(f32, [n], (rank) => Array.from({ length: n }, (_, i) => 10 ** rank * (i + 1)))
    const sum = world.empty(f32, [n], { name: 'sum' })
    world.launch(addAhead, { x, sum }, { grid: 1, meta: { BLOCK } })

    const ones = Number('1'.repeat(world.ranks))
    const expected = Array.from({ length: n }, (_, i) => ones * (i + 1))
    for (let rank = 0; rank < world.ranks; rank++) expectClose(await world.read(sum, rank), expected)
    return [`every rank has the sum ${expected.join(' ')}, in tiles of ${BLOCK}`]
  },
)

await show(import.meta.url, ahead)
