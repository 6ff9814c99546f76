/**
 * 03: all-store. Every rank writes its row into every rank's table: an all-gather that pushes.
 *
 * `t.copy` copies a tile between memories. Only rank r writes row r of a table, so the stores do not conflict. A kernel
 * that read the table in the same launch would have to wait for the other ranks, as example 06 shows.
 */
import { expectClose, f32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const allStore = kernel(
  'allStore',
  { row: tensor(f32, 2), table: tensor(f32, 2) },
  { WIDTH: 4 },
  (t, { row, table }, { WIDTH }) => {
    t.for(t.world, (step) => {
      const peer = t.rank.add(step).mod(t.world)
      t.copy(row.tile([0, 0], [1, WIDTH]), table.on(peer).tile([t.rank, 0], [1, WIDTH]))
    })
  },
)

export const pushAll = scenario('store to every peer', { ranks: [2, 4] }, async (world) => {
  const rowOf = (rank: number): number[] => [0, 1, 2, 3].map((i) => 10 * rank + i)
  const row = world.from(f32, [1, 4], rowOf, { name: 'row' })
  const table = world.empty(f32, [world.ranks, 4], { name: 'table' })
  world.launch(allStore, { row, table }, { grid: 1 })

  const expected = Array.from({ length: world.ranks }, (_, rank) => rowOf(rank)).flat()
  for (let rank = 0; rank < world.ranks; rank++) expectClose(await world.read(table, rank), expected)
  return [`every rank has the rows ${expected.join(' ')}`]
})

await show(import.meta.url, pushAll)
