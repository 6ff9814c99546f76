/** Tests the variant that `auto` chooses, and the reason that it reports. */
import { describe, expect, it } from 'vitest'
import { openWorld } from '../../src/index.ts'
import { allGatherGemm } from '../../src/ops/allGatherGemm/index.ts'
import { choose, rememberMeasurements, type Measurement } from '../../src/operation/choice.ts'

const variants = ['bsp', 'pull', 'fused']
const at = (M: number, times: Record<string, number>, more: Partial<Measurement> = {}): Measurement => ({
  operation: 'product',
  target: 'wasm',
  ranks: 2,
  dtype: 'f32',
  shape: { M, N: 64 },
  layout: { shard: 'K' },
  times,
  ...more,
})
const asked = (M: number, more: Partial<Measurement> = {}): Measurement => at(M, {}, more)

describe('the choice of a variant', () => {
  const table = [at(1, { bsp: 30, pull: 10, fused: 20 }), at(1024, { bsp: 300, pull: 500, fused: 400 })]

  it('is the fastest at the nearest measured point, by ratio of extents', () => {
    expect(choose(asked(31), variants, table).variant).toBe('pull')
    expect(choose(asked(33), variants, table).variant).toBe('bsp')
  })

  it('reports where that was measured and the speed-up over bsp', () => {
    expect(choose(asked(2), variants, table).reason).toBe(
      'pull was the fastest at M=1, N=64 (f32, 2 ranks on wasm), the nearest point measured, 3.00 times as fast as bsp',
    )
    expect(choose(asked(2000), variants, table).reason).not.toContain('as fast as bsp')
  })

  it('ignores measurements of another target, layout or operation', () => {
    for (const other of [{ target: 'cuda' }, { layout: { shard: 'M' } }, { operation: 'decode' }]) {
      const { variant, reason } = choose(asked(1, other), variants, table)
      expect(variant).toBe('fused')
      expect(reason).toMatch(/^nothing was measured for/)
    }
  })

  it('prefers the same number of ranks and the same dtype', () => {
    const ranks = [at(1, { bsp: 2, fused: 1 }), at(1, { bsp: 1, fused: 2 }, { ranks: 8 })]
    expect(choose(asked(1, { ranks: 6 }), variants, ranks).variant).toBe('bsp')
    const dtypes = [at(1, { bsp: 2, fused: 1 }), at(1, { bsp: 1, fused: 2 }, { dtype: 'bf16' })]
    expect(choose(asked(1, { dtype: 'bf16' }), variants, dtypes).variant).toBe('bsp')
  })

  it('ignores variants that the operation does not offer', () => {
    expect(choose(asked(1), ['bsp', 'fused'], table).variant).toBe('fused')
  })

  it("prefers the program's own measurements to shipped ones", async () => {
    const shape = { M: 3, N: 16, K: 8 }
    const measured = { operation: 'allGatherGemm', target: 'check', ranks: 2, dtype: 'f32', shape }
    rememberMeasurements([{ ...measured, layout: { shard: 'M' }, times: { bsp: 9, push: 3 } }])
    const world = await openWorld({ ranks: 2 })
    const operation = allGatherGemm(world, { shape, dtype: 'f32', variant: 'auto', shard: 'M' })
    expect(operation.variant).toBe('push')
    expect(operation.reason).toContain('3.00 times as fast as bsp')
    const contents = operation.random(1)
    operation.fill(contents)
    operation.launch()
    const expected = operation.reference(contents, 1)
    ;(await operation.result(1)).forEach((x, i) => expect(x).toBeCloseTo(expected[i], 4))
    await world.close()
  })
})
