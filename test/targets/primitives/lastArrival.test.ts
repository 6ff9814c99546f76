/** Tests `t.last` with an index: in loops and branches, with counts that differ, and several counts per launch. */
import { describe, expect, it } from 'vitest'
import { kernel, tensor } from '../../../src/index.ts'
import { WorldStopped } from '../../../src/world/world.ts'
import { compileTogether, noCompiler } from '../../cuda/compile.ts'
import { emit } from '../../cuda/emitting.ts'
import { openOnCpu, unavailable } from '../../cuda/onCpu/onCpu.ts'
import { onWorld, range, targets } from './harness.ts'
import { long } from '../../long.ts'

const tiles = 5

/**
 * A kernel whose programs store a partial sum of every tile, each in another order; the last to arrive adds the sums of
 * a tile.
 */
const added = kernel('added', { parts: tensor('i32', 2), sums: tensor('i32', 1) }, (t, { parts, sums }) => {
  t.for(tiles, (k) => {
    const at = t.program.mul(2).add(k).mod(tiles)
    t.store(parts.at([at, t.program]), at.mul(10).add(t.program))
    t.last(
      () => {
        const sum = t.for(t.programs, t.constant('i32', 0), (p, sum) => sum.add(t.load(parts.at([at, p]))))
        t.store(sums.at([at]), sum)
      },
      { at, of: tiles },
    )
  })
})

/**
 * In this kernel, index i needs i + 1 arrivals. The programs with even numbers arrive in turn, inside a branch, until
 * the count of every index was complete twice.
 */
const counted = kernel('counted', { fired: tensor('i32', 1) }, (t, { fired }) => {
  t.if(t.program.mod(2).eq(0), () =>
    t.for(tiles, (at) => {
      const arrivals = at.add(1).mul(2)
      t.for({ from: t.program.div(2), to: arrivals, step: t.programs.add(1).div(2) }, () =>
        t.last(() => t.atomic.add(fired.at([at]), 1), { at, of: tiles, arrivals: at.add(1) }),
      )
    }),
  )
})

/** Roles in teams: the second role counts the programs of its team. */
const apart = kernel('apart', { fired: tensor('i32', 1) }, (t, { fired }) => {
  const body = (team: number) => () =>
    t.roles({
      one: () => t.last(() => t.atomic.add(fired.at([team]), t.programs)),
      other: () => t.last(() => t.atomic.add(fired.at([team + 2]), t.programs)),
    })
  t.teams({ few: { programs: 1, body: body(0) }, many: { programs: 'rest', body: body(1) } })
})

const sumsOf = (programs: number): number[] =>
  range(tiles).map((at) => range(programs).reduce((sum, program) => sum + at * 10 + program, 0))

describe.each(targets)('on %s', (target) => {
  it('adds the parts of a tile in the last program, launch after launch', async () => {
    await onWorld(target, 2, async (world) => {
      for (const grid of [3, 1, 4]) {
        const [parts, sums] = [world.empty('i32', [tiles, grid]), world.empty('i32', [tiles])]
        for (let launch = 0; launch < 2; launch++) world.launch(added, { parts, sums }, { grid })
        for (const rank of [0, 1]) expect([...(await world.read(sums, rank))]).toEqual(sumsOf(grid))
      }
    })
  })

  it('counts per index, several times in a launch, in branches', async () => {
    await onWorld(target, 1, async (world) => {
      const fired = world.zeros('i32', [tiles])
      for (const [launches, grid] of [4, 1, 7].entries()) {
        world.launch(counted, { fired }, { grid })
        expect([...(await world.read(fired, 0))]).toEqual(range(tiles).map(() => 2 * (launches + 1)))
      }
    })
  })

  it('counts the programs of a team in every role', async () => {
    await onWorld(target, 1, async (world) => {
      const fired = world.zeros('i32', [4])
      world.launch(apart, { fired }, { grid: 4 })
      expect([...(await world.read(fired, 0))]).toEqual([1, 3, 1, 3])
    })
  })
})

describe('after a stop', () => {
  /** The last of three programs divides by `by` after the other programs have arrived. */
  const broken = kernel('broken', { x: tensor('i32', 1), fired: tensor('i32', 1) }, (t, { x, fired }) => {
    t.for(2, (at) => {
      const by = t.load(x.at([0]))
      t.last(() => t.atomic.add(fired.at([at]), t.constant('i32', 6).div(by)), { at: 0, of: 1, arrivals: 4 })
    })
  })
  it('the counts start again', async () => {
    await onWorld('wasm', 1, async (world) => {
      const x = world.zeros('i32', [1])
      const fired = world.zeros('i32', [2])
      world.launch(broken, { x, fired }, { grid: 3 })
      await expect(world.synchronize()).rejects.toThrow(WorldStopped)
      await world.reset()
      world.write(x, 0, [3])
      world.launch(broken, { x, fired }, { grid: 2 })
      expect([...(await world.read(fired, 0))].reduce((a, b) => a + b)).toBe(2)
    })
  })
})

describe('on a GPU', () => {
  it.skipIf(unavailable())('the emitted text counts alike', { timeout: 60_000 }, async () => {
    const world = openOnCpu(1)
    const [parts, sums] = [world.empty('i32', [tiles, 4]), world.empty('i32', [tiles])]
    const fired = world.zeros('i32', [tiles])
    for (let launch = 0; launch < 2; launch++) {
      world.launch(added, { parts, sums }, { grid: 4 })
      world.launch(counted, { fired }, { grid: 4 })
    }
    expect([...(await world.read(sums, 0))]).toEqual(sumsOf(4))
    expect([...(await world.read(fired, 0))]).toEqual(range(tiles).map(() => 4))
    await world.close()
  })

  it.skipIf(noCompiler)('it compiles', { ...long, timeout: 120_000 }, () => {
    const [one, other] = compileTogether([added, counted].map((one) => emit(one.record({ world: 2 }))))
    expect(one.ptx).toContain('atom.acq_rel.gpu.global.inc.u32')
    expect(other.ptx).toContain('atom.acq_rel.gpu.global.inc.u32')
  })
})
