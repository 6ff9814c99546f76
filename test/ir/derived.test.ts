/**
 * Tests that the stages of the GPU derive what a new op needs from its record alone: ops that are added here are in no list by name.
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
      rendezvous: syncOps.barrier,
      publish: { ...added, order: 'releases', scope: 'rank' },
      observe: { ...added, order: 'acquires', scope: 'rank' },
    },
  }
})
vi.mock('../../src/ir/ops/memory.ts', async (load) => {
  const { memoryOps, ...others } = await load<typeof import('../../src/ir/ops/memory.ts')>()
  return { ...others, memoryOps: { ...memoryOps, fetch: memoryOps['copy.async'] } }
})
vi.mock('../../src/ir/ops/inflight.ts', async (load) => {
  const { inFlightOps, ...others } = await load<typeof import('../../src/ir/ops/inflight.ts')>()
  return { ...others, inFlightOps: { ...inFlightOps, send: inFlightOps['copy.nbi'] } }
})
vi.mock('../../src/ir/ops/views.ts', async (load) => {
  const { viewOps, ...others } = await load<typeof import('../../src/ir/ops/views.ts')>()
  const view = {
    ...viewOps.pick,
    infer: ({ inputs }: { inputs: readonly { type: unknown }[] }) => inputs[0].type,
  }
  return { ...others, viewOps: { ...viewOps, same: view, neighbour: { ...viewOps.on, owner: 1 } } }
})
vi.mock('../../src/ir/ops/values.ts', async (load) => {
  const { valueOps, ...others } = await load<typeof import('../../src/ir/ops/values.ts')>()
  return { ...others, valueOps: { ...valueOps, number: valueOps.program } }
})
vi.mock('../../src/ir/ops/control.ts', async (load) => {
  const { controlOps, ...others } = await load<typeof import('../../src/ir/ops/control.ts')>()
  return { ...others, controlOps: { ...controlOps, forever: controlOps.for } }
})

const { bf16, f32, flags, kernel, tensor } = await import('../../src/index.ts')
const { walk } = await import('../../src/ir/node.ts')
const { isRemote, origin } = await import('../../src/ir/ops/index.ts')
const { Copier } = await import('../../src/ir/rewrite.ts')
const { through } = await import('../../src/ir/stages.ts')
const { conflictIn } = await import('../../src/targets/cuda/emit/decide.ts')
const { factsOf } = await import('../../src/targets/cuda/emit/recipe.ts')
const { planTiles } = await import('../../src/targets/cuda/emit/tiles.ts')
const { tileGroupOf } = await import('../../src/targets/cuda/emit/tileOrder.ts')
const { gpuStages, lower } = await import('../../src/targets/cuda/stages.ts')
type KernelIR = import('../../src/ir/node.ts').KernelIR
type Node = import('../../src/ir/node.ts').Node
type OpName = import('../../src/ir/ops/index.ts').OpName

/** Returns a copy of the kernel in which another op replaces every node with the op `old`. */
function instead(ir: KernelIR, old: OpName, op: string): KernelIR {
  const copier: InstanceType<typeof Copier> = new Copier((node) =>
    node.op === old
      ? copier.emit(
          op as OpName,
          node.inputs.map((input) => copier.get(input)),
          node.attributes,
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
    // The row sums and the column sums of a matrix product are held by different threads.
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
    // The test's new op cannot be rendered as CUDA text, so the kernel is compiled only up to the stage `layouts`.
    const probe = instead(ir, 'for', 'forever')
    expect(conflictIn(probe, { tensors: {} })).toBeDefined()
    expect(converts(probe)).toBe(converts(ir))
  })
})

/**
 * The known extents and alignments (facts) of the tensors whose tiles the TMA copies. The facts of all other tensors
 * are unknown, so threads store to them.
 */
const byTma = {
  tensors: Object.fromEntries(['a', 'b', 'y'].map((name) => [name, factsOf([4096, 4096])])),
}
const multiplying = kernel(
  'multiplying',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2), x: tensor(f32, 1), ready: flags() },
  (t, { a, b, c, x, ready }) => {
    const [as, bs] = [t.shared(bf16, [128, 64]), t.shared(bf16, [64, 128])]
    t.persistent(c.tiles([128, 128]), (tile, [i, j]) => {
      const product = t.pipeline([64], t.zeros(f32, [128, 128]), ([k], sum) => {
        t.wait(ready)
        t.copy(a.tile([i, k], [128, 64]), as)
        t.copy(b.tile([k, j], [64, 128]), bs)
        return t.dot(as, bs, sum)
      })
      t.copy(product, tile)
      t.store(x.at([i.mul(32).add(j)]), t.program.to(f32))
    })
  },
)

describe('a new op is treated like the one with the same facts:', () => {
  const ir = lower(multiplying.record({ world: 2 }))
  /** The ops of a kernel after the last stage; the new op is listed under the name of the op that it replaces. */
  const after = (given: KernelIR, op: string, old: string): string[] =>
    opsOf(through(given, gpuStages, byTma)).map((one) => (one === op ? old : one))

  it('a copy that completes at a barrier', () => {
    const found = after(instead(ir, 'copy.async', 'fetch'), 'fetch', 'copy.async')
    expect(found).toContain('fence.async')
    expect(found).toEqual(after(ir, '', ''))
  })

  it('a copy that completes at a quiet', () => {
    const sending = kernel('sending', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
      const tile = t.shared(f32, [16, 32])
      t.store(tile, t.load(x.tile([0, 0], [16, 32])))
      t.copyAsync(tile, y.tile([0, 0], [16, 32]))
      t.quiet()
    })
    const ir = lower(sending.record({ world: 1 }))
    const found = after(instead(ir, 'copy.nbi', 'send'), 'send', 'copy.nbi')
    expect(found).toContain('drain')
    expect(found).toEqual(after(ir, '', ''))
  })

  it('a barrier of all roles', () => {
    const meeting = kernel('meeting', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
      const tile = t.shared(f32, [16, 16])
      t.roles({
        worker: () => {
          t.pipeline([4], ([k]) => {
            t.copy(x.tile([k, 0], [16, 16]), tile)
            t.store(y.tile([k, 0], [16, 16]), t.load(tile))
          })
          t.barrier()
        },
        other: () => t.barrier(),
      })
    })
    const recorded = meeting.record({ world: 1 })
    const notes = lower(instead(recorded, 'barrier', 'rendezvous')).notes
    expect(notes).toEqual([expect.stringContaining('counts the roles of the program')])
    expect(notes).toEqual(lower(recorded).notes)
  })

  it('a view of a shared tile', () => {
    const spans = (given: KernelIR): number[] => [...planTiles(given).values()].map(({ span }) => span)
    const copier: InstanceType<typeof Copier> = new Copier((node) => {
      if (node.op !== 'dot') return undefined
      const [a, b, sum] = node.inputs.map((input) => copier.get(input))
      const same = (tile: Node): Node => copier.emit('same' as OpName, [tile])
      return copier.emit('dot', [same(a), same(b), sum], node.attributes, [], node.site)
    })
    const viewed = { ...ir, body: copier.copyBlock(ir.body) }
    expect(opsOf(viewed)).toContain('same')
    expect(spans(viewed)).toEqual(spans(ir))
    expect(spans(ir)).toEqual([128, 128])
  })

  it("a view of another rank's memory", () => {
    const pulling = kernel('pulling', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
      t.copy(x.on(t.rank.add(1).mod(t.world)).tile([0, 0], [16, 16]), y.tile([0, 0], [16, 16]))
    })
    const ir = instead(pulling.record({ world: 2 }), 'on', 'neighbour')
    const [source] = [...walk(ir.body)].find(({ op }) => op === 'copy')!.inputs
    expect([isRemote(source), origin(source).owner?.op]).toEqual([true, 'mod'])
  })

  it('a value that differs between programs', () => {
    const rowsOf = (given: KernelIR): number[] =>
      [...walk(given.body)]
        .filter(({ op, attributes }) => op === 'persistent' && attributes.axes === 2)
        .map(tileGroupOf(given, 8))
    expect(new Set(rowsOf(ir))).toEqual(new Set([1]))
    expect(rowsOf(instead(ir, 'program', 'number'))).toEqual(rowsOf(ir))
  })
})
