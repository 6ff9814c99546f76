/** Kernels whose programs share tiles within a cluster, as text for a GPU. */
import { describe, expect, it } from 'vitest'
import { gemmKernel } from '../../src/ops/gemm.ts'
import type { EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { compileTogether, noCompiler, NO_SPILLS } from './compile.ts'
import { bodyOf, emit } from './emitting.ts'

const product = (CM: number, CN: number, extents?: readonly number[]): EmittedKernel =>
  emit(
    gemmKernel('bf16').record({ world: 1, meta: { BM: 128, BN: 128, BK: 64, stages: 4, CM, CN } }),
    extents,
  )

const all = [
  [2, 1],
  [1, 2],
  [2, 2],
  [4, 2],
] as const

describe('a product in clusters', () => {
  it.each(all)('of %i x %i programs is launched in clusters of this size', (CM, CN) => {
    const text = bodyOf(product(CM, CN))
    expect(text).toContain(`__cluster_dims__(${CM * CN}, 1, 1)`)
    expect(text.match(/cluster_meet\(\)/g)).toHaveLength(2)
    // A tile of A is shared by the programs along N, and a tile of B by those along M.
    expect(/tma_multicast_2d\(a_tile/.test(text)).toBe(CN > 1)
    expect(/tma_multicast_2d\(b_tile/.test(text)).toBe(CM > 1)
    // A program tells itself and the other programs that fill a slot that the slot is free: 8 warps per program arrive.
    const arrivals = 8 * (1 + (CM - 1) + (CN - 1))
    expect(text).toMatch(new RegExp(`barrier_init\\(shared \\+ \\d+ \\+ i \\* 8, ${arrivals}\\)`))
  })

  it('is an ordinary kernel where the tiles do not fill whole clusters', () => {
    const text = bodyOf(product(2, 1, [4096 + 128, 4096 + 128]))
    expect(text).not.toMatch(/cluster|multicast/)
    expect(text).toContain('tma_load_2d(b_tile')
  })

  it.skipIf(noCompiler)('compiles for sm_90a without spills', { timeout: 240_000 }, () => {
    for (const { ptx, properties } of compileTogether(all.map(([CM, CN]) => product(CM, CN)))) {
      expect(properties).toBe(NO_SPILLS)
      expect(ptx).toContain('.multicast::cluster')
    }
  })
})
