/**
 * Tests that the exported recording of real kernels conforms to the Trace Event Format, so that Perfetto and
 * chrome://tracing open it.
 */
import { f32, flags, kernel, openWorld, tensor } from 'arke'
import { describe, expect, it } from 'vitest'
import { nativeEngine } from '../../../src/targets/native/node.ts'
import { writeChrome } from '../../../src/timeline/chrome.ts'

const native = nativeEngine()
if ('unavailable' in native) console.warn(`skipped on native: ${native.unavailable}`)
const targets = 'unavailable' in native ? ['wasm'] : ['wasm', 'native']

/** Every rank sends its tile to the next rank, which waits for it and copies it to another tensor. */
const pass = kernel(
  'pass',
  { x: tensor(f32, 1), inbox: tensor(f32, 1), y: tensor(f32, 1), arrived: flags() },
  (t, { x, inbox, y, arrived }) => {
    const next = t.rank.add(1).mod(t.world)
    t.put(x.tile([0], [64]), inbox.on(next).tile([0], [64]))
    t.signal(arrived.on(next))
    t.wait(arrived)
    t.copy(inbox.tile([0], [64]), y.tile([0], [64]))
  },
)

interface TraceEvent {
  readonly ph: string
  readonly name: unknown
  readonly cat?: unknown
  readonly pid: unknown
  readonly tid?: unknown
  readonly ts?: unknown
  readonly dur?: unknown
  readonly id?: unknown
  readonly bp?: unknown
  readonly args?: unknown
}

const isTime = (value: unknown): boolean => typeof value === 'number' && Number.isFinite(value) && value >= 0

/** Describes how an event violates the format for its phase, or returns undefined if the event is valid. */
function problem(event: TraceEvent): string | undefined {
  if (typeof event.name !== 'string' || event.name === '') return 'no name'
  if (!Number.isInteger(event.pid)) return 'no process'
  if (event.args !== undefined && (typeof event.args !== 'object' || event.args === null)) return 'bad args'
  switch (event.ph) {
    case 'X':
      if (!Number.isInteger(event.tid)) return 'no thread'
      if (typeof event.cat !== 'string') return 'no category'
      return isTime(event.ts) && isTime(event.dur) ? undefined : 'no time'
    case 's':
    case 'f':
      if (!Number.isInteger(event.tid) || !isTime(event.ts)) return 'no place'
      if (typeof event.id !== 'string' && typeof event.id !== 'number') return 'no id'
      return event.ph === 's' || event.bp === 'e' ? undefined : 'it ends at the next slice'
    case 'M': {
      const args = event.args as Record<string, unknown>
      if (event.name.endsWith('_name')) return typeof args.name === 'string' ? undefined : 'nameless'
      if (event.name.endsWith('_sort_index'))
        return Number.isInteger(args.sort_index) ? undefined : 'unsorted'
      return 'metadata that the format does not know'
    }
    default:
      return `a phase ${event.ph}`
  }
}

describe.each(targets)('%s', (target) => {
  it('a recording is a valid trace with named tracks', async () => {
    const world = await openWorld({ target, ranks: 3, workers: 1, heap: 1 << 20, record: true })
    const arrived = world.flags([], { name: 'arrived' })
    const [x, inbox, y] = [world.full(f32, [64], 1), world.empty(f32, [64]), world.empty(f32, [64])]
    for (let n = 0; n < 10; n++) {
      world.launch(pass, { x, inbox, y, arrived }, { grid: 1 })
      await world.barrier()
    }
    const text = [...writeChrome(world.timeline())].join('')
    await world.close()

    const trace = JSON.parse(text) as {
      traceEvents: TraceEvent[]
      displayTimeUnit: string
    }
    expect(['ms', 'ns']).toContain(trace.displayTimeUnit)
    expect(trace.traceEvents.map(problem).filter((wrong) => wrong !== undefined)).toEqual([])

    const slices = trace.traceEvents.filter(({ ph }) => ph === 'X') as {
      name: string
      pid: number
      tid: number
      ts: number
      dur: number
    }[]
    const named = (what: string): Set<string> =>
      new Set(
        trace.traceEvents
          .filter(({ ph, name }) => ph === 'M' && name === what)
          .map(({ pid, tid }) =>
            what === 'process_name' ? `${String(pid)}` : `${String(pid)} ${String(tid)}`,
          ),
      )
    const [processes, threads] = [named('process_name'), named('thread_name')]
    for (const { pid, tid } of slices) {
      expect(processes).toContain(`${pid}`)
      expect(threads).toContain(`${pid} ${tid}`)
    }

    // Slices of a track must nest or follow each other, because viewers cannot draw others. The times in a trace are
    // decimal microseconds.
    const nanoseconds = (time: number): number => Math.round(time * 1000)
    for (const track of threads) {
      const own = slices.filter(({ pid, tid }) => `${pid} ${tid}` === track)
      const ends: number[] = []
      for (const { ts, dur } of own.sort((a, b) => a.ts - b.ts || b.dur - a.dur)) {
        const [start, end] = [nanoseconds(ts), nanoseconds(ts) + nanoseconds(dur)]
        while (ends.length > 0 && ends[ends.length - 1] <= start) ends.pop()
        if (ends.length > 0) expect(end).toBeLessThanOrEqual(ends[ends.length - 1])
        ends.push(end)
      }
    }

    // Every flow arrow has one start and one end, and the end is not before the start.
    const flows = new Map<string, { s?: number; f?: number }>()
    for (const { ph, id, ts } of trace.traceEvents)
      if (ph === 's' || ph === 'f') {
        const flow = flows.get(String(id)) ?? {}
        expect(flow[ph]).toBeUndefined()
        flows.set(String(id), { ...flow, [ph]: ts as number })
      }
    expect(flows.size).toBe(30)
    for (const { s, f } of flows.values()) expect(f!).toBeGreaterThanOrEqual(s!)

    const count = (pattern: RegExp): number => slices.filter(({ name }) => pattern.test(name)).length
    expect(count(/^pass$/)).toBe(30)
    expect(count(/^pass 0$/)).toBe(30)
    expect(count(/^copy with rank [012] at .*worldTrace\.test\.ts/)).toBe(30)
    expect(count(/^synchronize$/)).toBe(30)
  })
})
