/** Tests the timeline: order, links, times, and sets of time, which are compared with counting single nanoseconds. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { Column, float64, signed, together, unsigned } from '../../src/timeline/columns.ts'
import { sortBy } from '../../src/timeline/sort.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import {
  activity,
  clip,
  complement,
  difference,
  intersection,
  total,
  union,
  unionInOrder,
} from '../../src/timeline/intervals.ts'
import {
  end,
  eventsOf,
  Kind,
  NONE,
  offsetBetween,
  sequenceOf,
  streams,
  threads,
} from '../../src/timeline/timeline.ts'

describe('building a timeline', () => {
  it('orders each track by start and keeps links', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(3)
    const stream = rank.track('stream', 0, 7)
    const thread = rank.track('thread', 100, 101)
    const late = rank.add(Kind.kernel, stream, builder.intern('late'), 500, 10)
    const operator = rank.add(Kind.operator, thread, builder.intern('aten::mm'), 90, 50)
    const launch = rank.add(Kind.launch, thread, builder.intern('cudaLaunchKernel'), 100, 5)
    const early = rank.add(Kind.kernel, stream, builder.intern('early'), 200, 10)
    rank.linkLaunch(late, launch)
    rank.linkOperator(launch, operator)
    rank.linkLaunch(early, launch)
    rank.base = 1_700_000_000_000_000_000n

    const { ranks, names } = builder.freeze()
    const [made] = ranks
    const { events } = made
    const text = (event: number): string => names[events.name[event]]
    const [only] = streams(made)
    expect([...eventsOf(only)].map(text)).toEqual(['early', 'late'])
    expect([...eventsOf(threads(made)[0])].map(text)).toEqual(['aten::mm', 'cudaLaunchKernel'])
    for (const event of eventsOf(only)) {
      expect(text(events.launch[event])).toBe('cudaLaunchKernel')
      expect(text(events.operator[events.launch[event]])).toBe('aten::mm')
      expect(events.operator[event]).toBe(NONE)
    }
    expect(made.base).toBe(1_700_000_000_000_000_090n)
    expect(events.start[only.from]).toBe(110)
    expect(end(events, only.from)).toBe(120)
    expect(made.deviceSpan).toEqual([110, 420])
  })

  it('is ordered and linked as drawn, whatever the order of adding', () => {
    const drawn = fc.array(
      fc.record({ track: fc.nat(3), start: fc.integer({ min: -1000, max: 1000 }), duration: fc.nat(50) }),
      { maxLength: 60 },
    )
    fc.assert(
      fc.property(drawn, (list) => {
        const builder = new TimelineBuilder()
        const rank = builder.rank(0)
        const tracks = [0, 1, 2, 3].map((id) => rank.track('stream', 0, id))
        list.forEach(({ track, start, duration }, i) =>
          rank.add(Kind.kernel, tracks[track], builder.intern(`${i}`), start, duration),
        )
        list.forEach((_, i) => rank.linkLaunch(i, (i * 7) % list.length))
        const { ranks, names } = builder.freeze()
        const [{ events, base, ...made }] = ranks
        const original = (event: number): number => Number(names[events.name[event]])
        for (const track of made.tracks)
          for (const event of eventsOf(track)) {
            const { start, duration } = list[original(event)]
            expect(made.tracks[events.track[event]].id).toBe(list[original(event)].track)
            expect(Number(base) + events.start[event]).toBe(start)
            expect(events.duration[event]).toBe(duration)
            expect(original(events.launch[event])).toBe((original(event) * 7) % list.length)
            if (event > track.from)
              expect(events.start[event]).toBeGreaterThanOrEqual(events.start[event - 1])
          }
      }),
      { numRuns: 200 },
    )
  })

  it('keeps the communication record that was set last', () => {
    const numbers = fc.integer({ min: NONE, max: 5 })
    fc.assert(
      fc.property(fc.array(fc.tuple(fc.nat(9), numbers, numbers), { maxLength: 40 }), (said) => {
        const builder = new TimelineBuilder()
        const rank = builder.rank(0)
        const track = rank.track('stream', 0, 0)
        // Events are added in reverse order, so that freezing the timeline changes their order.
        for (let i = 0; i < 10; i++) rank.add(Kind.communication, track, builder.intern('k'), 9 - i, 1)
        const expected = Array.from({ length: 10 }, () => [NONE, NONE])
        for (const [event, communication, sequence] of said) {
          rank.setCommunication(event, communication, sequence)
          expected[9 - event] = [communication, sequence]
        }
        const [{ events }] = builder.freeze().ranks
        expect(expected.map((_, i) => [events.communication[i], sequenceOf(events, i)])).toEqual(expected)
      }),
      { seed: 44 },
    )
  })

  it('refuses a duplicate rank, and times that are not exact integers', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    expect(() => builder.rank(0)).toThrow('already')
    const track = rank.track('stream', 0, 0)
    for (const [start, duration] of [
      [0.5, 1],
      [0, -1],
      [2 ** 53, 0],
      [2 ** 53 - 1, 1],
      [0, NaN],
    ])
      expect(() => rank.add(Kind.kernel, track, 0, start, duration)).toThrow(RangeError)
  })

  it('compares ranks with different bases exactly', () => {
    const builder = new TimelineBuilder()
    for (const rank of [0, 1]) {
      const one = builder.rank(rank)
      one.base = 1_682_725_898_236_567_001n + BigInt(rank) * 3n
      one.add(Kind.kernel, one.track('stream', 0, 0), builder.intern('k'), 0, 1)
    }
    const [a, b] = builder.freeze().ranks
    expect(offsetBetween(b, a)).toBe(3)
    expect(offsetBetween(a, b)).toBe(-3)
  })

  it('takes at most 60 bytes per event', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    const track = rank.track('stream', 0, 0)
    for (let i = 0; i < 1000; i++) rank.add(Kind.kernel, track, 0, i, 1)
    const [{ events }] = builder.freeze().ranks
    const columns = Object.values(events).filter((column) => ArrayBuffer.isView(column))
    expect(
      columns.reduce((sum: number, { byteLength }: ArrayBufferView) => sum + byteLength, 0),
    ).toBeLessThanOrEqual(60 * 1000)
  })
})

describe('sets of time', () => {
  const SIZE = 60
  const set = fc.array(fc.tuple(fc.nat(SIZE - 1), fc.nat(12)), { maxLength: 12 }).map((pairs) => {
    const sorted = [...pairs].sort(([a], [b]) => a - b)
    const cells = Array.from({ length: SIZE + 20 }, (_, at) => pairs.some(([s, d]) => s <= at && at < s + d))
    const starts = sorted.map(([start]) => start)
    const durations = sorted.map(([, duration]) => duration)
    return { cells, intervals: unionInOrder(starts, durations, 0, sorted.length) }
  })
  /** The intervals (start and end of each) of consecutive cells that are true, found by a linear scan. */
  const intervalsOf = (cells: boolean[]): number[] => {
    const out: number[] = []
    cells.forEach((inside, at) => {
      if (inside !== (cells[at - 1] ?? false)) out.push(at)
    })
    return out
  }

  it('agree with counting nanoseconds', () => {
    fc.assert(
      fc.property(set, set, fc.nat(SIZE), fc.nat(SIZE), (a, b, from, to) => {
        const by = (rule: (at: number) => boolean): number[] => intervalsOf(a.cells.map((_, at) => rule(at)))
        const window = (at: number): boolean => from <= at && at < to
        expect([...a.intervals]).toEqual(by((at) => a.cells[at]))
        expect(total(a.intervals)).toBe(a.cells.filter(Boolean).length)
        expect([...union(a.intervals, b.intervals)]).toEqual(by((at) => a.cells[at] || b.cells[at]))
        expect([...intersection(a.intervals, b.intervals)]).toEqual(by((at) => a.cells[at] && b.cells[at]))
        expect([...difference(a.intervals, b.intervals)]).toEqual(by((at) => a.cells[at] && !b.cells[at]))
        expect([...complement(a.intervals, from, to)]).toEqual(by((at) => window(at) && !a.cells[at]))
        expect([...clip(a.intervals, from, to)]).toEqual(by((at) => window(at) && a.cells[at]))
      }),
      { numRuns: 500 },
    )
  })

  it('are exact near the largest times', () => {
    const far = 2 ** 53 - 100
    const busy = unionInOrder([far, far + 5], [7, 50], 0, 2)
    expect(total(busy)).toBe(55)
    expect(total(complement(busy, far - 10, far + 99))).toBe(109 - 55)
  })

  it('busy counts overlapping streams once', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    const [a, b] = [rank.track('stream', 0, 1), rank.track('stream', 0, 2)]
    rank.add(Kind.kernel, a, 0, 0, 10)
    rank.add(Kind.communication, b, 0, 5, 10)
    rank.add(Kind.wait, b, 0, 20, 10)
    const [made] = builder.freeze().ranks
    expect([...activity(made)]).toEqual([0, 15])
  })
})

describe('columns', () => {
  const same = (a: Float64Array, b: Float64Array): boolean =>
    a.length === b.length && a.every((value, i) => value === b[i])

  it('return the pushed values, in any order, over several pieces', () => {
    for (const length of [0, 1, 64, 65, 65_535, 65_536, 65_537, 200_000]) {
      const column = new Column(float64)
      const fill = (): void => {
        for (let i = 0; i < length; i++) column.push(i * 3)
        if (length > 0) column.set(length - 1, -7)
      }
      const expected = Float64Array.from({ length }, (_, i) => (i === length - 1 ? -7 : i * 3))
      fill()
      expect(column.length).toBe(length)
      expect(same(column.all(), expected)).toBe(true)
      expect(column.length).toBe(0)
      fill()
      const order = Uint32Array.from({ length }, (_, i) => length - 1 - i)
      expect(same(column.take(order), expected.toReversed())).toBe(true)
      expect(column.length).toBe(0)
      column.push(5)
      expect(column.get(0)).toBe(5)
    }
  })
})

it('columns of one length share a buffer, each as wide as its numbers need', () => {
  const columns = together(3, {
    narrow: unsigned(256),
    time: Float64Array,
    link: signed(128),
    wider: unsigned(257),
    widest: signed(40_000),
  })
  const values = { narrow: [0, 255, 7], time: [-0.5, 2 ** 52, 1], link: [-1, 127, 0] }
  const more = { wider: [256, 0, 65_535], widest: [-1, 39_999, 2] }
  const expected = { ...values, ...more }
  for (const [name, own] of Object.entries(expected)) columns[name as keyof typeof columns].set(own)
  for (const [name, own] of Object.entries(expected))
    expect([...columns[name as keyof typeof columns]]).toEqual(own)
  expect(Object.values(columns).map(({ BYTES_PER_ELEMENT: bytes }) => bytes)).toEqual([8, 4, 2, 1, 1])
  expect(new Set(Object.values(columns).map(({ buffer }) => buffer)).size).toBe(1)
})

it('numbers are sorted by a comparison, equal ones in the order they came', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 200 }), (keys) => {
      const places = Uint32Array.from(keys, (_, i) => i)
      sortBy(places, (a, b) => keys[a] - keys[b])
      const expected = keys.map((_, i) => i).sort((a, b) => keys[a] - keys[b] || a - b)
      expect([...places]).toEqual(expected)
    }),
    { seed: 43, numRuns: 300 },
  )
})
