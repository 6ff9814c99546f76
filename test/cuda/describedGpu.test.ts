/**
 * Kernels for a GPU with other limits than an H200. The limits are facts of the machine record, for a GPU that is only
 * described and for one that a driver reports.
 */
import { describe, expect, it } from 'vitest'
import { bf16, f32, kernel, tensor } from 'arke'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { operations } from '../../src/ops/operations.ts'
import { describedGpu } from '../../src/targets/cuda/description.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { forms } from '../../src/targets/forms.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { describedWorld, launchFacts } from '../../src/world/described.ts'
import { limitsOf, oneEach, programsPerProcessor } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { fakeDriver } from './fakeDriver.ts'

const KiB = 1024
const small = describedGpu({ sharedBytes: 99 * KiB })

const recordGemm = (stages: number) =>
  gemmKernel('bf16').record({ world: 1, meta: { BM: 128, BN: 128, BK: 64, stages } })
const shapes = { a: [1024, 1024], b: [1024, 1024], c: [1024, 1024] }

describe('a kernel for a GPU with 99 KiB of scratch memory', () => {
  it('is rejected if its tiles fit an H200 only', () => {
    const given = { shapes, device: { sharedBytes: 99 * KiB } }
    expect(() => forms.cuda.text(recordGemm(4), given)).toThrow(/a program has 101376/)
    expect(forms.cuda.text(recordGemm(4), { shapes }).text).not.toContain('101376')
    expect(forms.cuda.text(recordGemm(2), given).text).toContain('101376 bytes of shared memory per program')
  })

  it('states no limits that are those of an H200', () => {
    const { warp, sharedBytes, perProcessor } = h200
    const same = { sharedBytes, registers: perProcessor.registers }
    expect(limitsOf(describedGpu(same))).toEqual({ warp, sharedBytes, perProcessor })
    expect(forms.cuda.text(recordGemm(4), { shapes, device: same })).toEqual(
      forms.cuda.text(recordGemm(4), { shapes }),
    )
  })

  it.each(operations.map((operation) => [operation.name, operation] as const))(
    'is emitted for %s, whose tiles come from the same record',
    (_, definition) => {
      const machine = oneEach(small, 2)
      for (const dtype of ['bf16', 'f32'] as const)
        for (const variant of definition.variants) {
          const { world, launches } = describedWorld(machine)
          definition.make(world, { ...definition.defaults, dtype, variant }).launch()
          expect(launches.length).toBeGreaterThan(0)
          for (const launch of launches) {
            const recorded = launch.kernel.record({ world: 2, meta: launch.options.meta as never })
            const tensors = Object.fromEntries(
              Object.entries(launchFacts(launch).shapes).map(([name, shape]) => [name, factsOf(shape)]),
            )
            const { block, sharedBytes } = emitCuda(lower(recorded), { tensors, device: limitsOf(small) })
            expect(sharedBytes, `${variant} ${dtype}`).toBeLessThanOrEqual(99 * KiB)
            const needs = { threads: block, sharedBytes, registersPerThread: 0 }
            expect(programsPerProcessor(small, needs)).toBeGreaterThan(0)
          }
        }
    },
  )
})

it('registers per thread follow from the registers of a processor', () => {
  const printed = (registers?: number): string =>
    forms.cuda.printed(recordGemm(2), { shapes, device: { registers } })
  const raised = (text: string): number =>
    Number(/(\d+) registers per thread \(setmaxnreg raises/.exec(text)?.[1])
  expect(raised(printed(32_768))).toBeLessThan(raised(printed()))
})

it('a world launches kernels for the limits that its driver reports', async () => {
  // The GPU has 99 KiB of shared memory per program and 100 KiB per multiprocessor.
  const attributes = { 97: 99 * KiB, 81: 100 * KiB }
  const sources: string[] = []
  const compile = ({ source }: EmittedKernel): Uint8Array => (sources.push(source), new Uint8Array())
  const run = kernel('copied', { x: tensor(bf16, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
    const tile = t.shared(bf16, [64, 64])
    t.copy(x.tile([0, 0], [64, 64]), tile)
    t.store(y.tile([0, 0], [64, 64]), t.load(tile).to(f32))
  })
  const devices = [new Device(fakeDriver({ attributes }).driver, 0)]
  const world = new CudaWorld({ devices, compile }, { ranks: 1, heap: 1 << 22 })
  try {
    const args = { x: world.zeros(bf16, [64, 64]), y: world.zeros(f32, [64, 64]) }
    await world.prepare(run, { args })
    const given = { shapes: { x: [64, 64], y: [64, 64] }, device: { sharedBytes: 99 * KiB } }
    const { text } = forms.cuda.text(run.record({ world: 1 }), given)
    expect(text).toContain('101376')
    expect(sources).toContain(text)
  } finally {
    await world.close()
  }
})
