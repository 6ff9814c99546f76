/** Tests teams and pipelines inside roles. */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, type Program } from '../../../src/index.ts'
import { walk, type KernelIR } from '../../../src/ir/node.ts'
import { lower } from '../../../src/targets/cuda/stages.ts'
import { explore } from '../../../src/targets/check/explore.ts'
import { scenario, type World } from '../../../src/world/world.ts'
import { compileTogether, noCompiler } from '../../cuda/compile.ts'
import { emit } from '../../cuda/emitting.ts'
import { onWorld, range, targets } from './harness.ts'

/** A kernel with two roles. In the second role, the first two programs do other work than the remaining programs. */
const sorted = kernel('sorted', { out: tensor('i32', 2), all: tensor('i32', 1) }, (t, { out, all }) => {
  const mark = (team: number, from: number) => () => {
    t.store(out.at([t.program.add(from), 0]), t.program.add(100 * team))
    t.store(out.at([t.program.add(from), 1]), t.programs)
    t.last(() => t.atomic.add(all.at([team]), t.programs))
  }
  t.roles({
    counts: () => void t.atomic.add(all.at([2]), 1),
    marks: () =>
      t.teams({ first: { programs: 2, body: mark(0, 0) }, others: { programs: 'rest', body: mark(1, 2) } }),
  })
})

const steps = 5
const side = 8

/** Sums the column blocks of x in a pipeline in one role, while another role copies x. */
const summed = (extra: (t: Program) => void = () => {}, warps = 4) =>
  kernel(
    'summed',
    { x: tensor('f32', 2), sums: tensor('f32', 2), copy: tensor('f32', 2) },
    (t, { x, sums, copy }) => {
      const tile = t.shared('f32', [side, side])
      t.roles({
        copies: {
          warps,
          body: () =>
            t.for(steps, (k) =>
              t.store(copy.tile([0, k], [side, side]), t.load(x.tile([0, k], [side, side]))),
            ),
        },
        adds: () => {
          extra(t)
          t.persistent([2], ([i]) => {
            const sum = t.pipeline([steps], t.zeros('f32', [side, side]), ([k], sum) => {
              t.copy(x.tile([i, k], [side, side]), tile)
              return sum.add(t.load(tile))
            })
            t.store(sums.tile([i, 0], [side, side]), sum)
          })
        },
      })
    },
  )

const sumsOf = async (world: World, one = summed()): Promise<number[][]> => {
  const x = world.arange('f32', [2 * side, steps * side])
  const [sums, copy] = [world.zeros('f32', [2 * side, side]), world.zeros('f32', [side, steps * side])]
  world.launch(one, { x, sums, copy }, { grid: 1 })
  return [[...(await world.read(sums, 0))], [...(await world.read(copy, 0))]]
}
/** Element (row, column) of the sums: the sum of (steps x side) row + column + side k over all k. */
const wantedSums = range(2 * side).flatMap((row) =>
  range(side).map((column) => {
    const first = row * steps * side + column
    return range(steps).reduce((sum, k) => sum + first + k * side, 0)
  }),
)
const wantedCopy = range(side * steps * side)

const placed = (ir: KernelIR): string[][] =>
  [...walk(ir.body)]
    .filter(({ op }) => op === 'roles')
    .map(({ attributes }) =>
      (attributes.names as string[]).map((name, i) => `${name}: ${(attributes.warps as number[])[i]}`),
    )

describe.each(targets)('on %s', (target) => {
  it('teams in a role divide the programs', async () => {
    await onWorld(target, 1, async (world) => {
      const programs = Math.min(5, target === 'check' ? 5 : 3)
      const [out, all] = [world.zeros('i32', [programs, 2]), world.zeros('i32', [3])]
      for (const launch of [1, 2]) {
        world.launch(sorted, { out, all }, { grid: programs })
        const wanted = range(programs).flatMap((p) => (p < 2 ? [p, 2] : [100 + p - 2, programs - 2]))
        expect([...(await world.read(out, 0))]).toEqual(wanted)
        expect([...(await world.read(all, 0))]).toEqual([2, programs - 2, programs].map((n) => n * launch))
      }
    })
  })

  it('a pipeline in a role computes what the plain loop computes', async () => {
    await onWorld(target, 1, async (world) => expect(await sumsOf(world)).toEqual([wantedSums, wantedCopy]))
  })
})

describe('a pipeline in a role', () => {
  it('becomes two of the roles', () => {
    const ir = lower(summed().record({ world: 1 }))
    expect(ir.notes).toEqual([])
    expect(placed(ir)).toEqual([['copies: 4', 'adds producer: 4', 'adds: 4']])
  })

  it.each([
    [
      'a barrier of all roles',
      summed((t) => t.barrier()),
      /the barrier at .* counts the roles of the program/,
    ],
    [
      'too many warps',
      summed(undefined, 28),
      /the roles have 32 warps, and 4 more for a producer are too many/,
    ],
  ])('stays a loop with %s', (_, one, note) => {
    const ir = lower(one.record({ world: 1 }))
    expect(ir.notes).toHaveLength(1)
    expect(ir.notes![0]).toMatch(note)
    expect(placed(ir)[0]).toHaveLength(2)
  })

  it('is checked in its lowered form', async () => {
    const subject = scenario('summed', { ranks: 1 }, async (world) => {
      expect(await sumsOf(world)).toEqual([wantedSums, wantedCopy])
    })
    const { findings } = await explore(subject, { ranks: 1, stage: 'lowered', schedules: 20 })
    expect(findings).toEqual([])
  })

  it.skipIf(noCompiler)('compiles for a GPU, like teams in a role', { timeout: 120_000 }, () => {
    // Some roles do not use the variable with the number of their thread, about which nvcc warns.
    const kernels = [summed(), summed(undefined, 28), sorted]
      .map((one) => emit(one.record({ world: 2 })))
      .map((one) => ({ ...one, source: one.source.replaceAll('const u32 thread', '[[maybe_unused]] $&') }))
    for (const { ptx } of compileTogether(kernels)) expect(ptx).not.toBe('')
  })
})
