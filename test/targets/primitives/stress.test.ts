/**
 * Stress tests: of a million atomic additions, no addition is lost, and of a million passed tiles, no tile has a stale
 * byte. The checker runs few atomic adds and tiles. Real targets run as many as fit into a few seconds. ARKE_STRESS=1
 * requests all million tiles, and ARKE_TILES any number.
 */
import { describe, expect, it } from 'vitest'
import { flags, kernel, scalar, tensor, type Ref } from '../../../src/index.ts'
import { everything, onWorld, range, targets } from './harness.ts'

const ranks = 8

describe.each(targets)('atomic adds on %s', (target) => {
  const each = target === 'check' ? 50 : 125_000
  it.each(['i32', 'u32', 'i64', 'f32'] as const)(
    `of %s: ${ranks} x ${each} lose none`,
    async (dtype) => {
      const add = kernel('add', { cell: tensor(dtype, 1) }, (t, { cell }) => {
        const place = cell.on(0).at([0]) as Ref<'i32', 0>
        t.for(each, () => void t.atomic.add(place, 1))
      })
      await onWorld(target, ranks, async (world) => {
        const cell = world.zeros(dtype, [1])
        world.launch(add, { cell } as never, { grid: 1 })
        expect((await world.read(cell, 0))[0]).toBe(ranks * each)
      })
    },
    120_000,
  )
})

/** The number of elements per tile, and of tiles per inbox. */
const [lanes, tiles] = [61, 50]

/**
 * Every rank sends `tiles` tiles to the next rank and checks the tiles it receives: every element must be from this
 * launch. The next launch reuses the inbox as soon as its reader has released the tile.
 */
const pass = kernel(
  'pass',
  {
    inbox: tensor('i32', 2),
    bytes: tensor('u8', 2),
    stale: tensor('i32', 1),
    sent: flags(1),
    taken: flags(1),
    step: scalar('i32'),
  },
  (t, { inbox, bytes, stale, sent, taken, step }) => {
    const next = t.rank.add(1).mod(t.world)
    const previous = t.rank.add(t.world - 1).mod(t.world)
    const message = (source: typeof next, tile: typeof next) =>
      t.arange(lanes).add(source.mul(1_000_003)).add(tile.mul(8191)).add(step.mul(131_071))
    t.for(tiles, (tile) => {
      const mine = message(t.rank, tile)
      t.wait(taken.at([tile]), { lag: 1 })
      t.store(inbox.on(next).pick(tile).tile([0], [lanes]), mine)
      t.store(bytes.on(next).pick(tile).tile([0], [lanes]), mine.to('u8'))
      t.signal(sent.on(next).at([tile]))
    })
    const wrong = t.for(tiles, t.constant('i32', 0), (tile, wrong) => {
      const expected = message(previous, tile)
      t.wait(sent.at([tile]))
      const words = t.load(inbox.pick(tile).tile([0], [lanes])).ne(expected)
      const others = t
        .load(bytes.pick(tile).tile([0], [lanes]))
        .to('i32')
        .ne(expected.and(255))
      t.signal(taken.on(previous).at([tile]))
      return wrong.add(words.or(others).to('i32').sum())
    })
    t.store(stale.at([0]), t.load(stale.at([0])).add(wrong))
  },
)

const tilesPassedOn = Number(process.env.ARKE_TILES ?? (everything ? 1_000_000 : 200_000))

describe.each(targets)('tiles passed on by %s', (target) => {
  const launches = target === 'check' ? 3 : Math.ceil(tilesPassedOn / (ranks * tiles))
  it(`${launches * ranks * tiles} of them: no stale byte`, async () => {
    await onWorld(target, ranks, async (world) => {
      const args = {
        inbox: world.empty('i32', [tiles, lanes]),
        bytes: world.empty('u8', [tiles, lanes]),
        stale: world.zeros('i32', [1]),
        sent: world.flags([tiles]),
        taken: world.flags([tiles]),
      }
      for (let step = 0; step < launches; step++) world.launch(pass, { ...args, step }, { grid: 1 })
      for (const rank of range(ranks)) expect((await world.read(args.stale, rank))[0]).toBe(0)
    })
  }, 600_000)
})
