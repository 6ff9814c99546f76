/**
 * Tests that random kernels are emitted as CUDA C++ or refused with a reason and a source line. The emitter must never
 * fail in another way.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { KernelError } from '../../src/ir/site.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { genes } from '../targets/differential/choices.ts'
import { generate } from '../targets/differential/generator.ts'

describe.each(['exact', 'bounded'] as const)('%s random kernels', (kind) => {
  it('are emitted, or refused with a reason', () => {
    let refused = 0
    const runs = Number(process.env.ARKE_KERNELS ?? 100)
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
          if (!(error instanceof KernelError)) throw error
          expect(error.message).toMatch(/\.ts:\d+:\d+/)
          refused++
        }
      }),
      {
        seed: Number(process.env.ARKE_SEED ?? 31),
        numRuns: runs,
        endOnFailure: process.env.ARKE_SHRINK !== '1',
      },
    )
    expect(refused).toBeLessThan(runs / 5)
  }, 120_000)
})
