/** Tests the timelines of a recording CUDA world, using handwritten logs. */
import { describe, expect, it } from 'vitest'
import { i32, kernel, scalar, tensor } from '../../src/index.ts'
import { executionsOf, ledgerOf, pictureOf } from '../../src/runs/ledger.ts'
import { runPartNames } from '../../src/runs/results.ts'
import { onDevice } from '../../src/targets/gpu/clock.ts'
import type { LogMemory } from '../../src/targets/gpu/log.ts'
import { Recording, type RecordedKernel } from '../../src/targets/gpu/recording.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import { end, eventsOf, Kind, type RankTimeline, type Timeline } from '../../src/timeline/timeline.ts'
import { fakeDriver, words, type FakeKernel } from './fakeDriver.ts'
import { epoch, HandmadeLog, logBytes } from './handmadeLog.ts'

/** The memory of one event log, which begins at address 0. */
class HandmadeMemory implements LogMemory {
  readonly #bytes = new Uint8Array(logBytes)
  readonly log = new HandmadeLog(this.#bytes.buffer)
  read(address: bigint, bytes: number): Uint8Array<ArrayBuffer> {
    return this.#bytes.slice(Number(address), Number(address) + bytes)
  }
  clear(address: bigint, bytes: number): void {
    this.#bytes.fill(0, Number(address), Number(address) + bytes)
  }
}

/** A recording of ranks with one queue each. The host clock is `hostAhead` nanoseconds ahead of the device clock. */
function recordingOf(ranks: number, hostAhead = 0): { recording: Recording; logs: HandmadeLog[] } {
  let asked = 0
  const recording = new Recording(1, () => {
    const now = 10_000_000 * asked++
    return { host: now + hostAhead, device: epoch + BigInt(now) }
  })
  const memories = Array.from({ length: ranks }, () => new HandmadeMemory())
  memories.forEach((memory, rank) => recording.attach({ rank, stream: 0, address: 0n, memory, device: 0 }))
  return { recording, logs: memories.map(({ log }) => log) }
}

const work: RecordedKernel = {
  name: 'work',
  sites: [
    { line: 'work.ts:3', flags: 'arrived' },
    { line: 'work.ts:4', flags: undefined },
  ],
  flags: { arrived: { name: 'ready' } },
}
const gate: RecordedKernel = { name: 'gate', sites: [], flags: {} }

/** The events of one kind on the tracks of one role: name, start, end and bytes. */
function eventsIn({ names }: Timeline, rank: RankTimeline, role: string, kind: Kind): unknown[] {
  const { events, tracks } = rank
  const shift = Number(rank.base - epoch)
  return tracks
    .filter((track) => track.role === role)
    .flatMap((track) => [...eventsOf(track)].filter((event) => events.kind[event] === kind))
    .map((event) => [
      names[events.name[event]],
      events.start[event] + shift,
      end(events, event) + shift,
      ...(events.bytes.has(event) ? [events.bytes.get(event)] : []),
    ])
}

describe('a log', () => {
  it('becomes launches on the stream, and programs, waits and copies on multiprocessors', () => {
    const { recording, logs } = recordingOf(2, 500)
    for (const rank of [0, 1])
      for (const n of [0, 1])
        recording.launched({ rank, stream: 0 }, work, undefined, 1500 + 1000 * n, 1700 + 1000 * n)
    const [log] = logs
    log.event({ kind: 'wait', launch: 0, program: 0, sm: 7, start: 2100, end: 2300, who: 1 })
    log.event({
      ...{ kind: 'copy', site: 1, role: 1, launch: 0, program: 0, sm: 7 },
      ...{ start: 2300, end: 2400, who: 1, amount: 256 },
    })
    // A copy from the rank itself is not a transfer.
    log.event({
      ...{ kind: 'copy', site: 1, role: 1, launch: 0, program: 0, sm: 7 },
      ...{ start: 2400, end: 2450, who: 0, amount: 256 },
    })
    log.program({ launch: 0, program: 0, sm: 7, start: 2000, end: 3000 }, 2)
    log.program({ launch: 0, program: 1, sm: 9, start: 2050, end: 2900 }, 2)
    log.program({ launch: 1, program: 0, sm: 9, start: 4000, end: 5000 })
    logs[1].program({ launch: 0, program: 0, sm: 3, start: 2000, end: 2001 })
    logs[1].program({ launch: 1, program: 0, sm: 3, start: 2001, end: 2002 })
    recording.waited(3500, 6500)
    recording.collect()
    const timeline = recording.timeline([0, 1], 'cuda', () => 4)
    const [rank] = timeline.ranks
    expect(eventsIn(timeline, rank, 'stream', Kind.kernel)).toEqual([
      ['work', 2000, 3000],
      ['work', 4000, 5000],
    ])
    expect(eventsIn(timeline, rank, 'worker', Kind.annotation)).toEqual([
      ['work 0', 2000, 3000],
      ['work 1', 2050, 2900],
      ['work 0', 4000, 5000],
    ])
    expect(eventsIn(timeline, rank, 'worker', Kind.wait)).toEqual([
      ['wait for ready of rank 1 at work.ts:3', 2100, 2300],
    ])
    expect(eventsIn(timeline, rank, 'worker', Kind.transfer)).toEqual([
      ['copy with rank 1 at work.ts:4', 2300, 2400, 256],
    ])
    // Host times are converted to the device's clock.
    expect(eventsIn(timeline, rank, 'thread', Kind.launch)).toEqual([
      ['launch work', 1000, 1200],
      ['launch work', 2000, 2200],
    ])
    expect(eventsIn(timeline, rank, 'thread', Kind.synchronize)).toEqual([['synchronize', 3000, 6000]])
    // Four multiprocessors, and an additional role on one multiprocessor.
    expect(rank.tracks.filter(({ role }) => role === 'worker')).toHaveLength(5)
  })

  it('is read at each wait of the host, and launches continue to be counted', () => {
    const { recording, logs } = recordingOf(1)
    for (const turn of [0, 1, 2]) {
      recording.launched({ rank: 0, stream: 0 }, { ...work, name: `work${turn}` }, undefined, 0, 0)
      expect(logs[0].launches).toBe(0)
      const start = 1000 * turn
      logs[0].program({ launch: 0, program: 0, sm: 0, start, end: start + 10 })
      recording.collect()
    }
    const timeline = recording.timeline([0], 'cuda', () => 1)
    expect(eventsIn(timeline, timeline.ranks[0], 'stream', Kind.kernel)).toEqual([
      ['work0', 0, 10],
      ['work1', 1000, 1010],
      ['work2', 2000, 2010],
    ])
  })

  it('that was too small reports the number of lost events', () => {
    const { recording, logs } = recordingOf(1)
    for (let n = 0; n < 2; n++) recording.launched({ rank: 0, stream: 0 }, work, undefined, 0, 0)
    logs[0].program({ launch: 0, program: 0, sm: 0, start: 0, end: 10 })
    // The second launch has not ended, so the log contains no program of it.
    logs[0].lose(41)
    recording.collect()
    const timeline = recording.timeline([0], 'cuda', () => 1)
    expect(timeline.names).toContain(
      '42 events were lost because a log was full: synchronize more often while the world records',
    )
    expect(eventsIn(timeline, timeline.ranks[0], 'stream', Kind.kernel)).toHaveLength(1)
    expect(eventsIn(timeline, timeline.ranks[0], 'thread', Kind.launch)).toHaveLength(2)
  })

  it('gives concurrent programs of a multiprocessor different tracks', () => {
    const { recording, logs } = recordingOf(1)
    recording.launched({ rank: 0, stream: 0 }, work, undefined, 0, 0)
    const at = { launch: 0, sm: 5 }
    logs[0].event({ ...at, kind: 'wait', program: 0, start: 10, end: 90, who: 0 })
    logs[0].program({ ...at, program: 0, start: 0, end: 100 }, 3)
    logs[0].program({ ...at, program: 1, start: 5, end: 60 }, 3)
    logs[0].program({ ...at, program: 2, start: 60, end: 80 }, 3)
    recording.collect()
    const timeline = recording.timeline([0], 'cuda', () => 1)
    const [rank] = timeline.ranks
    const tracks = rank.tracks.filter(({ role }) => role === 'worker')
    expect(tracks.map(({ from, to }) => to - from)).toEqual([2, 2])
    // The multiprocessor counts as blocked only while none of its programs runs.
    const { parts } = ledgerOf(pictureOf(timeline, { from: 0, to: 100 }, { bandwidth: 1e9 }))
    expect(parts.wait).toBe(10)
    expect(parts.useful).toBe(90)
  })

  it('is cleared by a reset', () => {
    const { recording, logs } = recordingOf(1)
    recording.launched({ rank: 0, stream: 0 }, work, undefined, 0, 0)
    logs[0].program({ launch: 0, program: 0, sm: 0, start: 0, end: 10 })
    recording.clear()
    expect(logs[0].launches).toBe(0)
    recording.collect()
    const timeline = recording.timeline([0], 'cuda', () => 1)
    expect(timeline.ranks[0].events.length).toBe(0)
  })
})

describe("the host's clock", () => {
  const moments = [
    { host: 1000, device: epoch + 100n },
    { host: 3000, device: epoch + 2200n },
    { host: 4000, device: epoch + 3100n },
  ]
  it.each([
    ['at a moment', 3000, 2200],
    ['between two', 2000, 1150],
    ['between the last two', 3500, 2650],
    ['before the first', 900, 0],
    ['after the last', 4500, 3600],
  ])('is set by the device: %s', (_, host, device) => {
    expect(onDevice(moments, host, epoch)).toBe(device)
    expect(onDevice(moments.slice(0, 1), host, epoch)).toBe(host - 900)
  })
})

it('the ledger of an execution adds up to its wall', () => {
  const { recording, logs } = recordingOf(2)
  logs.forEach((log, rank) => {
    recording.launched({ rank, stream: 0 }, gate, undefined, 0, 100)
    recording.launched({ rank, stream: 0 }, work, undefined, 100, 200)
    recording.launched({ rank, stream: 0 }, gate, undefined, 200, 300)
    log.program({ launch: 0, program: 0, sm: 0, start: 1000, end: 2000 + rank })
    for (const program of [0, 1]) {
      const at = { launch: 1, program, sm: program }
      log.event({ ...at, kind: 'wait', start: 2500, end: 3000 + 100 * program, who: 1 - rank })
      log.program({ ...at, start: 2200, end: 4000 + 300 * rank }, 2)
    }
    log.program({ launch: 2, program: 0, sm: 0, start: 5000, end: 6000 })
  })
  recording.collect()
  const timeline = recording.timeline([0, 1], 'cuda', () => 4)
  const [execution] = executionsOf(timeline, 'gate')
  const { wall, ranks } = pictureOf(timeline, execution, { bandwidth: 1e9 })
  expect(wall).toBe(4300 - 2001)
  for (const { ledger } of ranks) {
    const sum = runPartNames.reduce((total, part) => total + ledger.parts[part], 0)
    expect(sum).toBeCloseTo(wall, 6)
  }
  // Two of four multiprocessors have a program, blocked for 500 and 600 ns. After the blocked programs, rank 0 waits
  // for rank 1 for 300 ns.
  expect(ranks[0].ledger.parts.wait).toBe((500 + 600) / 4 + 300)
  expect(ranks[0].ledger.parts.other).toBe((2 * 1800) / 4)
})

describe('a world that records events', () => {
  const put = kernel('put', { x: tensor(i32, 1), value: scalar(i32) }, (t, { x, value }) =>
    t.store(x.at([t.program]), value),
  )

  function open(): CudaWorld {
    let time = 0
    const kernels: Record<string, FakeKernel> = {
      read_clock: {
        params: 2,
        run: (launch) => {
          const told = new BigUint64Array(words(launch.pointer(0), 4).buffer)
          told[1] = 32n
          told[0] = epoch + BigInt(time)
          return true
        },
      },
      // The parameters of the kernel `put` are x, value and the event log.
      put: {
        params: 3,
        run: (launch) => {
          const log = HandmadeLog.at(launch.pointer(2))
          const number = log.launches
          for (let program = 0; program < launch.grid; program++)
            log.program(
              { launch: number, program, sm: program, start: time, end: time + 5 + launch.word(1) },
              launch.grid,
            )
          time += 100
          return true
        },
      },
    }
    const fake = fakeDriver({ kernels })
    const platform = { devices: [new Device(fake.driver, 0)], compile: () => new Uint8Array() }
    return new CudaWorld(platform, { ranks: 2, heap: 1 << 16, record: true })
  }

  it('contains every launch, including the launches of each graph replay', async () => {
    const world = open()
    const x = world.zeros(i32, [4], { name: 'x' })
    const graph = world.graph(() => {
      world.launch(put, { x, value: 1 }, { grid: 2 })
      world.launch(put, { x, value: 2 }, { grid: 1 })
    })
    world.launch(put, { x, value: 3 }, { grid: 1 })
    graph.launch()
    await world.synchronize()
    for (let replay = 0; replay < 2; replay++) graph.launch()
    await world.synchronize()
    const timeline = world.timeline()
    for (const rank of timeline.ranks) {
      const kernels = eventsIn(timeline, rank, 'stream', Kind.kernel) as [string, number, number][]
      expect(kernels.map(([name]) => name)).toEqual(new Array(7).fill('put'))
      expect(kernels.map(([, from, to]) => to - from - 5).sort()).toEqual([1, 1, 1, 2, 2, 2, 3])
      expect(eventsIn(timeline, rank, 'worker', Kind.annotation)).toHaveLength(1 + 3 * 3)
      expect(eventsIn(timeline, rank, 'thread', Kind.launch)).toHaveLength(7)
      expect(eventsIn(timeline, rank, 'thread', Kind.synchronize)).toHaveLength(2)
      const traffic = [...rank.events.traffic.values()].map(([{ name, written }]) => [name, written])
      expect(traffic.sort()).toEqual([4, 4, 4, 4, 8, 8, 8].map((bytes) => ['x', bytes]))
    }
    expect(world.clockTick).toBe(32)
    graph.close()
    await world.close()
  })

  it('starts an empty recording after a reset', async () => {
    const world = open()
    const x = world.zeros(i32, [4])
    world.launch(put, { x, value: 3 }, { grid: 1 })
    await world.reset()
    world.launch(put, { x, value: 4 }, { grid: 1 })
    await world.synchronize()
    const timeline = world.timeline()
    expect(eventsIn(timeline, timeline.ranks[0], 'stream', Kind.kernel)).toHaveLength(1)
    await world.close()
  })

  it('exists only if the world was opened with record', async () => {
    const platform = { devices: [new Device(fakeDriver().driver, 0)], compile: () => new Uint8Array() }
    const world = new CudaWorld(platform, { ranks: 1, heap: 1 << 16 })
    expect(() => world.timeline()).toThrow('open it with record: true')
    await world.close()
  })
})
