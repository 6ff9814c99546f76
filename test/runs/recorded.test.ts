/**
 * Tests the ledgers of real runs. The behaviour of the operations is known: the bytes that pass through memory, the
 * flags that are waited for, and the late rank. The ledger of the recorded timeline must show this behaviour.
 */
import { f32, flags, i32, kernel, openWorld, scalar, tensor, type World } from 'arke'
import { beforeAll, describe, expect, it } from 'vitest'
import { readArkeTrace } from '../../src/audit/arkeTrace.ts'
import { allGatherGemm, type AllGatherGemmVariant } from '../../src/ops/allGatherGemm/index.ts'
import { flashDecode, type FlashDecodeVariant } from '../../src/ops/flashDecode/index.ts'
import { executionsOf, ledgerOf, pictureOf } from '../../src/runs/ledger.ts'
import { type Picture, runPartNames } from '../../src/runs/results.ts'
import { writeChrome } from '../../src/timeline/chrome.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'

const RANKS = 2
const bandwidth = 10e9

const gate = kernel('allMeet', { arrived: flags(1) }, (t, { arrived }) => {
  t.signalAll(arrived.at([t.rank]))
  t.for(t.world, (source) => t.wait(arrived.at([source])))
})
/** A kernel that keeps a rank busy. */
const busy = (name: string) =>
  kernel(name, { x: tensor(f32, 1), turns: scalar(i32) }, (t, { x, turns }) => {
    t.store(
      x.at([0]),
      t.for(turns, t.constant(f32, 1), (_, x) => x.mul(0.999).add(0.001)),
    )
  })
const delay = busy('delay')

/** Runs the function that `prepare` returns a few times behind gates. */
async function record(prepare: (world: World) => () => void, ranks = RANKS): Promise<Timeline> {
  const world = await openWorld({ target: 'wasm', ranks, workers: 1, heap: 1 << 24, record: true })
  try {
    const arrived = world.flags([ranks], { name: 'arrived' })
    const launch = prepare(world)
    launch()
    await world.synchronize()
    for (let n = 0; n < 4; n++) {
      world.launch(gate, { arrived }, { grid: 1 })
      launch()
    }
    await world.synchronize()
    return world.timeline()
  } finally {
    await world.close()
  }
}
const picturesOf = (timeline: Timeline): Picture[] =>
  executionsOf(timeline, 'allMeet').map((execution) => pictureOf(timeline, execution, { bandwidth }))

function expectToAddUp(pictures: readonly Picture[]): void {
  expect(pictures).toHaveLength(4)
  for (const { wall, ranks } of pictures) {
    expect(wall).toBeGreaterThan(0)
    for (const { ledger, tracks } of ranks) {
      // In this run, there is one worker per rank, so the categories are sums of integers.
      expect(tracks).toHaveLength(1)
      expect(runPartNames.reduce((sum, part) => sum + ledger.parts[part], 0)).toBe(wall)
      expect(ledger.locality.time[1]).toBeLessThanOrEqual(ledger.parts.useful)
    }
  }
}
const spansOf = (pictures: readonly Picture[]) =>
  pictures.flatMap(({ ranks }) => ranks.flatMap(({ tracks }) => tracks.flatMap(({ spans }) => spans)))
const bytesOf = (pictures: readonly Picture[]): number[] =>
  pictures.flatMap(({ ranks }) => ranks.map(({ ledger }) => ledger.locality.bytes))

describe('all-gather and product', () => {
  const shape = { M: 24, N: 40, K: 96 }
  const gathered = shape.M * shape.K * Float32Array.BYTES_PER_ELEMENT
  const run = (variant: AllGatherGemmVariant): Promise<Timeline> =>
    record((world) => {
      const operation = allGatherGemm(world, { shape, dtype: 'f32', shard: 'K', variant })
      operation.fill(operation.random(1))
      return () => operation.launch()
    })

  it.each<[AllGatherGemmVariant, number, number]>([
    ['bsp', 2, gathered],
    ['pull', 1, 0],
    // The inbox is the gathered matrix without the rank's own shard, which is read directly from A.
    ['push', 2, gathered / RANKS],
    ['fused', 1, 0],
  ])('%s: %i kernels hand over %i bytes', async (variant, kernels, bytes) => {
    const timeline = await run(variant)
    for (const execution of executionsOf(timeline, 'allMeet'))
      expect(execution.kernels.map((ofRank) => ofRank.length)).toEqual([kernels, kernels])
    const pictures = picturesOf(timeline)
    expectToAddUp(pictures)
    expect(bytesOf(pictures)).toEqual(new Array(8).fill(bytes))
    const copied = spansOf(pictures).filter(({ part }) => part === 'transfer')
    if (variant !== 'pull')
      for (const { label } of copied)
        expect(label).toMatch(/^(copy with rank [01] at .*, \d+ bytes|allGather(K|GemmSendK) \d+)$/)
    // A kernel that only moves data has no useful time.
    const useful = spansOf(pictures).filter(({ part }) => part === 'useful')
    for (const { label } of useful) expect(label).not.toMatch(/^allGather(K|GemmSendK) /)
  })

  it('is the same from the exported trace', async () => {
    const timeline = await run('bsp')
    const text = new TextEncoder().encode([...writeChrome(timeline)].join(''))
    const { ranks, names, warnings } = await readArkeTrace(text)
    expect(warnings).toEqual([])
    const again = { ranks: ranks.map(({ timeline }) => timeline), names }
    expect(picturesOf(again)).toEqual(picturesOf(timeline))
  })
})

it('a worker without a program of the kernel has a track without work', async () => {
  const world = await openWorld({ target: 'wasm', ranks: 1, workers: 2, heap: 1 << 20, record: true })
  const x = world.zeros(f32, [1])
  world.launch(delay, { x, turns: 1000 }, { grid: 1 })
  await world.synchronize()
  const timeline = world.timeline()
  await world.close()
  const [from, to] = timeline.ranks[0].deviceSpan!
  const [{ tracks, ledger }] = pictureOf(timeline, { from, to }, { bandwidth }).ranks
  expect(tracks.map(({ name }) => name)).toEqual(['worker 0', 'worker 1'])
  const ran = tracks.filter(({ spans }) => spans.some(({ part }) => part === 'useful'))
  expect(ran).toHaveLength(1)
  // In this run, one worker has no program while the other worker runs a program; at the start and the end of the
  // kernel, neither worker runs a program.
  expect(ledger.parts.useful).toBeGreaterThan(0)
  expect(ledger.parts.other).toBe(ledger.parts.useful)
})

describe('a group of ranks', () => {
  const long = 10_000_000
  const turns = (rank: number): number => (rank === 0 ? long : 1000)

  it('that computes alone does not make the other ranks wait', async () => {
    const pictures = picturesOf(
      await record((world) => {
        const x = world.zeros(f32, [1])
        return () => world.group([0, 1]).launch(delay, { x, turns }, { grid: 1 })
      }, 4),
    ).filter(({ wall }) => wall > 0) // With few processors, a rank may leave the gate after the group's kernel ended.
    expect(pictures).not.toHaveLength(0)
    for (const { wall, ranks } of pictures)
      for (const { ledger, tracks } of ranks.slice(2)) {
        expect(ledger.parts).toEqual({ useful: 0, launch: 0, wait: 0, transfer: 0, other: wall })
        expect(tracks[0].spans.map(({ label }) => label)).toEqual(['no kernel runs on this rank'])
      }
    // Rank 1 has much less to do than rank 0 and waits for it, except in runs in which the thread of rank 1 got no
    // processor.
    const waits = pictures.map(({ ranks }) => ranks.map(({ ledger }) => ledger.parts.wait))
    expect(waits.some(([first, second]) => first === 0 && second > 0)).toBe(true)
  })

  it('waits for its own ranks only', async () => {
    const brief = busy('brief')
    const pictures = picturesOf(
      await record((world) => {
        const x = world.zeros(f32, [1])
        return () => {
          world.group([2, 3]).launch(brief, { x, turns: 100_000 }, { grid: 1 })
          world.group([0, 1]).launch(delay, { x, turns }, { grid: 1 })
        }
      }, 4),
    )
    // At the end of the window, ranks 2 and 3 have no work, unless they left the gate after ranks 0 and 1 ended.
    const lasts = pictures.map(({ ranks }) => ranks.slice(2).map(({ tracks }) => tracks[0].spans.at(-1)))
    const vacant = { part: 'other', label: 'no more work to run' }
    expect(lasts).toContainEqual([expect.objectContaining(vacant), expect.objectContaining(vacant)])
  })
})

describe('flash decode', () => {
  const shape = { batch: 2, queryHeads: 8, kvHeads: 2, D: 16, tokens: 64 }
  /** Bytes of one rank's partial sums, maxima and softmax sums. */
  const partials = shape.batch * shape.queryHeads * (shape.D + 2) * Float32Array.BYTES_PER_ELEMENT

  it.each<[FlashDecodeVariant, number]>([
    // A rank's own partial results are passed to the gather kernel, and the partial results of all ranks are passed to
    // the combine kernel.
    ['bsp', partials + RANKS * partials],
    ['gather-kernel', partials + RANKS * partials],
    ['fine-grained', partials + RANKS * partials],
    ['fused-coarse', 0],
    ['fused', 0],
  ])('%s: kernels hand over %i bytes', async (variant, bytes) => {
    const timeline = await record((world) => {
      const operation = flashDecode(world, { shape, dtype: 'f32', variant })
      operation.fill(operation.random(1))
      return () => operation.launch()
    })
    const pictures = picturesOf(timeline)
    expectToAddUp(pictures)
    expect(bytesOf(pictures)).toEqual(new Array(8).fill(bytes))
  })
})

describe('a late rank', () => {
  const shape = { M: 16, N: 16, K: 64 }
  let late: Readonly<Record<'bsp' | 'fused', Picture[]>>
  beforeAll(async () => {
    const run = async (variant: AllGatherGemmVariant): Promise<Picture[]> =>
      picturesOf(
        await record((world) => {
          const operation = allGatherGemm(world, { shape, dtype: 'f32', shard: 'K', variant })
          operation.fill(operation.random(1))
          const x = world.zeros(f32, [1])
          return () => {
            world.launch(delay, { x, turns: 2_000_000 }, { grid: 1, ranks: [1] })
            operation.launch()
          }
        }),
      )
    late = { bsp: await run('bsp'), fused: await run('fused') }
  })

  it.each(['bsp', 'fused'] as const)('makes the other one wait, in %s', (variant) => {
    const pictures = late[variant]
    expectToAddUp(pictures)
    // During the delay of the late rank, the other rank has little other work. The first executions also load kernels.
    const isWaitedFor = ({ ranks: [punctual, delayed] }: Picture): boolean => {
      const spans = delayed.tracks[0].spans.filter(({ label }) => label === 'delay 0')
      const delay = spans.reduce((sum, { from, to }) => sum + to - from, 0)
      return punctual.ledger.parts.wait > Math.max(delay / 2, delayed.ledger.parts.wait)
    }
    expect(pictures.some(isWaitedFor)).toBe(true)
  })

  it('is waited for at its flag', () => {
    const flagsOf = (pictures: readonly Picture[]): Set<string> =>
      new Set(
        spansOf(pictures).flatMap(({ part, label }) =>
          part === 'wait' ? (/^wait for (\w+) of rank 0/.exec(label)?.slice(1) ?? []) : [],
        ),
      )
    expect(flagsOf(late.bsp)).toContain('entered')
    expect(flagsOf(late.fused)).toEqual(new Set(['arrived']))
  })

  it('shows up in the mean of the ranks', () => {
    for (const picture of late.fused) {
      const mean = ledgerOf(picture)
      const [first, second] = picture.ranks.map(({ ledger }) => ledger.parts.wait)
      expect(mean.parts.wait).toBe((first + second) / 2)
      expect(mean.wall).toBe(picture.wall)
    }
  })
})
