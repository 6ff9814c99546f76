/**
 * Compiles the CUDA code of GEMM + Reduce-Scatter with nvcc, as a world of eight GPUs launches it: with tiles that TMA
 * can address, and with shapes in which no extent is a multiple of anything.
 */
import { describe, expect, it } from 'vitest'
import { gemmReduceScatterOperation } from '../../../src/ops/gemmReduceScatter/index.ts'
import type { OperandDType } from '../../../src/operation/definition.ts'
import { emitCuda } from '../../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmittedKernel } from '../../../src/targets/cuda/emit/recipe.ts'
import { h200 } from '../../../src/targets/cuda/machines.ts'
import { lower } from '../../../src/targets/cuda/stages.ts'
import { describedWorld, launchFacts } from '../../../src/world/described.ts'
import { oneEach } from '../../../src/world/machine.ts'
import { compileTogether, NO_SPILLS, noCompiler } from '../../cuda/compile.ts'
import { long } from '../../long.ts'

const ranks = 8
const shapes = {
  aligned: { M: 8192, N: 8192, K: 28_672 },
  odd: { M: 1003, N: 517, K: 1001 },
} as const
type Shape = (typeof shapes)[keyof typeof shapes]

/** The kernels of all variants and options of the operation whose names match `pattern`, each only once. */
function emitted(
  dtype: OperandDType,
  shape: Shape,
  pattern: RegExp,
): { name: string; kernel: EmittedKernel }[] {
  const machine = oneEach(h200, ranks)
  const { points, make } = gemmReduceScatterOperation
  const all = new Map<string, { name: string; kernel: EmittedKernel }>()
  for (const [form, options] of Object.entries(points.forms({ machine, ranks, dtype, shape }))) {
    if (!pattern.test(form)) continue
    const { world, launches } = describedWorld(machine)
    make(world, { ...options, dtype, shape }).launch()
    for (const launch of launches) {
      const recorded = launch.kernel.record({ world: ranks, meta: launch.options.meta as never })
      const tensors = Object.fromEntries(
        Object.entries(launchFacts(launch).shapes).map(([name, extents]) => [name, factsOf(extents)]),
      )
      const kernel = emitCuda(lower(recorded), { tensors })
      all.set(kernel.source, { name: `${form} ${launch.kernel.name}`, kernel })
    }
  }
  return [...all.values()]
}

/** Compiles kernels and returns the names of those that spill registers. */
function spilling(kernels: ReturnType<typeof emitted>): string[] {
  expect(kernels.length).toBeGreaterThan(0)
  const compiled = compileTogether(kernels.map(({ kernel }) => kernel))
  for (const { ptx } of compiled) expect(ptx).not.toBe('')
  return kernels.filter((_, n) => compiled[n].properties !== NO_SPILLS).map(({ name }) => name)
}

describe.skipIf(noCompiler !== undefined)('the CUDA code', () => {
  it('of fused with a team of summers compiles and spills no registers', () => {
    expect(spilling(emitted('bf16', shapes.aligned, /^fused-M-summers$/))).toEqual([])
  })

  it.each(['bf16', 'f32'] as const)('of every form in %s compiles and spills no registers', long, (dtype) => {
    expect(spilling(emitted(dtype, shapes.aligned, /./))).toEqual([])
  })

  it.each(['bf16', 'f32'] as const)('of every form in %s compiles for odd extents', long, (dtype) => {
    spilling(emitted(dtype, shapes.odd, /./))
  })
})
