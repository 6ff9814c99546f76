/**
 * Measures variants on real ranks. The tests check properties of the results that do not depend on the machine's speed.
 */
import { describe, expect, it } from 'vitest'
import { openWorld } from '../../src/index.ts'
import { allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import { flashDecodeOperation } from '../../src/ops/flashDecode/index.ts'
import type { OperationDefinition, OperationOptions } from '../../src/operation/definition.ts'
import { measure, type MeasureOptions } from '../../src/runs/measure.ts'
import { runPartNames, type Point } from '../../src/runs/results.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'

const now = (): number => performance.now() * 1e6

function measured<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  options: Omit<Options, 'variant' | 'stream'>,
  variants: readonly Options['variant'][],
  more: Pick<MeasureOptions<Options>, 'skews' | 'onTimeline'> = {},
): Promise<Point[]> {
  return measure(definition, {
    options,
    variants,
    ...more,
    now,
    spin: true,
    open: (record) => openWorld({ target: 'wasm', ranks: 2, record, heap: 1 << 24 }),
    seconds: 0.01,
    leastRounds: 5,
    recorded: 3,
    rotate: 1e5,
    bandwidth: 1e10,
  })
}

const matrices = { shape: { M: 5, N: 48, K: 70 }, dtype: 'f32', shard: 'K' } as const

describe('measuring an operation', () => {
  it('reports the time of every variant, relative to bsp and to the lower bound', async () => {
    const [point] = await measured(allGatherGemmOperation, matrices, allGatherGemmOperation.variants)
    expect(point).toMatchObject({ operation: 'allGatherGemm', shape: matrices.shape, ranks: 2, skew: 0 })
    expect(point.limit.name).toBe('GEMM on data already gathered')
    expect(point.variants.map(({ variant }) => variant)).toEqual(['bsp', 'pull', 'push', 'fused'])
    expect(point.variants.map(({ launches }) => launches)).toEqual([2, 1, 2, 1])
    for (const { variant, time, speedup, ofLimit, deviation, recorded } of point.variants) {
      expect(time.samples, variant).toBeGreaterThanOrEqual(5)
      expect(time.median, variant).toBeGreaterThan(0)
      expect(speedup === null, variant).toBe(variant === 'bsp')
      expect(ofLimit.median, variant).toBeGreaterThan(0)
      expect(deviation.largest, variant).toBeLessThanOrEqual(deviation.bound)
      expect(recorded.samples, variant).toBe(3)
    }
  })

  it('has ledgers whose parts add up to wall within 2 %, on each rank and in total', async () => {
    const shape = { batch: 2, queryHeads: 4, kvHeads: 2, D: 16, tokens: 40 }
    const [point] = await measured(
      flashDecodeOperation,
      { shape, dtype: 'bf16' },
      flashDecodeOperation.variants,
    )
    for (const { variant, ledger, picture } of point.variants)
      for (const { wall, parts } of [ledger, ...picture.ranks.map((rank) => rank.ledger)]) {
        const sum = runPartNames.reduce((total, part) => total + parts[part], 0)
        expect(Math.abs(sum - wall), variant).toBeLessThanOrEqual(0.02 * wall)
        for (const part of runPartNames) expect(parts[part], `${variant}: ${part}`).toBeGreaterThanOrEqual(0)
      }
    const bytes = point.variants.map(({ ledger }) => ledger.locality.bytes)
    // The bytes of a rank's own partial results and those of both ranks: G x D sums and 2 x G statistics for each of 4
    // tiles, in f32.
    const partial = 4 * (2 * 16 + 2 * 2) * 4
    expect(bytes[0]).toBe(3 * partial)
    expect(bytes[4]).toBe(0)
  })

  it('delays the last rank by the skew, and no other', async () => {
    const delayed = new Set<number>()
    const onTimeline = ({ ranks, names }: Timeline): void => {
      for (const { rank, events } of ranks)
        if (events.name.some((name, n) => events.kind[n] === Kind.kernel && names[name] === 'delay'))
          delayed.add(rank)
    }
    await measured(allGatherGemmOperation, matrices, ['bsp'], { onTimeline })
    expect([...delayed]).toEqual([])
    const points = await measured(allGatherGemmOperation, matrices, ['bsp'], { skews: [0, 1000], onTimeline })
    expect([...delayed]).toEqual([1])
    expect(points.map(({ skew }) => skew)).toEqual([0, 1000])
  })

  it('throws if a variant leaves part of its output unwritten', async () => {
    const lazy: typeof allGatherGemmOperation = {
      ...allGatherGemmOperation,
      make(world, options, inputs) {
        const operation = allGatherGemmOperation.make(world, options, inputs)
        return options.variant === 'pull' ? { ...operation, launch: () => undefined } : operation
      },
    }
    await expect(measured(lazy, matrices, ['bsp', 'pull'])).rejects.toThrow(
      /allGatherGemm pull: element 0 of rank 0 is NaN, the reference/,
    )
  })
})
