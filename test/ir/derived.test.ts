/**
 * Stages of the GPU derive what a new op needs from its record alone: ops that are added here are in no list by name.
 */
import { describe, expect, it, vi } from 'vitest'

vi.mock('../../src/ir/ops/sync.ts', async (load) => {
  const { syncOps, ...others } = await load<typeof import('../../src/ir/ops/sync.ts')>()
  const { voidType } = await import('../../src/ir/type.ts')
  const added = { ...syncOps.signal, advances: 'none', infer: () => voidType }
  return {
    ...others,
    syncOps: {
      ...syncOps,
      publish: { ...added, order: 'releases', scope: 'rank' },
      observe: { ...added, order: 'acquires', scope: 'rank' },
    },
  }
})
vi.mock('../../src/ir/ops/control.ts', async (load) => {
  const { controlOps, ...others } = await load<typeof import('../../src/ir/ops/control.ts')>()
  return { ...others, controlOps: { ...controlOps, forever: controlOps.for } }
})

const { f32, flags, kernel, tensor } = await import('../../src/index.ts')
const { walk } = await import('../../src/ir/node.ts')
const { Copier } = await import('../../src/ir/rewrite.ts')
const { lower, through } = await import('../../src/ir/stages.ts')
const { conflictIn } = await import('../../src/targets/cuda/emit/decide.ts')
const { gpuStages } = await import('../../src/targets/cuda/stages.ts')
type KernelIR = import('../../src/ir/node.ts').KernelIR
type OpName = import('../../src/ir/ops/index.ts').OpName

/** The kernel with one op in the place of another. */
function instead(ir: KernelIR, old: OpName, op: string): KernelIR {
  const copier: InstanceType<typeof Copier> = new Copier((node) =>
    node.op === old
      ? copier.emit(
          op as OpName,
          node.inputs.map((input) => copier.get(input)),
          {},
          node.blocks.map((block) => copier.copyBlock(block)),
          node.site,
        )
      : undefined,
  )
  return { ...ir, body: copier.copyBlock(ir.body) }
}

const opsOf = (ir: KernelIR): string[] => [...walk(ir.body)].map(({ op }) => op)

describe('a new op', () => {
  const telling = kernel('telling', { y: tensor(f32, 2), done: flags() }, (t, { y, done }) => {
    t.store(y.tile([0, 0], [16, 16]), t.zeros(f32, [16, 16]))
    t.signal(done)
  })
  const lowered = lower(telling.record({ world: 2 }))
  const ordered = (op: string): string[] =>
    opsOf(through(instead(lowered, 'signal', op), gpuStages, { tensors: {} }))

  it('that releases has a thread barrier before it', () => {
    expect(ordered('publish').slice(-2)).toEqual(['meet', 'publish'])
  })

  it('that acquires has a thread barrier after it', () => {
    expect(ordered('observe').slice(-2)).toEqual(['observe', 'meet'])
  })

  it('that carries a fragment has it in one layout, and the other one converted', () => {
    // A sum per row and a sum per column of a product are held by different threads.
    const carrying = kernel('carrying', { y: tensor(f32, 1) }, (t, { y }) => {
      const tile = t.shared(f32, [16, 16])
      const product = t.dot(tile, tile, t.zeros(f32, [16, 16]))
      const last = t.for(4, product.sum(1), () => product.sum(0))
      t.store(y.tile([0], [16]), last)
    })
    const ir = lower(carrying.record({ world: 1 }))
    const upToLayouts = gpuStages.slice(0, gpuStages.findIndex(({ name }) => name === 'layouts') + 1)
    const converts = (given: KernelIR): number =>
      opsOf(through(given, upToLayouts, { tensors: {} })).filter((op) => op === 'convert').length
    expect(converts(ir)).toBeGreaterThan(0)
    // Without a renderer or an order of its own the op goes as far as its layouts.
    const probe = instead(ir, 'for', 'forever')
    expect(conflictIn(probe, { tensors: {} })).toBeDefined()
    expect(converts(probe)).toBe(converts(ir))
  })
})
