import { describe, expect, it } from 'vitest'

import { compileTogether, NO_SPILLS, noCompiler } from '../../../../test/cuda/compile.ts'
import { shippedKernels } from '../../../../test/cuda/shipped.ts'
import type { EmittedKernel } from './recipe.ts'

const named = (part: string): EmittedKernel =>
  shippedKernels.find(({ name }) => name.startsWith(part))!.emit()

describe('shipped kernels', () => {
  it.each(shippedKernels.map((one) => [one.name, one] as const))('%s is emitted', (_, one) => {
    const { source, sharedBytes } = one.emit()
    expect(source).toContain('extern "C" __global__')
    expect(sharedBytes).toBeLessThanOrEqual(227 * 1024)
  })

  it('copies caches by the engine, whatever the lengths are', () => {
    const maps = named('decode, fused bf16').params.flatMap((param) => (param.kind === 'map' ? [param] : []))
    expect(maps.map(({ tensor, box }) => [tensor, box[1]])).toEqual([
      ...[64, 8, 1].map((rows) => ['k', rows]),
      ...[64, 8, 1].map((rows) => ['v', rows]),
    ])
  })
})

if (noCompiler) console.log(`shipped kernels are not compiled here: ${noCompiler}`)

describe.skipIf(noCompiler)('shipped kernels, compiled for sm_90a', () => {
  const oneOfEachForm = [
    ...['gemm bf16 M=16', 'gemm f32 M=8', 'pull K bf16 M=1024', 'fused, teams M bf16 M=8'],
    ...['attend f16', 'decode, fused bf16 batch=16 G=16', 'fine-grained combine bf16', 'attend f32'],
    ...['ringAllReduce bf16', 'broadcast f16'],
  ]

  it('spill nothing', { timeout: 240_000 }, () => {
    const compiled = compileTogether(oneOfEachForm.map(named))
    const found = oneOfEachForm.map((name, i) => [name, compiled[i].properties])
    expect(found).toEqual(oneOfEachForm.map((name) => [name, NO_SPILLS]))
  })
})
