/**
 * The record of decisions is complete: every op that a stage has inserted is in it, with the reason, for the examples and the
 * operations. `--stage decide` prints what each stage decided, for kernels that a stage changes and for those that it does not.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { f32, flags, kernel, tensor, type Kernel, type Meta } from 'arke'
import { emit, emitOperation } from '../../src/cli/emit.ts'
import { load } from '../../src/cli/load.ts'
import { decisionLines } from '../../src/ir/decisions.ts'
import { walk, type KernelIR } from '../../src/ir/node.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { operations } from '../../src/ops/operations.ts'
import {
  atStage,
  LAST_STAGE,
  shapesOf,
  specialise,
  usualWorld,
  type Shapes,
} from '../../src/targets/cuda/facts.ts'
import { describedWorld, launchFacts } from '../../src/world/described.ts'
import { sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

const last = (recorded: KernelIR, shapes?: Shapes): KernelIR =>
  atStage(recorded, LAST_STAGE, specialise(usualWorld, shapesOf(recorded, shapes)))

/** For each op that a stage inserts: the stage, and the text of its decision. */
const inserting = {
  meet: ['order', /a thread barrier/],
  'fence.async': ['order', /a proxy fence/],
  drain: ['order', /a wait (for the stores of|until) TMA|a wait of each thread/],
  'dot.wait': ['order', /a wait until the (previous |last )?matrix product is complete/],
  'start.barriers': ['order', /one thread initialises the barriers/],
  'start.meet': ['order', /the threads of the program synchronise/],
  once: ['order', /skipped if waited for before/],
  convert: ['layouts', /converted to the layout/],
  combine: ['layouts', /partial results of several warps are combined/],
} as const

function expectRecorded(ir: KernelIR): void {
  const nodes = [...walk(ir.body)]
  for (const [op, [stage, pattern]] of Object.entries(inserting)) {
    const made = (ir.decisions?.[stage] ?? []).filter(({ what }) => pattern.test(what))
    expect(`${made.length} ${op} in ${ir.name}`).toBe(
      `${nodes.filter((node) => node.op === op).length} ${op} in ${ir.name}`,
    )
  }
  const apart = nodes.filter(({ attributes }) => attributes.apart === true).length
  const exchanges = nodes.filter(({ attributes }) => attributes.exchange !== undefined).length
  const order = (ir.decisions?.order ?? []).map(({ what }) => what)
  expect(order.filter((what) => what.includes('divided among the threads'))).toHaveLength(apart)
  const exchanged = /exchange its elements|when it is used|obtains it for all|exchange partial/
  // A node of the op `last` also passes a value between threads if a stage inserts a barrier for this node.
  const lasts = nodes.filter(
    ({ op, attributes }) => op === 'last' && attributes.exchange !== undefined,
  ).length
  expect(order.filter((what) => exchanged.test(what))).toHaveLength(exchanges - lasts)
}

describe('the record of decisions has all that stages inserted', () => {
  const examples = readdirSync(join(root, 'examples')).filter((name) => /^\d.*\.ts$/.test(name))
  it.each(examples)('examples/%s', async (name) => {
    for (const one of (await load(join(root, 'examples', name))).kernels)
      expectRecorded(last(one.record({ world: 2 })))
  })

  it.each(operations)('$name', async ({ make, defaults, variants }) => {
    await Promise.resolve()
    for (const variant of variants) {
      const { world, launches } = describedWorld(sharedOut(h200, 8))
      make(world, { ...defaults, dtype: 'bf16', variant }).launch()
      expect(launches.length).toBeGreaterThan(0)
      for (const launch of launches) {
        const recorded = launch.kernel.record({ world: 8, meta: launch.options.meta as Meta | undefined })
        expectRecorded(last(recorded, launchFacts(launch).shapes))
      }
    }
  })
})

/** The lines of one section of the output of `--stage decide`. */
function section(one: Kernel<never, never>, title: string, options: object = {}): string[] {
  const source = { file: 'kernel.ts', kernels: [one as unknown as Kernel], scenarios: [], operations: [] }
  const { text } = emit(source, { target: 'cuda', stage: 'decide', ranks: 4, ...options })
  return sectionOf(text, title)
}
const sectionOf = (text: string, title: string): string[] =>
  text
    .split('\n\n')
    .find((part) => part.startsWith(`${title}\n`))!
    .trimEnd()
    .split('\n')
    .slice(1)
    .map((line) => line.replace(/ at \S+?:\d+:\d+/g, '').trim())

describe('--stage decide prints', () => {
  const carrying = kernel(
    'carrying',
    { x: tensor(f32, 2), inbox: tensor(f32, 1, { carries: 'told' }), told: flags() },
    (t, { x, inbox, told }) => {
      const next = t.rank.add(1).mod(t.world)
      t.store(inbox.on(next).tile([0], [16]), t.load(x.tile([0, 0], [16, 16])).maximum(1))
      t.signal(told.on(next))
      t.wait(told)
      t.store(
        x.tile([0, 0], [16, 16]),
        t
          .load(inbox.tile([0], [16]))
          .expand(1)
          .add(t.zeros(f32, [16, 16])),
      )
    },
  )
  const putting = kernel('putting', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
    const tile = t.shared(f32, [16, 32])
    t.store(tile, t.load(x.tile([0, 0], [16, 32])))
    t.putNbi(tile, y.on(t.rank.add(1).mod(t.world)).tile([0, 0], [16, 32]))
    t.quiet()
  })

  it('which copies stay in flight', () => {
    expect(section(putting as never, 'stage complete')).toEqual([
      'copy.nbi: TMA makes the copy while the role continues',
    ])
    expect(section(putting as never, 'stage complete', { extents: ['y=99x99'] })).toEqual([
      'copy.nbi: complete at once, because TMA needs aligned rows, tiles that do not cross the end of a window, and no mask',
    ])
    const getting = kernel('getting', { x: tensor(f32, 2), h: tensor('f16', 2) }, (t, { x, h }) => {
      const [tile, halves, others] = [t.shared(f32, [8, 8]), t.shared('f16', [8, 8]), t.shared(f32, [8])]
      const next = t.rank.add(1).mod(t.world)
      t.getNbi(x.on(next).tile([0, 0], [8, 8]), tile)
      t.getNbi(h.on(next).tile([0, 0], [8, 8]), halves)
      t.getNbi(x.on(next).pick(1).tile([0], [8]), others, { mask: t.arange(8).lt(3) })
      t.getNbi(
        x
          .on(next)
          .pick(1)
          .at([t.arange(8).mul(2)]),
        others,
      )
      t.getNbi(x.on(next).tile([0, 0], [8, 8]), x.tile([1, 0], [8, 8]))
      t.quiet()
      t.store(x.tile([2, 0], [8, 8]), t.load(tile).add(t.load(halves).to(f32)).add(t.load(others).expand(0)))
    })
    const started = (bytes: number): string =>
      `copy.nbi: threads start the copy in chunks of ${bytes} bytes (cp.async), and continue`
    expect(section(getting as never, 'stage complete')).toEqual([
      started(16),
      started(16),
      'copy.nbi: complete at once, because the copy has a mask',
      'copy.nbi: complete at once, because the copy gathers or scatters single elements',
      'copy.nbi: complete at once, because the copy does not write to a shared tile',
    ])
    const odd = section(getting as never, 'stage complete', { extents: ['x=64x30', 'h=64x31'] })
    expect(odd.slice(0, 2)).toEqual([
      started(8),
      'copy.nbi: complete at once, because cp.async needs rows at multiples of 4 bytes, but rows are only known to start at multiples of 2 bytes',
    ])
  })

  it('which copies of a cluster are multicast', () => {
    const clustered = { meta: ['BM=128', 'BN=128', 'BK=64', 'stages=4', 'CM=2', 'CN=1'] }
    const product = gemmKernel('bf16')
    expect(section(product as never, 'stage clusters', clustered)).toEqual([
      'copy.async: no multicast: a cluster of 2 x 1 has only one program along the multicast axis',
      'copy.async: multicast in a cluster of 2 x 1: each program copies 1 of 2 strips of the tile to all programs',
    ])
    const odd = { ...clustered, extents: ['a=4224x4224', 'b=4224x4224', 'c=4224x4224'] }
    expect(section(product as never, 'stage clusters', odd)).toEqual([
      'no clusters: the tiles of a loop are not known to fill whole clusters of 2 x 1 programs',
    ])
    expect(section(putting as never, 'stage clusters')).toEqual([
      'no clusters: no loop has the option `cluster`',
    ])
  })

  it('whether there is a courier, and why not', async () => {
    const allGather = operations.find(({ name }) => name === 'allGatherGemm')!
    const options = { target: 'cuda', stage: 'decide', ranks: 8, dtype: 'bf16', variant: 'fused' } as const
    const { text } = await emitOperation(allGather, options)
    expect(sectionOf(text, 'stage courier')).toEqual(['a courier executes for'])
    expect(section(putting as never, 'stage courier')).toEqual([
      'no courier: the kernel does not consist of only a producer and a consumer of pipelines',
    ])
  })

  it('which words carry which epochs, or why flags stay', () => {
    expect(section(carrying as never, 'stage words')).toEqual(['the words of inbox carry the epochs of told'])
    expect(section(carrying as never, 'stage words', { record: true })).toEqual([
      'flag-in-data words are not used: a kernel that records events waits for flags, so that its log shows each wait',
    ])
    expect(section(putting as never, 'stage words')).toEqual([
      'flag-in-data words are not used: no tensor carries epochs',
    ])
  })

  it('what separates accesses, and because of which memory', () => {
    expect(section(putting as never, 'stage order')).toMatchInlineSnapshot(`
      [
        "at the start, threads wait for the previous launch",
        "at the start, the next launch may start",
        "copy.nbi: a proxy fence of shared memory, because of earlier accesses of shared",
        "copy.nbi: a thread barrier, because of earlier accesses of shared",
        "quiet: a wait for the stores of TMA",
        "quiet: a thread barrier, because it waits for the whole role",
      ]
    `)
  })

  it('each line once', () => {
    const ir = last(putting.record({ world: 2 }))
    const twice = { ...ir, decisions: { order: [...ir.decisions!.order, ...ir.decisions!.order] } }
    expect(decisionLines(twice, 'order')).toEqual(decisionLines(ir, 'order'))
  })
})
