/**
 * The division of a rank's time, compared with a naive implementation of the definitions that checks every nanosecond
 * separately.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { idleParts, partNames, type Part, type Partition } from '../../src/taxes/ledger.ts'
import { partitionOf, recordedSpan } from '../../src/taxes/partition.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { total } from '../../src/timeline/intervals.ts'
import { Kind, NONE, type RankTimeline, type Timeline } from '../../src/timeline/timeline.ts'

interface Host {
  readonly kind: Kind
  readonly thread: number
  readonly from: number
  readonly to: number
  readonly wait?: boolean
}
interface Device {
  readonly kind: Kind
  readonly stream: number
  readonly from: number
  readonly to: number
  /** The index of the host event that launched the device event. */
  readonly launch?: number
}

function build(host: readonly Host[], device: readonly Device[]): Timeline {
  const builder = new TimelineBuilder()
  const rank = builder.rank(0)
  const [plain, wait] = [builder.intern('plain'), builder.intern('cudaStreamWaitEvent')]
  const calls = host.map(({ kind, thread, from, to, wait: waits }) =>
    rank.add(kind, rank.track('thread', 1, thread), waits ? wait : plain, from, to - from),
  )
  for (const { kind, stream, from, to, launch } of device) {
    const event = rank.add(kind, rank.track('stream', 0, stream), plain, from, to - from)
    if (launch !== undefined) rank.linkLaunch(event, calls[launch])
  }
  return builder.freeze()
}

const nothing = { waiting: new Float64Array(0), transferring: new Float64Array(0) }
const partition = (timeline: Timeline, communication = nothing): Partition => {
  const [rank] = timeline.ranks
  return partitionOf(rank, timeline.names, recordedSpan(rank) ?? [0, 0], communication)
}
const totals = (of: Partition): Partial<Record<Part, number>> =>
  Object.fromEntries(
    partNames
      .map((part) => [part, total(of.processors[0].parts[part])])
      .filter(([, time]) => (time as number) > 0),
  )

const op = (from: number, to: number, thread = 0): Host => ({ kind: Kind.operator, thread, from, to })
const call = (from: number, to: number, thread = 0): Host => ({ kind: Kind.launch, thread, from, to })
const sync = (from: number, to: number, thread = 0): Host => ({ kind: Kind.synchronize, thread, from, to })
const waitEvent = (from: number, to: number): Host => ({
  kind: Kind.runtime,
  thread: 0,
  from,
  to,
  wait: true,
})
const kernel = (from: number, to: number, launch?: number, stream = 0): Device => ({
  kind: Kind.kernel,
  stream,
  from,
  to,
  launch,
})

describe('idle time', () => {
  it('is a gap when the next kernel is enqueued', () => {
    expect(
      totals(partition(build([call(0, 5), call(5, 9)], [kernel(10, 20, 0), kernel(23, 30, 1)]))),
    ).toEqual({
      compute: 17,
      gap: 3,
    })
  })
  it('is dispatch while the host is inside the operator that launches it', () => {
    const host = [call(0, 5), op(15, 40), call(30, 35)]
    expect(totals(partition(build(host, [kernel(10, 20, 0), kernel(38, 50, 2)])))).toEqual({
      compute: 22,
      dispatch: 15,
      gap: 3,
    })
  })
  it('is blocked in a synchronising call, though an operator is around it', () => {
    const host = [call(0, 5), op(0, 60), sync(6, 30), call(40, 45)]
    expect(totals(partition(build(host, [kernel(10, 20, 0), kernel(45, 50, 3)])))).toEqual({
      compute: 15,
      hostBlocked: 10,
      dispatch: 15,
    })
  })
  it('is absence when no thread that enqueues work is running anything', () => {
    const host = [call(0, 5), call(40, 45), op(22, 30, 1)]
    expect(totals(partition(build(host, [kernel(10, 20, 0), kernel(45, 50, 1)])))).toEqual({
      compute: 15,
      hostAbsent: 20,
      dispatch: 5,
    })
  })
  it('is dispatch when another thread that enqueues work is inside operators', () => {
    const host = [call(0, 5, 1), call(40, 45), op(22, 30, 1)]
    expect(totals(partition(build(host, [kernel(10, 20, 0), kernel(45, 50, 1)])))).toEqual({
      compute: 15,
      hostAbsent: 12,
      dispatch: 13,
    })
  })
  it('is dependency when the stream was told to wait just before', () => {
    const host = [call(0, 3), waitEvent(3, 4), call(4, 6)]
    expect(totals(partition(build(host, [kernel(10, 20, 0), kernel(26, 30, 2, 1)])))).toEqual({
      compute: 14,
      dependency: 6,
    })
  })
  it('is a gap between the kernels of a graph, whatever the graph waited for', () => {
    const host = [call(0, 3), waitEvent(3, 4), call(4, 6)]
    const graph = [kernel(26, 30, 2, 1), kernel(31, 40, 2, 1), kernel(42, 50, 2, 1)]
    expect(totals(partition(build(host, [kernel(10, 20, 0), ...graph])))).toEqual({
      compute: 31,
      dependency: 6,
      gap: 3,
    })
  })
  it('is a gap when a blocking copy came after the wait, since the wait was for the copy', () => {
    const host = [call(0, 2), waitEvent(2, 3), sync(3, 25), call(25, 26)]
    const copy: Device = { kind: Kind.memcpy, stream: 0, from: 12, to: 24, launch: 2 }
    expect(totals(partition(build(host, [kernel(5, 12, 0), copy, kernel(30, 40, 3)])))).toEqual({
      compute: 17,
      copy: 12,
      hostBlocked: 1,
      dispatch: 1,
      gap: 4,
    })
  })
  it('is dependency although the host waited for the device in between, which enqueues nothing', () => {
    const host = [call(0, 2), waitEvent(2, 3), sync(3, 25), call(25, 26)]
    expect(totals(partition(build(host, [kernel(5, 24, 0), kernel(30, 40, 3)])))).toEqual({
      compute: 29,
      hostBlocked: 1,
      dispatch: 1,
      dependency: 4,
    })
  })
  it('is dispatch inside a blocking copy that has not begun on the device', () => {
    const host = [call(0, 3), sync(22, 40)]
    const copy: Device = { kind: Kind.memcpy, stream: 0, from: 28, to: 40, launch: 1 }
    expect(totals(partition(build(host, [kernel(10, 20, 0), copy])))).toEqual({
      compute: 10,
      copy: 12,
      hostAbsent: 2,
      dispatch: 6,
    })
  })
  it('is unattributed before work without a recorded launch', () => {
    expect(totals(partition(build([call(0, 5)], [kernel(10, 20, 0), kernel(25, 30)])))).toEqual({
      compute: 15,
      unattributed: 5,
    })
  })
})

it('work from before the recording is outside the window; a trace without launches is used whole', () => {
  const [rank] = build([call(30, 35)], [kernel(0, 10), kernel(12, 20), kernel(40, 90, 0)]).ranks
  expect(recordedSpan(rank)).toEqual([40, 90])
  const [mostly] = build([call(30, 35)], [kernel(0, 10), kernel(12, 20), kernel(40, 50, 0)]).ranks
  expect(recordedSpan(mostly)).toEqual([0, 50])
  const [alone] = build([], [kernel(5, 10), kernel(12, 20)]).ranks
  expect(recordedSpan(alone)).toEqual([0, 15])
  expect(recordedSpan(build([call(0, 5)], []).ranks[0])).toBeNull()
})

/** The category of the nanosecond that begins at `time`, computed directly from the definitions. */
function partAt(
  rank: RankTimeline,
  names: readonly string[],
  time: number,
  waiting: ReadonlySet<number>,
  transferring: ReadonlySet<number>,
): Part {
  const { length, start, duration, kind, track, launch, name } = rank.events
  const all = Array.from({ length }, (_, event) => event)
  const isAt = (event: number, when = time): boolean =>
    start[event] <= when && when < start[event] + duration[event]
  const running = all.filter((event) => kind[event] <= Kind.communication && isAt(event))
  if (running.some((event) => kind[event] === Kind.kernel || kind[event] === Kind.memset)) return 'compute'
  if (running.some((event) => kind[event] === Kind.communication)) {
    if (transferring.has(time)) return 'transfer'
    return waiting.has(time) ? 'wait' : 'communication'
  }
  if (running.length > 0) return 'copy'

  const later = all.filter(
    (event) => kind[event] <= Kind.communication && duration[event] > 0 && start[event] > time,
  )
  const soonest = Math.min(...later.map((event) => start[event]))
  const next = later.find((event) => start[event] === soonest && launch[event] !== NONE)
  if (next === undefined) return 'unattributed'
  const by = launch[next]
  if (time >= start[by] + duration[by]) {
    const ahead = all.filter(
      (event) => event < next && track[event] === track[next] && kind[event] <= Kind.communication,
    )
    // If a launch has several kernels, only its first kernel waited for the event that the host requested.
    if (ahead.length > 0 && launch[ahead[ahead.length - 1]] === by) return 'gap'
    // A wait that the host requested applies to the work that the host enqueued next.
    const enqueuing = all.filter(
      (event) =>
        event < by && track[event] === track[by] && (kind[event] === Kind.launch || launch.includes(event)),
    )
    const since = Math.max(-1, ...enqueuing)
    const told = all.some(
      (event) =>
        event > since && event < by && track[event] === track[by] && /StreamWait/.test(names[name[event]]),
    )
    return told ? 'dependency' : 'gap'
  }
  if (kind[by] === Kind.synchronize && time >= start[by]) return 'dispatch'
  const host = (of: number, ...kinds: Kind[]): boolean =>
    all.some((event) => track[event] === of && kinds.includes(kind[event] as Kind) && isAt(event))
  const busyKinds = [Kind.launch, Kind.runtime, Kind.operator]
  if (host(track[by], Kind.synchronize)) return 'hostBlocked'
  if (host(track[by], ...busyKinds)) return 'dispatch'
  const enqueuing = rank.tracks
    .map((_, i) => i)
    .filter((i) => all.some((event) => track[event] === i && kind[event] === Kind.launch))
  if (enqueuing.some((i) => host(i, ...busyKinds) && !host(i, Kind.synchronize))) return 'dispatch'
  if (enqueuing.some((i) => host(i, Kind.synchronize))) return 'hostBlocked'
  return 'hostAbsent'
}

describe('any timeline', () => {
  const span = fc
    .tuple(fc.nat(90), fc.integer({ min: 1, max: 25 }))
    .map(([from, length]) => ({ from, to: from + length }))
  const host = fc.record({
    span,
    kind: fc.constantFrom(Kind.operator, Kind.launch, Kind.synchronize, Kind.runtime),
    thread: fc.nat(1),
    wait: fc.boolean(),
  })
  const device = fc.record({
    span,
    kind: fc.constantFrom(Kind.kernel, Kind.kernel, Kind.memcpy, Kind.memset, Kind.communication),
    stream: fc.nat(2),
    launch: fc.option(fc.nat(30), { nil: undefined, freq: 6 }),
  })

  it('every nanosecond is in the part that the definitions require', () => {
    fc.assert(
      fc.property(
        fc.array(host, { maxLength: 10 }),
        fc.array(device, { minLength: 1, maxLength: 8 }),
        fc.array(span, { maxLength: 3 }),
        fc.array(span, { maxLength: 3 }),
        (hosts, devices, waits, transfers) => {
          const calls = hosts.map(({ span: { from, to }, kind, thread, wait }): Host => ({
            kind,
            thread,
            from,
            to,
            wait: wait && kind === Kind.runtime,
          }))
          const enqueuing = calls.flatMap(({ kind }, i) =>
            kind === Kind.launch || kind === Kind.synchronize ? i : [],
          )
          const work = devices.map(({ span: { from, to }, kind, stream, launch }): Device => ({
            kind,
            stream,
            from,
            to,
            launch:
              launch === undefined || enqueuing.length === 0
                ? undefined
                : enqueuing[launch % enqueuing.length],
          }))
          const timeline = build(calls, work)
          const [rank] = timeline.ranks
          const window = recordedSpan(rank)
          if (!window) return
          const sets = (spans: readonly { from: number; to: number }[]) => {
            const times = new Set(
              spans.flatMap(({ from, to }) => Array.from({ length: to - from }, (_, i) => from + i)),
            )
            const sorted = [...times].sort((a, b) => a - b)
            const edges = sorted.flatMap((time) => [
              ...(times.has(time - 1) ? [] : [time]),
              ...(times.has(time + 1) ? [] : [time + 1]),
            ])
            return { times, intervals: Float64Array.from(edges) }
          }
          const [waiting, transferring] = [sets(waits), sets(transfers)]
          const {
            processors: [found],
          } = partitionOf(rank, timeline.names, window, {
            waiting: waiting.intervals,
            transferring: transferring.intervals,
          })
          for (let time = window[0]; time < window[1]; time++) {
            const parts = partNames.filter((part) => {
              const set = found.parts[part]
              for (let i = 0; i < set.length; i += 2) if (set[i] <= time && time < set[i + 1]) return true
              return false
            })
            expect(parts, `at ${time}`).toEqual([
              partAt(rank, timeline.names, time, waiting.times, transferring.times),
            ])
          }
          const sum = partNames.reduce((all, part) => all + total(found.parts[part]), 0)
          expect(sum).toBe(window[1] - window[0])
        },
      ),
      { seed: 20260, numRuns: 600 },
    )
  })

  it('has all of its idle parts among the parts', () => {
    expect(idleParts.every((part) => partNames.includes(part))).toBe(true)
  })
})
