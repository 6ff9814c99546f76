/**
 * Copies in flight on a GPU: which ones TMA makes, what `quiet` becomes, what the checker finds without the inserted
 * fences and waits, and that the text compiles. Copies by threads run on this CPU and agree with the checker.
 */
import { describe, expect, it } from 'vitest'
import { bf16, f32, flags, kernel, tensor, type Kernel } from '../../src/index.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { nativeEngine } from '../../src/targets/native/node.ts'
import { expectClose, scenario, type Scenario, type World } from '../../src/world/world.ts'
import { openWorld } from '../../src/world/open.ts'
import { compileTogether, noCompiler } from './compile.ts'
import { between, bodyOf, emit } from './emitting.ts'
import { openOnCpu, unavailable } from './onCpu/onCpu.ts'

const why = unavailable()
if (why) console.info(`emitted kernels cannot run on this machine: ${why}`)

/** Doubles tiles and sends them from two buffers in turn. */
const send = kernel(
  'send',
  { x: tensor(f32, 2), inbox: tensor(f32, 2), out: tensor(f32, 2), told: flags() },
  (t, { x, inbox, out, told }) => {
    const peer = t.rank.add(1).mod(t.world)
    const buffers = t.shared(f32, [2, 16, 32])
    t.for(4, (i) => {
      const buffer = buffers.pick(i.mod(2))
      t.store(buffer, t.load(x.tile([i, 0], [16, 32])).mul(2))
      t.quiet({ reads: true })
      t.copyAsync(buffer, inbox.on(peer).tile([i, 0], [16, 32]))
    })
    t.quiet()
    t.signal(told.on(peer))
    t.wait(told)
    t.for(4, (i) => t.copy(inbox.tile([i, 0], [16, 32]), out.tile([i, 0], [16, 32])))
  },
)

/** One role fills tiles, and another role, which needs one thread only, stores them. */
const byRole = kernel('byRole', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
  const ring = t.shared(f32, [2, 16, 32])
  const [full, empty] = [t.barriers(2), t.barriers(2)]
  t.roles({
    // The thread that stores is not the first one of a warpgroup.
    filler: {
      warps: 1,
      body: () =>
        t.for(4, (i) => {
          t.wait(empty.at(i.mod(2)), i.div(2).sub(1))
          t.store(ring.pick(i.mod(2)), t.load(x.tile([i, 0], [16, 32])).add(1))
          t.arrive(full.at(i.mod(2)))
        }),
    },
    storer: {
      warps: 1,
      body: () =>
        t.for(4, (i) => {
          t.wait(full.at(i.mod(2)), i.div(2))
          t.copyAsync(ring.pick(i.mod(2)), y.tile([i, 0], [16, 32]))
          t.quiet({ reads: true })
          t.arrive(empty.at(i.mod(2)))
        }),
    },
  })
})

const copied = kernel('copied', { y: tensor(f32, 2), z: tensor(f32, 2) }, (t, { y, z }) => {
  t.for(4, (i) => t.copy(y.tile([i, 0], [16, 32]), z.tile([i, 0], [16, 32])))
})

/** Stores a tile that the matrix unit also reads: its layout in shared memory is swizzled. */
const swizzled = kernel(
  'swizzled',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  (t, { a, b, c }) => {
    const tile = t.shared(bf16, [64, 64])
    t.store(
      tile,
      t
        .load(a.tile([0, 0], [64, 64]))
        .to(f32)
        .mul(2)
        .to(bf16),
    )
    t.copyAsync(tile, b.tile([1, 0], [64, 64]))
    t.store(c.tile([0, 0], [64, 64]), t.dot(tile, tile.transpose(), t.zeros(f32, [64, 64])))
    t.quiet()
  },
)

const N = 6
/** Copies that threads make: masked, between tensors, into shared memory, and of tiles without alignment. */
const byThreads = kernel(
  'byThreads',
  { x: tensor(f32, 1), near: tensor(f32, 1), far: tensor(f32, 1), line: tensor(f32, 1), told: flags() },
  (t, { x, near, far, line, told }) => {
    const peer = t.rank.add(1).mod(t.world)
    const tile = t.shared(f32, [N])
    t.putNbi(x.tile([0], [N]), far.on(peer).tile([0], [N]), { mask: t.arange(N).lt(4) })
    t.getNbi(x.on(peer).tile([0], [N]), tile)
    t.quiet()
    t.store(tile, t.load(tile).mul(10))
    t.copyAsync(tile, near.tile([0], [N]))
    t.quiet({ reads: true })
    t.store(tile, t.full(f32, [N], -1))
    t.quiet()
    t.putSignal(near.tile([0], [N]), far.on(peer).tile([1], [N]), told.on(peer))
    t.wait(told)
    t.copy(far.tile([0], [2 * N]), line.tile([0], [2 * N]))
  },
)

const record = (one: unknown, world = 2): KernelIR => (one as Kernel).record({ world })

describe('the text of a kernel with copies in flight', () => {
  it('stores a shared tile by TMA, waits for its reads, and for its writes before the signal', () => {
    const text = bodyOf(emit(record(send)))
    const loop = between(text, 'for (i32', 'told')
    const steps = [
      'shared_store<',
      'tma_store_wait_read<0>',
      '__syncthreads',
      'fence_async_shared',
      'tma_store_3d',
    ]
    const places = [...steps, 'tma_store_commit', 'tma_store_wait_done<0>'].map((step) => loop.indexOf(step))
    expect(places).toEqual([...places].sort((a, b) => a - b))
    expect(Math.min(...places)).toBeGreaterThan(0)
    expect(text.indexOf('tma_store_wait_done<0>')).toBeLessThan(text.indexOf('flag_store'))
  })

  it('copies by threads, at once, where TMA cannot copy', () => {
    for (const one of [record(byThreads), record(send)]) {
      const text = bodyOf(emit(one, one.name === 'send' ? [127, 33] : [4096]))
      expect(text).not.toMatch(/tma_store|put\.signal|quiet/)
    }
  })

  it('stores and waits by the only thread of a role that does nothing else', () => {
    const text = bodyOf(emit(record(byRole, 1)))
    const storer = between(text, 'if (threadIdx.x == 32)', '__syncthreads')
    const calls = storer.split('\n').filter((line) => /fence_async|tma_store/.test(line))
    expect(calls.map((line) => line.trim().replace(/\(.*/, ''))).toEqual([
      'fence_async_shared',
      'tma_store_2d',
      'tma_store_commit',
      'tma_store_wait_read<0>',
      'tma_store_wait_done<0>',
    ])
  })

  it.skipIf(noCompiler !== undefined)('compiles', () => {
    const kernels = [record(send), record(byRole, 1), record(swizzled, 1), record(byThreads)].flatMap(
      (one) => [emit(one), emit(one, [129, 33]), emit(one, [4096, 4096], { record: true })],
    )
    const [first, , , , , , third] = compileTogether(kernels)
    expect(first.ptx).toContain('cp.async.bulk.tensor.3d.global.shared::cta.bulk_group')
    expect(third.ptx).toContain('cp.async.bulk.tensor.2d.global.shared::cta.bulk_group')
  })
})

// The last stage in the checker

const rows = 64
const sending = scenario('send', { ranks: 2 }, async (world) => {
  const x = world.from(f32, [rows, 32], (rank) => numbers(rank, rows * 32), { name: 'x' })
  const [inbox, out] = ['inbox', 'out'].map((name) => world.empty(f32, [rows, 32], { name }))
  world.launch(send, { x, inbox, out, told: world.flags([], { name: 'told' }) }, { grid: 1 })
  for (const rank of [0, 1])
    expectClose(
      await world.read(out, rank),
      numbers(1 - rank, rows * 32).map((value) => 2 * value),
    )
})
const storing = scenario('store by a role', { ranks: 1 }, async (world) => {
  const x = world.from(f32, [rows, 32], numbers(0, rows * 32), { name: 'x' })
  const y = world.empty(f32, [rows, 32], { name: 'y' })
  const z = world.empty(f32, [rows, 32], { name: 'z' })
  world.launch(byRole, { x, y }, { grid: 1 })
  world.launch(copied, { y, z }, { grid: 1 })
  expectClose(
    await world.read(z, 0),
    numbers(0, rows * 32).map((value) => value + 1),
  )
})
const numbers = (rank: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => ((i * 7) % 31) + rank)

describe('the last stage', () => {
  /** The kinds of the findings if these nodes are left out. */
  const findings = async (subject: Scenario, isDropped: (node: Node) => boolean): Promise<string[]> => {
    let byEngine = 0
    const form = (recorded: KernelIR, shapes: Shapes): KernelIR => {
      const ir = atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))
      for (const { op, attributes } of walk(ir.body))
        if (op === 'copy.nbi' && attributes.by === 'engine') byEngine++
      return { ...ir, body: new Copier((node) => (isDropped(node) ? 'drop' : undefined)).copyBlock(ir.body) }
    }
    const explored = await explore(subject, { ranks: subject.ranks[0], stage: form, schedules: 3 })
    expect(byEngine).toBeGreaterThan(0)
    return [...new Set(explored.findings.map(({ kind }) => kind))]
  }
  const isFence = ({ op }: Node): boolean => op === 'fence.async'
  const waitsFor = (of: 'reads' | undefined) => (node: Node) =>
    node.op === 'drain' && node.attributes.of === of

  it('has no finding, and a race without its fences or without one of its waits', async () => {
    for (const subject of [sending, storing]) {
      expect(await findings(subject, () => false)).toEqual([])
      // The last wait of `storing` is at the end of the role. The next kernel needs it.
      for (const isDropped of [isFence, waitsFor('reads'), waitsFor(undefined)])
        expect(await findings(subject, isDropped)).toEqual(['race'])
    }
  })
})

// Copies by threads

const contents = async (world: World): Promise<number[][]> => {
  const x = world.from(f32, [N], (rank) => numbers(10 * rank, N), { name: 'x' })
  const near = world.zeros(f32, [N], { name: 'near' })
  const [far, line] = ['far', 'line'].map((name) => world.zeros(f32, [2 * N], { name }))
  world.launch(byThreads, { x, near, far, line, told: world.flags([], { name: 'told' }) }, { grid: 1 })
  const found: number[][] = []
  for (let rank = 0; rank < world.ranks; rank++)
    for (const one of [near, line]) found.push([...(await world.read(one, rank))])
  await world.close()
  return found
}

/** What `near` and `line` of each rank hold in the end. */
const expected = [0, 1].flatMap((rank) => {
  const [mine, theirs] = [numbers(10 * rank, N), numbers(10 * (1 - rank), N)]
  const near = theirs.map((value) => 10 * value)
  return [near, [...theirs.slice(0, 4), 0, 0, ...mine.map((value) => 10 * value)]]
})

describe('copies by threads', () => {
  it('have the expected results in the checker, and no finding', async () => {
    expect(await contents(await openWorld({ target: 'check', ranks: 2 }))).toEqual(expected)
    const subject = scenario('by threads', { ranks: 2 }, (world) => contents(world))
    const { findings } = await explore(subject, { ranks: 2, preemptions: 2, limit: 2000 })
    expect(findings.map(formatFinding)).toEqual([])
  })

  const engine = nativeEngine()
  const targets = ['wasm', ...('unavailable' in engine ? [] : ['native'])]
  it.each(targets)('have the expected results on %s', async (target) => {
    expect(await contents(await openWorld({ target, ranks: 2 }))).toEqual(expected)
  })

  it.skipIf(why !== undefined)('have the expected results as emitted for a GPU', async () => {
    expect(await contents(openOnCpu(2))).toEqual(expected)
  })
})
