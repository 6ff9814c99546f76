/**
 * Runs collectives under the checker, as recorded and as lowered. No schedule may have a finding, and the results must
 * have the guaranteed bits.
 */
import { describe, expect, it } from 'vitest'
import { f32, kernel, openWorld, tensor, WorldError, type World } from '../../../src/index.ts'
import { allReduce, barrier, broadcast } from '../../../src/ops/collectives/index.ts'
import { explore } from '../../../src/targets/check/explore.ts'
import { formatFinding } from '../../../src/targets/check/findings.ts'
import { scenario } from '../../../src/world/world.ts'
import { collectives, small, type Case } from './scenarios.ts'
import { itForSome } from '../../long.ts'

interface Effort {
  readonly schedules: number
  readonly limit?: number
}

async function expectClean(
  ranks: number,
  run: (world: World) => Promise<void>,
  { schedules, limit = 0 }: Effort,
): Promise<void> {
  const subject = scenario('collective', { ranks }, run)
  for (const stage of ['recorded', 'lowered'] as const) {
    const random = await explore(subject, { ranks, stage, schedules })
    expect(random.findings.map(formatFinding), stage).toEqual([])
    if (limit === 0) continue
    const search = await explore(subject, { ranks, stage, preemptions: 1, limit })
    expect(search.findings.map(formatFinding), stage).toEqual([])
  }
}

describe.each(Object.entries(collectives))('%s', (_, run) => {
  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)(
    'on %i ranks, with a ragged last tile, launched repeatedly',
    async (ranks) => {
      await expectClean(ranks, (world) => run(world, small), { schedules: 30, limit: 30 })
    },
  )

  itForSome([0, 1, 2, 3, 4, 7], (elements) => elements === 0 || elements === 7)(
    'of %i elements on 3 ranks',
    async (elements) => {
      for (const grid of [1, 3])
        await expectClean(3, (world) => run(world, { ...small, elements, grid }), { schedules: 8 })
    },
  )

  itForSome(['bf16', 'f16'], (dtype) => dtype === 'bf16')('of %s, summed in f32', async (dtype) => {
    const one: Case = { ...small, dtype, elements: 19, tile: 4, seed: 7 }
    await expectClean(3, (world) => run(world, one), { schedules: 8 })
  })

  itForSome([5, 6, 7, 8], (ranks) => ranks === 8)('on %i ranks', async (ranks) => {
    const one: Case = { ...small, elements: 21, launches: 2, seed: ranks }
    await expectClean(ranks, (world) => run(world, one), { schedules: 3 })
  })

  it('with as many programs as are resident', async () => {
    const resident = async (world: World): Promise<void> => run(world, { ...small, grid: 'resident' })
    const subject = { name: 'resident', run: resident, residency: 1 }
    expect((await explore(subject, { ranks: 3, schedules: 10 })).findings.map(formatFinding)).toEqual([])
  })
})

describe('two shots', () => {
  it('produce the same bits as one shot', async () => {
    const results = await Promise.all(
      (['oneShot', 'twoShot'] as const).map(async (variant) => {
        const world = await openWorld({ ranks: 4, seed: 3 })
        const x = world.from(f32, [9], (rank) => Array.from({ length: 9 }, (_, i) => 1 / (3 + rank + 7 * i)))
        allReduce(world, { dtype: f32, elements: 9, tile: 2, variant }).launch(x)
        return [...(await world.read(x, 2))]
      }),
    )
    expect(results[0]).toEqual(results[1])
  })
})

describe('barrier', () => {
  const write = kernel('write', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.to(f32)))
  const readNext = kernel('readNext', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) =>
    t.copy(x.on(t.rank.add(1).mod(t.world)).tile([0], [1]), y.tile([0], [1])),
  )
  const run =
    (meet: boolean) =>
    async (world: World): Promise<void> => {
      const [x, y] = [world.empty(f32, [1], { name: 'x' }), world.empty(f32, [1], { name: 'y' })]
      const all = barrier(world)
      for (let launch = 0; launch < 3; launch++) {
        world.launch(write, { x }, { grid: 1 })
        if (meet) all.launch()
        world.launch(readNext, { x, y }, { grid: 1 })
        if (meet) all.launch()
      }
      for (let rank = 0; rank < world.ranks; rank++)
        expect([...(await world.read(y, rank))]).toEqual([(rank + 1) % world.ranks])
    }

  itForSome([1, 2, 3, 4], (ranks) => ranks === 3)(
    'orders the work of %i ranks before it and after it',
    async (ranks) => {
      await expectClean(ranks, run(true), { schedules: 30, limit: 60 })
    },
  )

  it('is necessary for that order', async () => {
    const { findings } = await explore(
      { name: 'without', run: run(false), residency: undefined },
      { ranks: 2, schedules: 50 },
    )
    expect(findings[0].kind).toMatch(/race|uninitialised/)
  })
})

describe('a collective', () => {
  const world = (): Promise<World> => openWorld({ ranks: 2 })

  it('accepts only tensors of the shape and dtype it was created for', async () => {
    const on = await world()
    const collective = allReduce(on, { dtype: f32, elements: 4, variant: 'oneShot', name: 'gradients' })
    expect(() => collective.launch(on.empty(f32, [5], { name: 'x' }))).toThrow(
      new WorldError('gradients was made for f32[4]; x is f32[5]'),
    )
  })

  it('rejects invalid numbers of elements, tiles and roots', async () => {
    const on = await world()
    const options = { dtype: f32, variant: 'ring' } as const
    expect(() => allReduce(on, { ...options, elements: -1 })).toThrow('elements is -1')
    expect(() => allReduce(on, { ...options, elements: 1, variant: 'threeShot' as never })).toThrow(
      'allReduce: there is no threeShot; choose one of oneShot, twoShot, ring',
    )
    expect(() => allReduce(on, { ...options, elements: 1, tile: 0 })).toThrow('tile is 0 elements')
    const cast = broadcast(on, { dtype: f32, elements: 1 })
    expect(() => cast.launch(on.zeros(f32, [1]), 2)).toThrow('there is no rank 2 in a world of 2')
  })
})
