/**
 * Tests that a collective needs each of its waits and signals, and both slots if it has slots: the checker finds an
 * error in a kernel that lacks one wait, one signal or the second slot. The mutants are made from the recorded IR, so
 * no kernel source contains deliberate errors.
 */
import { describe, expect, it } from 'vitest'
import { f32, kernel, tensor } from '../../../src/index.ts'
import { walk, type KernelIR, type Node } from '../../../src/ir/node.ts'
import { allReduce, barrier } from '../../../src/ops/collectives/index.ts'
import { explore } from '../../../src/targets/check/explore.ts'
import type { World } from '../../../src/world/world.ts'
import type { Mutation } from '../../targets/differential/mutant.ts'
import { mutating } from '../mutating.ts'
import { collectives, small, type Case } from './scenarios.ts'

/** The n-th node with the given op, in program order. */
const nth = (ir: KernelIR, op: string, n: number): Node =>
  [...walk(ir.body)].filter((node) => node.op === op)[n]

const drop =
  (op: 'wait' | 'signal', n: number): Mutation =>
  (ir) => {
    const victim = nth(ir, op, n)
    return (node) => (node === victim ? 'drop' : undefined)
  }

/** Makes a kernel always use the same slot, by keeping the epoch that it reads constant. */
const oneSlot: Mutation = () => (node, copier) =>
  node.op === 'epoch' ? copier.emit('const', [], { dtype: 'u32', value: 0 }, [], node.site) : undefined

const slow: Case = { ...small, elements: 7, tile: 2, grid: 1, launches: 4 }
const ranks = 3

async function kindsFound(
  run: (world: World) => Promise<void>,
  mutation: Mutation,
  schedules = 300,
): Promise<string[]> {
  const subject = {
    name: 'mutant',
    residency: undefined,
    run: (world: World) => run(mutating(world, mutation)),
  }
  const { findings } = await explore(subject, { ranks, schedules })
  return findings.map(({ kind }) => kind)
}

/** The number of waits and signals in the source of each kernel. */
const places = {
  'all-reduce, one shot': { wait: 2, signal: 1 },
  'all-reduce, two shots': { wait: 3, signal: 2 },
  'all-reduce, ring': { wait: 3, signal: 3 },
  'reduce-scatter': { wait: 2, signal: 1 },
  'all-gather': { wait: 2, signal: 2 },
  'all-to-all': { wait: 2, signal: 2 },
  broadcast: { wait: 2, signal: 2 },
} as const

describe.each(Object.entries(places))('%s', (name, { wait, signal }) => {
  const run = (world: World): Promise<void> => collectives[name](world, slow)

  it('has as many waits and signals as this test removes', async () => {
    const seen: KernelIR[] = []
    const look: Mutation = (ir) => {
      seen.push(ir)
      return () => undefined
    }
    expect(await kindsFound(run, look, 1)).toEqual([])
    const count = (op: string): number => [...walk(seen[0].body)].filter((node) => node.op === op).length
    expect({ wait: count('wait'), signal: count('signal') }).toEqual({ wait, signal })
  })

  it.each(Array.from({ length: wait }, (_, n) => n))('needs wait %i', async (n) => {
    const [kind] = await kindsFound(run, drop('wait', n))
    expect(kind).toMatch(/^(race|uninitialised|flag-reuse)$/)
  })

  it.each(Array.from({ length: signal }, (_, n) => n))('needs signal %i', async (n) => {
    const [kind] = await kindsFound(run, drop('signal', n))
    expect(kind).toBe('deadlock')
  })
})

describe.each(['all-reduce, one shot', 'reduce-scatter'])('%s', (name) => {
  it('needs two slots', async () => {
    expect((await kindsFound((world) => collectives[name](world, slow), oneSlot))[0]).toBe('race')
  })
})

describe('several collectives', () => {
  it('run on one stream in any order, each with its own buffers', async () => {
    const run = async (world: World): Promise<void> => {
      const make = () => allReduce(world, { dtype: 'f32', elements: 3, tile: 2, grid: 1, variant: 'oneShot' })
      const [first, second] = [make(), make()]
      const [x, y] = [world.zeros('f32', [3]), world.zeros('f32', [3])]
      for (const [one, on] of [
        [first, x],
        [second, y],
        [first, y],
        [first, x],
      ] as const)
        one.launch(on)
      await world.synchronize()
    }
    expect(await kindsFound(run, () => () => undefined, 30)).toEqual([])
  })
})

describe('barrier', () => {
  const write = kernel('write', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.to(f32)))
  const read = kernel('read', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) =>
    t.copy(x.on(t.rank.add(1).mod(t.world)).tile([0], [1]), y.tile([0], [1])),
  )
  const run = async (world: World): Promise<void> => {
    const [x, y] = [world.empty(f32, [1]), world.empty(f32, [1])]
    world.launch(write, { x }, { grid: 1 })
    barrier(world).launch()
    world.launch(read, { x, y }, { grid: 1 })
    await world.synchronize()
  }

  it('needs its wait and its signal', async () => {
    expect(await kindsFound(run, () => () => undefined)).toEqual([])
    expect((await kindsFound(run, drop('wait', 0)))[0]).toMatch(/^(race|uninitialised)$/)
    expect((await kindsFound(run, drop('signal', 0)))[0]).toBe('deadlock')
  })
})
