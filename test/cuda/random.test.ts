/**
 * Tests that random kernels are emitted as CUDA C++ or, rarely and for a reason on a list, refused with a source line. The
 * emitter must never fail in another way.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { lower } from '../../src/targets/cuda/stages.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { genes } from '../targets/differential/choices.ts'
import { generate } from '../targets/differential/generator.ts'
import { Refusals } from '../targets/differential/refusals.ts'
import { long } from '../long.ts'

describe.each(['exact', 'bounded'] as const)('%s random kernels', (kind) => {
  const emitAll = (usualRuns: number): void => {
    const refusals = new Refusals()
    const runs = Number(process.env.ARKE_KERNELS ?? usualRuns)
    fc.assert(
      fc.property(genes(400), fc.boolean(), (list, record) => {
        const { kernel, shape } = generate(list, kind)
        const ir = lower(kernel.record({ world: shape.ranks }))
        try {
          const { source, name } = emitCuda(ir, { tensors: {}, record })
          expect(source).toContain(`${name}(`)
          // The index expression `2 * p + 1` must be in parentheses before a division or a modulo.
          expect(source).not.toMatch(/[^(]2 \* p \+ 1 [/%]/)
        } catch (error) {
          if (!refusals.allows(error)) throw error
          expect((error as Error).message).toMatch(/\.ts:\d+:\d+/)
        }
      }),
      {
        seed: Number(process.env.ARKE_SEED ?? 31),
        numRuns: runs,
        endOnFailure: process.env.ARKE_SHRINK !== '1',
      },
    )
    expect(refusals.total).toBeLessThanOrEqual(runs / 10)
  }

  it('are emitted, or refused with a reason: 20', () => emitAll(20))
  it('are emitted, or refused with a reason: 100', long, () => emitAll(100))
})
