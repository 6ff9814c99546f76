import { describe, expect, it } from 'vitest'

import { compileTogether, NO_SPILLS, noCompiler } from '../../../../test/cuda/compile.ts'
import { isSample, shippedKernels } from '../../../../test/cuda/shipped.ts'
import { ofOperations } from '../../../../test/golden/shippedLaunches.ts'
import { lower } from '../stages.ts'
import { emitCuda } from './emit.ts'
import { factsOf, type EmitFacts, type EmittedKernel } from './recipe.ts'
import { itForSome, long } from '../../../../test/long.ts'

const named = (part: string, options: Pick<EmitFacts, 'record'> = {}): EmittedKernel =>
  shippedKernels.find(({ name }) => name.startsWith(part))!.emit(options)

describe('shipped kernels', () => {
  const cases = shippedKernels.map((one) => [one.name, one] as const)
  itForSome(cases, isSample)('%s is emitted', ([, one]) => {
    for (const options of [{}, { record: true }]) {
      const { source, sharedBytes } = one.emit(options)
      expect(source).toContain('extern "C" __global__')
      expect(source.includes('event_log')).toBe('record' in options)
      expect(/\/\/ .*\bcourier$/m.test(source)).toBe(/^fused by shard.* b?f16/.test(one.name))
      expect(sharedBytes).toBeLessThanOrEqual(227 * 1024)
    }
  })

  it('copies KV caches by TMA, whatever the lengths of the sequences are', () => {
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
    ...[
      'gemm bf16 M=16',
      'fused by shard bf16 M=64',
      'fused by shard bf16 M=1024',
      'gemm f32 M=8',
      'pull K bf16 M=1024',
      'fused, teams M bf16 M=8',
    ],
    ...[
      'attend f16',
      'decode, fused bf16 batch=16 G=16',
      'decode, fused by owner bf16',
      'decode, fused bf16 batch=1 G=8 BN=128 splits=2 programs=16',
      'decode, fetching bf16 batch=1 G=8 BN=64',
      'decode, fetching bf16 batch=1 G=8 BN=128 splits=2 programs=16',
      'decode, coarse bf16 batch=1 G=64',
      'decode, fused by owner bf16 batch=1 G=64',
      'fine-grained combine bf16',
      'attend f32',
    ],
    ...['ringAllReduce bf16', 'broadcast f16'],
  ]

  const recording = [
    ...['pull K bf16 M=1024', 'decode, fused bf16 batch=16 G=16', 'all-gather K bf16 M=64'],
    ...['fused, teams M bf16 M=8', 'fused by shard bf16 M=1024', 'oneShotAllReduce bf16'],
  ]

  it('spill nothing, recording or not', long, () => {
    const kernels = [
      ...oneOfEachForm.map((name) => ({ name, emitted: named(name) })),
      ...recording.map((name) => ({ name: `${name}, recording`, emitted: named(name, { record: true }) })),
    ]
    const compiled = compileTogether(kernels.map(({ emitted }) => emitted))
    const found = kernels.map(({ name }, i) => [name, compiled[i].properties])
    expect(found).toEqual(kernels.map(({ name }) => [name, NO_SPILLS]))
  })

  it('spill no registers, in any form of any operation', long, async () => {
    const launches = await ofOperations('cuda', 8, 'bf16')
    // Variants of an operation share kernels, so equal sources are compiled once.
    const kernels = new Map(
      launches.map(({ name, kernel, ranks, meta, shapes }) => {
        const tensors = Object.fromEntries(
          Object.entries(shapes).map(([tensor, shape]) => [tensor, factsOf(shape)]),
        )
        const emitted = emitCuda(lower(kernel.record({ world: ranks, meta })), { tensors })
        return [emitted.source, { name, emitted }] as const
      }),
    )
    const compiled = compileTogether([...kernels.values()].map(({ emitted }) => emitted))
    const found = [...kernels.values()].map(({ name }, i) => [name, compiled[i].properties])
    expect(found).toEqual([...kernels.values()].map(({ name }) => [name, NO_SPILLS]))
  })
})
