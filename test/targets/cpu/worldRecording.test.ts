/** Tests the timeline of a recording world, and that many worlds in sequence reuse the same threads. */
import { flags, i32, kernel, tensor } from 'arke'
import { describe, expect, it } from 'vitest'
import { poolOf } from '../../../src/targets/cpu/pool.ts'
import { writeChrome } from '../../../src/timeline/chrome.ts'
import { end, eventsOf, Kind } from '../../../src/timeline/timeline.ts'
import { body, handmade, openHandmade } from './handmade.ts'
import { long } from '../../long.ts'

const work = kernel('work', { x: tensor(i32, 1), ready: flags() }, (t, { x, ready }) => {
  t.store(x.at([0]), t.program)
  t.signal(ready)
})
/** A program with a wait for parameter 1 of rank 0 and a copy of 256 bytes from rank 1. */
body(
  work,
  `const start = t.now(); t.sleep(2); const middle = t.now(); t.sleep(2); const end = t.now()
   t.record(2, 2, start, middle, 0, 1); t.record(3, 2, middle, end, 1, 256); t.record(1, 0, start, end, t.program, 0)`,
)

describe('a recording', () => {
  it('has tracks for launches, for programs, waits and copies, and for host calls', async () => {
    const world = openHandmade({ ranks: 2, workers: 1, record: true })
    const [x, ready] = [world.zeros(i32, [1]), world.flags([], { name: 'ready' })]
    for (let n = 0; n < 3; n++) world.launch(work, { x, ready }, { grid: 2 })
    await world.synchronize()
    const { ranks, names } = world.timeline()
    expect(ranks.map(({ rank, device }) => [rank, device])).toEqual([
      [0, 'handmade'],
      [1, 'handmade'],
    ])
    for (const { rank, events, tracks } of ranks) {
      const of = (role: string, kind: Kind): number[] =>
        tracks
          .filter((track) => track.role === role)
          .flatMap((track) => [...eventsOf(track)].filter((event) => events.kind[event] === kind))
      const launches = of('thread', Kind.launch)
      const kernels = of('stream', Kind.kernel)
      expect(kernels.map((event) => names[events.name[event]])).toEqual(['work', 'work', 'work'])
      expect(kernels.map((event) => events.launch[event])).toEqual(launches)
      for (const event of kernels)
        expect(events.start[event]).toBeGreaterThanOrEqual(events.start[events.launch[event]])
      // The launches of this run do not overlap.
      for (const at of [1, 2])
        expect(events.start[kernels[at]]).toBeGreaterThanOrEqual(end(events, kernels[at - 1]))
      const programs = of('worker', Kind.annotation)
      expect(programs.map((event) => names[events.name[event]])).toEqual(
        [0, 1, 0, 1, 0, 1].map((program) => `work ${program}`),
      )
      programs.forEach((event, at) => {
        const launch = kernels[Math.floor(at / 2)]
        expect(events.start[event]).toBeGreaterThanOrEqual(events.start[launch])
        expect(end(events, event)).toBeLessThanOrEqual(end(events, launch))
      })
      const waits = of('worker', Kind.wait)
      expect(waits).toHaveLength(6)
      expect(names[events.name[waits[0]]]).toMatch(
        /^wait for ready of rank 0 at .*worldRecording\.test\.ts:\d+/,
      )
      // A copy by rank 1 from rank 1 is not a transfer.
      expect(of('worker', Kind.transfer).map((event) => events.bytes.get(event))).toEqual(
        rank === 0 ? new Array(6).fill(256) : [],
      )
      expect(of('thread', Kind.synchronize)).toHaveLength(1)
    }
    expect(world.clockTick).toBeGreaterThan(0)
    await world.close()
  })

  it('is exported as a Chrome trace', async () => {
    const world = openHandmade({ ranks: 2, workers: 1, record: true })
    world.launch(work, { x: world.zeros(i32, [1]), ready: world.flags() }, { grid: 1 })
    await world.synchronize()
    const trace = JSON.parse([...writeChrome(world.timeline())].join('')) as {
      traceEvents: { ph: string; pid: number; tid: number; name: string; ts?: number; dur?: number }[]
    }
    const complete = trace.traceEvents.filter(({ ph }) => ph === 'X')
    expect(complete.filter(({ name }) => name === 'work').map(({ pid }) => pid)).toEqual([1, 2])
    for (const event of complete) expect([typeof event.ts, typeof event.dur]).toEqual(['number', 'number'])
    await world.close()
  })

  it('exists only if it was requested', async () => {
    const world = openHandmade({ ranks: 1 })
    expect(() => world.timeline()).toThrow('open it with record: true')
    await world.close()
  })
})

/** The memory use of the whole process is tested in test/world/many.ts. */
async function expectReuse(worlds: number): Promise<void> {
  const run = async (ranks: number): Promise<void> => {
    const world = openHandmade({ ranks, workers: 1 })
    const x = world.zeros(i32, [16])
    world.launch(work, { x, ready: world.flags() }, { grid: 0 })
    await world.synchronize()
    await world.close()
  }
  await run(3)
  const idle = poolOf(handmade.threads).idle
  for (let n = 0; n < worlds; n++) await run(1 + (n % 3))
  expect(poolOf(handmade.threads).idle).toBe(idle)
}

it('ten worlds reuse the threads of the first', () => expectReuse(10))

describe('a hundred worlds', () => {
  it('reuse the threads of the first', long, () => expectReuse(100))
})
