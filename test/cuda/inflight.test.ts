/**
 * Copies in flight on a GPU: which copies TMA and cp.async make, which instructions `quiet` becomes, what the checker
 * finds without the inserted fences and waits, and that the text compiles.
 * test/targets/primitives/copiesInFlight.test.ts runs these kernels.
 */
import { describe, expect, it } from 'vitest'
import type { Kernel } from '../../src/index.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'
import { compileTogether, noCompiler } from './compile.ts'
import { between, bodyOf, emit } from './emitting.ts'
import {
  byRole,
  byThreads,
  contents,
  fetchings,
  fetchingOperands,
  fetchOperands,
  fetchTiles,
  send,
  sending,
  storing,
  swizzled,
} from './inFlightKernels.ts'

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

  it('fetches chunks by all threads, and each thread waits for its own before the thread barrier', () => {
    const text = bodyOf(emit(record(fetchTiles), [64, 64]))
    const loop = between(text, 'for (i32', '\n  }')
    const places = ['fetch<16>(', 'shared_load<', 'fetches_arrived();', '__syncthreads();'].map((step) =>
      loop.lastIndexOf(step),
    )
    expect(places).toEqual([...places].sort((a, b) => a - b))
    expect(places[0]).toBeGreaterThan(0)
    // Tiles of 12 f16 have rows of 24 bytes.
    expect(text.match(/fetch<\d+>/g)).toEqual(['fetch<8>', 'fetch<16>', 'fetch<16>', 'fetch<16>'])
    expect(text.match(/fetches_arrived/g)).toHaveLength(2)
  })

  it('fetches the chunks that the extents allow', () => {
    const chunks = (W: number, extents: readonly number[]): string[] | null => {
      const ir = (fetchTiles as unknown as Kernel).record({ world: 2, meta: { W } })
      return bodyOf(emit(ir, extents)).match(/fetch<\d+>/g)
    }
    expect(chunks(10, [64, 64])).toEqual(['fetch<4>', 'fetch<8>', 'fetch<8>', 'fetch<8>'])
    expect(chunks(12, [64, 33])).toEqual(['fetch<4>', 'fetch<4>', 'fetch<4>'])
    expect(chunks(9, [64, 64])).toEqual(['fetch<4>', 'fetch<4>', 'fetch<4>'])
  })

  it('makes what was fetched visible to the matrix unit', () => {
    const text = bodyOf(emit(record(fetchOperands)))
    const places = ['fetches_arrived();', '__syncthreads();', 'fence_async_shared();', 'wgmma_fence();'].map(
      (step) => text.indexOf(step, text.indexOf('fetches_arrived')),
    )
    expect(places).toEqual([...places].sort((a, b) => a - b))
    expect(places[0]).toBeGreaterThan(0)
  })

  it('records a fetch from another rank at the wait for it', () => {
    const text = bodyOf(emit(record(fetchTiles), [64, 64], { record: true }))
    expect(text.match(/fetched_from_\d = /g)!.length).toBeGreaterThan(2)
    expect(text).toMatch(/fetches_arrived\(\);[^]*write_event\([^;]*fetched_bytes_\d, fetch_start, time_now/)
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
    const kernels = [
      ...[record(send), record(byRole, 1), record(swizzled, 1), record(byThreads)],
      ...[record(fetchTiles), record(fetchOperands)],
    ].flatMap((one) => [emit(one), emit(one, [129, 33]), emit(one, [4096, 4096], { record: true })])
    const compiled = compileTogether(kernels)
    const [first, , , , , , third] = compiled
    expect(compiled[12].ptx).toContain('cp.async.cg.shared.global')
    expect(compiled[13].ptx).toContain('cp.async.ca.shared.global')
    expect(first.ptx).toContain('cp.async.bulk.tensor.3d.global.shared::cta.bulk_group')
    expect(third.ptx).toContain('cp.async.bulk.tensor.2d.global.shared::cta.bulk_group')
  })
})

// Kernels after the last IR stage, executed in the checker

/** The kinds of the findings if the nodes that `isDropped` selects are left out. */
const findings = async (
  subject: Scenario,
  isDropped: (node: Node) => boolean,
  by = 'engine',
): Promise<string[]> => {
  let marked = 0
  const form = (recorded: KernelIR, shapes: Shapes): KernelIR => {
    const ir = atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))
    for (const { op, attributes } of walk(ir.body)) if (op === 'copy.nbi' && attributes.by === by) marked++
    return { ...ir, body: new Copier((node) => (isDropped(node) ? 'drop' : undefined)).copyBlock(ir.body) }
  }
  const explored = await explore(subject, { ranks: subject.ranks[0], stage: form, schedules: 3 })
  expect(marked).toBeGreaterThan(0)
  return [...new Set(explored.findings.map(({ kind }) => kind))]
}
const isFence = ({ op }: Node): boolean => op === 'fence.async'

describe('the last stage', () => {
  const waitsFor = (of: 'reads' | undefined) => (node: Node) =>
    node.op === 'drain' && node.attributes.of === of

  it('has no finding, and a race without its fences or without one of its waits', async () => {
    for (const subject of [sending, storing]) {
      expect(await findings(subject, () => false)).toEqual([])
      // The last wait of the kernel `storing` is at the end of its role, because the next kernel relies on this wait.
      for (const isDropped of [isFence, waitsFor('reads'), waitsFor(undefined)])
        expect(await findings(subject, isDropped)).toEqual(['race'])
    }
  })
})

describe('the last stage of a kernel that fetches', () => {
  it('has no finding, and a race without the waits of threads or without the fence', async () => {
    for (const subject of fetchings) expect(await findings(subject, () => false, 'threads')).toEqual([])
    expect(await findings(fetchingOperands, () => false, 'threads')).toEqual([])
    const isWait = ({ op, attributes }: Node): boolean => op === 'drain' && attributes.by === 'threads'
    for (const subject of [fetchings[0], fetchingOperands])
      expect(await findings(subject, isWait, 'threads')).toContain('race')
    expect(await findings(fetchingOperands, isFence, 'threads')).toEqual(['race'])
  })
})

describe('copies by threads', () => {
  it('have no finding', async () => {
    const subject = scenario('by threads', { ranks: 2 }, (world) => contents(world))
    const { findings } = await explore(subject, { ranks: 2, preemptions: 2, limit: 2000 })
    expect(findings.map(formatFinding)).toEqual([])
  })
})
