/**
 * Tests that the checker finds errors in the synchronisation of GEMM + Reduce-Scatter. The general mutants (../mutants.ts)
 * lack a signal or a wait, wait for a wrong epoch, or use one slot for all epochs. The other mutants of this file have
 * errors that are specific to partial sums: a signal before its data, the slot of another source, and an accumulator
 * that is not set to zero.
 */
import { describe, expect, it } from 'vitest'
import { walk, type Node } from '../../../src/ir/node.ts'
import {
  gemmReduceScatter,
  gemmReduceScatterOperation,
  type GemmReduceScatterOptions,
} from '../../../src/ops/gemmReduceScatter/index.ts'
import { explore } from '../../../src/targets/check/explore.ts'
import type { World } from '../../../src/world/world.ts'
import type { Mutation } from '../../targets/differential/mutant.ts'
import { repeated } from '../clean.ts'
import { expectFound } from '../mutants.ts'
import { long } from '../../long.ts'
import { mutating } from '../mutating.ts'

const tiles = { BM: 2, BN: 2, BK: 2, stages: 2 }
const smallest = { shape: { M: 1, N: 1, K: 2 }, dtype: 'f32', tiles, grid: 1 } as const
type Given = Pick<GemmReduceScatterOptions, 'variant' | 'scatter'> & Partial<GemmReduceScatterOptions>
const subject = (given: Given, ranks = 2) =>
  repeated(ranks, (world) => gemmReduceScatter(world, { ...smallest, ...given }), { factor: 'a' })

describe.each(gemmReduceScatterOperation.variants)('%s', (variant) => {
  // If every epoch seems to be the first, `atomic` needs only one slot. A test below changes only the slot.
  const harmless = variant === 'atomic' ? ['one slot for all epochs'] : []
  // The second rank has no row (column).
  it.each(['M', 'N'] as const)('along %s', (scatter) => expectFound(subject({ variant, scatter }), harmless))

  it('on three ranks', long, () =>
    expectFound(subject({ variant, scatter: 'M', shape: { M: 3, N: 1, K: 3 } }, 3), harmless),
  )
})

it('fused with a team of summers', () =>
  expectFound(subject({ variant: 'fused', scatter: 'M', grid: 2, summers: 1 })))

it('fused with late signals', () =>
  expectFound(subject({ variant: 'fused', scatter: 'M', signalsLate: true })))

/** The kinds of findings for a mutant of the kernel that stores partial sums. */
async function kindsFound(given: Given, mutation: Mutation, schedules = 200): Promise<string[]> {
  const ranks = 3
  const { run, ...rest } = subject({ shape: { M: 3, N: 2, K: 3 }, ...given }, ranks)
  const mutant = { ...rest, run: (world: World) => run(mutating(world, mutation)) }
  const { findings } = await explore(mutant, { ranks, schedules })
  return findings.map(({ kind }) => kind)
}

const rootOf = (node: Node): Node => (node.inputs.length === 0 ? node : rootOf(node.inputs[0]))
/** True if the node accesses the kernel parameter of this name. */
const isOn = (node: Node, op: string, param: string): boolean =>
  node.op === op && rootOf(node.inputs[0]).attributes.name === param

/** Moves each access by `op` to the parameter `param` behind the signal that follows the access. */
const signalFirst =
  (op: string, param: string): Mutation =>
  () => {
    let access: Node | undefined
    return (node, copier) => {
      if (isOn(node, op, param)) {
        access = node
        return 'drop'
      }
      if (access === undefined || node.op !== 'signal') return undefined
      for (const { op, inputs, attributes, site } of [node, access])
        copier.emit(
          op,
          inputs.map((input) => copier.get(input)),
          attributes,
          [],
          site,
        )
      access = undefined
      return copier.nodes.at(-2)
    }
  }

/** Stores the data of all sources (hops) in slot 0. */
const oneSource: Mutation = () => (node, copier) =>
  node.op === 'pick' && node.inputs[0].op === 'pick'
    ? copier.emit('pick', [copier.get(node.inputs[0]), copier.constant(0)], {}, [], node.site)
    : undefined

describe.each(['push', 'ring', 'fused'] as const)('%s', (variant) => {
  it.each(['M', 'N'] as const)('along %s needs its signal after the data', async (scatter) => {
    expect((await kindsFound({ variant, scatter }, signalFirst('store', 'inbox')))[0]).toBe('race')
  })

  it('needs one slot for each source', async () => {
    expect((await kindsFound({ variant, scatter: 'M' }, oneSource))[0]).toBe('race')
  })
})

describe('atomic', () => {
  it('needs its signal after the additions', async () => {
    const [kind] = await kindsFound({ variant: 'atomic', scatter: 'M' }, signalFirst('atomic.add', 'sums'))
    expect(kind).toBe('race')
  })

  it('needs two slots', async () => {
    const oneSlot: Mutation = () => (node, copier) =>
      isOn(node, 'epoch', 'arrived')
        ? copier.emit('const', [], { dtype: 'u32', value: 0 }, [], node.site)
        : undefined
    expect((await kindsFound({ variant: 'atomic', scatter: 'M' }, oneSlot))[0]).toBe('race')
  })

  /** Keeps only some of the stores to the accumulators, which are numbered in program order. */
  const storing =
    (kept: number): Mutation =>
    (ir) => {
      const stores = [...walk(ir.body)].filter((node) => isOn(node, 'store', 'sums'))
      expect(stores).toHaveLength(2)
      return (node) => (stores.includes(node) && node !== stores[kept] ? 'drop' : undefined)
    }

  it.each([
    ['at their first use', 1, 'uninitialised'],
    ['after each use', 0, 'wrong-result'],
  ])('needs accumulators that are set to zero %s', async (_, kept, kind) => {
    expect((await kindsFound({ variant: 'atomic', scatter: 'M' }, storing(kept)))[0]).toBe(kind)
  })
})

it('finds nothing without a mistake', async () => {
  for (const variant of gemmReduceScatterOperation.variants)
    expect(await kindsFound({ variant, scatter: 'M' }, () => () => undefined, 10)).toEqual([])
})
