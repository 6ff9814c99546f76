/**
 * 17: puts in flight. Every rank squares the tiles of a vector and sends them to the next rank. While one tile is being
 * sent, the program computes the next one.
 *
 * `copyAsync` from a shared tile returns at once. Two rules apply until `quiet`: the program must not write the source,
 * and no agent may rely on the target. With two buffers, the program fills one while the other is sent. `quiet({ reads:
 * true })` waits only until the previous tile has left its buffer; the last `quiet` waits until all tiles have arrived.
 * A signal does not wait for copies in flight, so it comes after the `quiet`. `putSignal` is a put and a signal in one
 * operation: here it sends the number of tiles and signals the next rank.
 */
import { expectClose, f32, flags, i32, kernel, scenario, tensor } from 'arke'
import { show } from './show.ts'

export const sendSquares = kernel(
  'sendSquares',
  {
    x: tensor(f32, 1),
    inbox: tensor(f32, 1),
    squares: tensor(f32, 1),
    count: tensor(i32, 1),
    header: tensor(i32, 1),
    arrived: flags(),
  },
  { TILE: 32 },
  (t, { x, inbox, squares, count, header, arrived }, { TILE }) => {
    const next = t.rank.add(1).mod(t.world)
    const tiles = x.tiles([TILE]).extents()[0]
    const buffers = t.shared(f32, [2, TILE])
    t.for(tiles, (i) => {
      const tile = t.load(x.tile([i], [TILE]))
      const buffer = buffers.pick(i.mod(2))
      t.store(buffer, tile.mul(tile)) // The previous tile is still being sent from the other buffer.
      t.quiet({ reads: true }) // Now the previous tile has left its buffer, which the next iteration may fill.
      t.copyAsync(buffer, inbox.on(next).tile([i], [TILE]))
    })
    t.store(count.at([0]), tiles)
    t.quiet()
    t.putSignal(count.at([0]), header.on(next).at([0]), arrived.on(next))

    t.wait(arrived)
    t.for(t.load(header.at([0])), (i) => t.copy(inbox.tile([i], [TILE]), squares.tile([i], [TILE])))
  },
)

export const putsInFlight = scenario('send tiles in flight', { ranks: [2, 3] }, async (world) => {
  const length = 96
  const valueOf = (rank: number, i: number): number => 10 * rank + (i % 10)
  const xOf = (rank: number): number[] => Array.from({ length }, (_, i) => valueOf(rank, i))
  const x = world.from(f32, [length], xOf, { name: 'x' })
  const [inbox, squares] = ['inbox', 'squares'].map((name) => world.empty(f32, [length], { name }))
  const [count, header] = ['count', 'header'].map((name) => world.empty(i32, [1], { name }))
  const arrived = world.flags([], { name: 'arrived' })
  world.launch(sendSquares, { x, inbox, squares, count, header, arrived }, { grid: 1 })

  const lines: string[] = []
  for (let rank = 0; rank < world.ranks; rank++) {
    const previous = (rank + world.ranks - 1) % world.ranks
    const got = await world.read(squares, rank)
    expectClose(
      got,
      Array.from({ length }, (_, i) => valueOf(previous, i) ** 2),
    )
    lines.push(`rank ${rank} has the squares ${got.subarray(0, 4).join(' ')} … of rank ${previous}`)
  }
  return lines
})

await show(import.meta.url, putsInFlight)
