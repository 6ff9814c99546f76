/** Tests the data of the HTML report: the page unpacks exactly the timeline's data, and pixels show it correctly. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { categories, categoryCount, categoryOfPartCode, codeOf } from '../../src/report/categories.ts'
import { fold, IntegerReader, IntegerWriter, unfold } from '../../src/report/integers.ts'
import { pack } from '../../src/report/pack.ts'
import type { PackedHeader } from '../../src/report/packed.ts'
import { layOut, rowAt } from '../../src/report/page/layout.ts'
import { makePalette, pixel, Raster } from '../../src/report/page/raster.ts'
import { Segments } from '../../src/report/page/segments.ts'
import { unpackCollectives, unpackRank, type Rank } from '../../src/report/page/unpack.ts'
import { markDistance, View } from '../../src/report/page/view.ts'
import { count, time } from '../../src/report/units.ts'
import { partNames } from '../../src/taxes/ledger.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { isDeviceWork, Kind, NONE } from '../../src/timeline/timeline.ts'
import { makeSample } from './sample.ts'

describe('integers', () => {
  test('come back as they went, up to 2^53', () => {
    const numbers = fc.array(fc.oneof(fc.nat(), fc.maxSafeNat(), fc.nat({ max: 300 })))
    fc.assert(
      fc.property(numbers, (values) => {
        const writer = new IntegerWriter()
        for (const value of values) writer.push(value)
        const reader = new IntegerReader(writer.take())
        expect(values.map(() => reader.next())).toEqual(values)
      }),
      { seed: 1 },
    )
  })

  test('signed ones fold to unsigned and back', () => {
    expect([0, -1, 1, -2, 2].map(fold)).toEqual([0, 1, 2, 3, 4])
    fc.assert(
      fc.property(fc.integer({ min: -(2 ** 51), max: 2 ** 51 }), (value) => unfold(fold(value)) === value),
      { seed: 2 },
    )
  })
})

function unpacked(input = makeSample()): { header: PackedHeader; ranks: Rank[] } {
  const blocks: Uint8Array[] = []
  const packing = pack(input)
  let next = packing.next()
  for (; !next.done; next = packing.next()) blocks.push(next.value.bytes.slice())
  const header = next.value
  const collectives = unpackCollectives(header, blocks[0])
  return { header, ranks: header.ranks.map((rank, i) => unpackRank(rank, collectives, blocks[i + 1])) }
}

describe('the packed timeline', () => {
  const input = makeSample()
  const { header, ranks } = unpacked(input)

  test('holds every device event on the common clock, with its name, operator and launch delay', () => {
    // The sample's time origin is the first copy of the first step, which is simultaneous on all ranks.
    for (const [r, rank] of input.timeline.ranks.entries()) {
      const { events, tracks } = rank
      const expected: unknown[] = []
      const origin = rank.deviceSpan?.[0] ?? 0
      for (let event = 0; event < events.length; event++) {
        if (!isDeviceWork(events.kind[event])) continue
        const operator = events.operator[event]
        expected.push({
          stream: tracks[events.track[event]].id,
          start: events.start[event] - origin,
          duration: events.duration[event],
          name: input.timeline.names[events.name[event]],
          operator: operator === NONE ? null : input.timeline.names[events.name[operator]],
          delay: events.start[event] - events.start[events.launch[event]],
        })
      }
      const found = ranks[r].lanes.flatMap((lane) =>
        Array.from(lane.start, (start, event) => ({
          stream: lane.stream,
          start,
          duration: lane.end[event] - start,
          name: header.names[lane.name[event]],
          operator: lane.operator[event] === 0 ? null : header.names[lane.operator[event] - 1],
          delay: lane.delay[event],
        })),
      )
      const key = (one: unknown): string => JSON.stringify(one)
      expect(found.map(key).sort()).toEqual(expected.map(key).sort())
    }
  })

  test('ties each event of a collective to it, and cuts it where the last rank arrived', () => {
    for (const [r, { lanes }] of ranks.entries()) {
      const lane = lanes.find(({ stream }) => stream === 20)
      expect(lane?.members).toBe(input.document.collectives.length)
      const waits = input.document.collectives.map(({ perRank }) =>
        Math.round(1000 * (perRank[r].waitUs ?? 0)),
      )
      const { segments } = lane as (typeof lanes)[number]
      const waiting = [...segments.category.keys()].filter((i) => segments.category[i] === codeOf('wait'))
      expect(waiting.map((i) => segments.end[i] - segments.start[i])).toEqual(waits)
    }
  })

  test('holds the partition to the nanosecond', () => {
    for (const [r, { partition, part }] of ranks.entries())
      for (const [code, name] of partNames.entries()) {
        let sum = 0
        for (let i = 0; i < part.length; i++)
          if (part[i] === code) sum += partition.end[i] - partition.start[i]
        const set = input.partitions[r].processors[0].parts[name]
        let expected = 0
        for (let i = 0; i < set.length; i += 2) expected += set[i + 1] - set[i]
        expect(sum).toBe(expected)
      }
  })

  test('gives events that overlap on one stream rows of their own, and counts those beyond six', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(3)
    for (let i = 0; i < 8; i++)
      rank.add(Kind.kernel, rank.track('stream', 0, 7), builder.intern(`k${i}`), i, 100)
    rank.add(Kind.kernel, rank.track('stream', 0, 7), builder.intern('later'), 500, 10)
    const { document } = makeSample()
    const empty = { ...document, ranks: [], steps: [], collectives: [] }
    const { ranks: found } = unpacked({
      document: empty,
      timeline: builder.freeze(),
      clocks: [],
      partitions: [],
    })
    expect(found[0].lanes.map(({ row, events, hidden }) => [row, events, hidden])).toEqual([
      [0, 2, 2],
      [1, 1, 0],
      [2, 1, 0],
      [3, 1, 0],
      [4, 1, 0],
      [5, 1, 0],
    ])
  })
})

describe('pixels', () => {
  const stretches = fc.array(
    fc.tuple(fc.nat({ max: 40 }), fc.nat({ max: 60 }), fc.nat({ max: categoryCount - 1 })),
    { maxLength: 400 },
  )
  const build = (values: readonly (readonly number[])[]): Segments => {
    let at = 0
    const [start, end] = [new Float64Array(values.length), new Float64Array(values.length)]
    for (const [i, [gap, duration]] of values.entries()) {
      start[i] = at += gap
      end[i] = at += duration
    }
    return new Segments(
      start,
      end,
      Uint8Array.from(values, ([, , category]) => category),
    )
  }

  test('hold the share of each category in their time, whatever the magnification', () => {
    fc.assert(
      fc.property(
        stretches,
        fc.integer({ min: -50, max: 9000 }),
        fc.integer({ min: 1, max: 9000 }),
        fc.integer({ min: 1, max: 40 }),
        (values, from, span, columns) => {
          const segments = build(values)
          const out = new Float32Array(columns * categoryCount).fill(9)
          segments.coverage(from, from + span, columns, out)
          const expected = new Float32Array(columns * categoryCount)
          for (let column = 0; column < columns; column++) {
            const [left, right] = [from + (column * span) / columns, from + ((column + 1) * span) / columns]
            for (let i = 0; i < segments.length; i++) {
              const inside = Math.min(segments.end[i], right) - Math.max(segments.start[i], left)
              if (inside > 0)
                expected[column * categoryCount + segments.category[i]] += inside / (right - left)
            }
          }
          for (let i = 0; i < out.length; i++) expect(out[i]).toBeCloseTo(expected[i], 3)
        },
      ),
      { seed: 3, numRuns: 300 },
    )
  })

  test('that hold only edges go to the one that has most of them', () => {
    const segments = build([
      [0, 14, 0],
      [2, 24, 2],
    ])
    const out = new Float32Array(4 * categoryCount)
    segments.coverage(0, 40, 4, out, true)
    expect(
      [0, 1, 2, 3].map((column) => [out[column * categoryCount], out[column * categoryCount + 2]]),
    ).toEqual([
      [1, 0],
      // 4 units of compute, 2 units of nothing and 4 units of wait: in a tie, the first category is shown.
      [1, 0],
      [0, 1],
      [0, 1],
    ])
  })

  test('are painted as stacks, the first category at the bottom, and what is there stays visible', () => {
    const palette = makePalette(false, '#ffffff', '#eeeeee')
    const raster = new Raster(3, 12, new ArrayBuffer(4 * 36))
    raster.clear(palette.paper)
    const coverage = new Float32Array(3 * categoryCount)
    coverage[0] = 0.5
    coverage[3] = 0.5
    coverage[categoryCount] = 0.001
    raster.lane(1, 10, coverage, palette, 3)
    const column = (x: number): number[] => Array.from({ length: 12 }, (_, y) => raster.pixels[y * 3 + x])
    const [ground, compute, transfer] = [palette.lane, palette.first[0], palette.first[3]]
    const paper = pixel('#ffffff')
    const times = (colour: number, n: number): number[] => new Array<number>(n).fill(colour)
    expect(column(0)).toEqual([paper, ...times(transfer, 5), ...times(compute, 5), paper])
    expect(column(1)).toEqual([paper, ...times(ground, 8), ...times(compute, 2), paper])
    expect(column(2)).toEqual([paper, ...times(ground, 10), paper])
  })
})

describe('the view', () => {
  test('stays inside the time and keeps the point under the pointer while it zooms', () => {
    const view = new View(0, 1_000_000)
    view.zoom(10, 0.25)
    expect(view.time(250, 1000)).toBeCloseTo(view.first + 0.25 * (view.last - view.first))
    view.pan(-100)
    expect(view.from).toBe(view.first)
    view.pan(1000)
    expect(view.to).toBeCloseTo(view.last)
    for (let i = 0; i < 100; i++) view.zoom(10, 0.5)
    expect(view.span).toBe(200)
    view.fit()
    expect([view.from, view.to]).toEqual([view.first, view.last])
  })

  test('has an axis whose marks are 1, 2 or 5 of a decade apart', () => {
    expect(markDistance(1000, 1000, 120)).toBe(200)
    expect(markDistance(1_000_000, 1000, 40)).toBe(50_000)
    expect(markDistance(30, 1000, 120)).toBe(5)
  })

  test('finds the row under a point, and a folded rank has one row', () => {
    const { ranks } = unpacked()
    const open = layOut(
      ranks,
      ranks.map(() => 'busy' as const),
      null,
    )
    // Each rank has five rows: a partition, three streams, and the row that opens the host threads.
    expect(open.rows.length).toBe(8 * 5)
    for (const { label } of open.rows) expect(label).not.toBe('')
    const hosts = layOut(
      ranks,
      ranks.map(() => 'busy' as const),
      null,
      ranks.map(({ rank }) => rank === 3),
    )
    const own = hosts.rows.filter(({ rank, isHosts, lane }) => rank === 3 && !isHosts && lane?.isHost)
    expect(own.map(({ label }) => label)).toEqual(['thread 1', '↳ depth 2', '↳ depth 3'])
    for (const row of open.rows) expect(rowAt(open, row.top + row.height / 2)).toBe(row)
    const folded = (culprit: number | null): string[] =>
      layOut(
        ranks,
        ranks.map(() => 'folded' as const),
        culprit,
      ).rows.map(({ label }) => label)
    expect(folded(null)).toEqual(ranks.map(({ rank }) => `rank ${rank}`))
    expect(folded(5)).toEqual([5, 0, 1, 2, 3, 4, 6, 7].map((rank) => `rank ${rank}`))
  })

  test('names streams that do little together, and shows them on demand', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    const name = builder.intern('kernel')
    for (let stream = 0; stream < 20; stream++)
      rank.add(Kind.kernel, rank.track('stream', 0, stream), name, 100 * stream, stream % 2 === 0 ? 50 : 1)
    const { document } = makeSample()
    const empty = { ...document, ranks: [], steps: [], collectives: [] }
    const { ranks } = unpacked({ document: empty, timeline: builder.freeze(), clocks: [], partitions: [] })
    const labels = (extent: 'busy' | 'all'): string[] =>
      layOut(ranks, [extent], null).rows.map(({ label }) => label)
    const even = [0, 2, 4, 6, 8, 10, 12, 14].map((stream) => `stream ${stream}`)
    expect(labels('busy')).toEqual(['rank 0', ...even, '+ 12 quiet'])
    expect(labels('all')).toHaveLength(21)
  })
})

test('times and counts are told with three digits and a unit that fits', () => {
  expect([0, 999, 1500, 25_040, 999_600, 12_345_678, 5e9, -2500].map(time)).toEqual([
    '0 ns',
    '999 ns',
    '1.50 µs',
    '25.0 µs',
    '1.00 ms',
    '12.3 ms',
    '5.00 s',
    '−2.50 µs',
  ])
  expect(count(1234567)).toBe('1\u202f234\u202f567')
})

describe('colours', () => {
  // Colour vision deficiency matrices from Machado, Oliveira and Fernandes (2009), severity 1.
  const sights: Readonly<Record<string, readonly number[]>> = {
    normal: [1, 0, 0, 0, 1, 0, 0, 0, 1],
    deuteranopia: [0.367322, 0.860646, -0.227968, 0.280085, 0.672501, 0.047413, -0.01182, 0.04294, 0.968881],
    protanopia: [0.152286, 1.052583, -0.204868, 0.114503, 0.786281, 0.099216, -0.003882, -0.048116, 1.051998],
    tritanopia: [1.255528, -0.076749, -0.178779, -0.078411, 0.930809, 0.147602, 0.004733, 0.691367, 0.3039],
  }
  /** The colour in Oklab as a person with this colour vision sees it. */
  const seen = (hex: string, sight: readonly number[]): number[] => {
    const linear = [1, 3, 5].map((at) => {
      const value = parseInt(hex.slice(at, at + 2), 16) / 255
      return value <= 0.04045 ? value / 12.92 : ((value + 0.055) / 1.055) ** 2.4
    })
    const [r, g, b] = [0, 3, 6].map((row) =>
      Math.min(
        1,
        Math.max(
          0,
          linear.reduce((sum, value, i) => sum + sight[row + i] * value, 0),
        ),
      ),
    )
    const l = Math.cbrt(0.4122214708 * r + 0.5363325363 * g + 0.0514459929 * b)
    const m = Math.cbrt(0.2119034982 * r + 0.6806995451 * g + 0.1073969566 * b)
    const s = Math.cbrt(0.0883024619 * r + 0.2817188376 * g + 0.6299787005 * b)
    return [
      0.2104542553 * l + 0.793617785 * m - 0.0040720468 * s,
      1.9779984951 * l - 2.428592205 * m + 0.4505937099 * s,
      0.0259040371 * l + 0.7827717662 * m - 0.808675766 * s,
    ]
  }
  const distance = (a: string, b: string, sight: readonly number[]): number =>
    Math.hypot(...seen(a, sight).map((value, i) => value - seen(b, sight)[i]))

  test.each(['light', 'dark'] as const)('of the %s theme are apart for every kind of sight', (theme) => {
    const paper = theme === 'light' ? '#ffffff' : '#14171c'
    for (const sight of Object.values(sights))
      for (const [i, a] of categories.entries()) {
        expect(distance(a[theme], paper, sight)).toBeGreaterThan(0.12)
        for (const b of categories.slice(i + 1)) {
          const least = a.name === 'wait' && b.name === 'transfer' ? 0.25 : 0.12
          expect(distance(a[theme], b[theme], sight), `${a.name} and ${b.name}`).toBeGreaterThan(least)
        }
      }
  })

  test('cover every part of the ledger', () => {
    expect(
      Object.fromEntries(partNames.map((part, i) => [part, categories[categoryOfPartCode[i]].name])),
    ).toEqual({
      compute: 'compute',
      transfer: 'transfer',
      wait: 'wait',
      communication: 'unsplit',
      copy: 'copy',
      dispatch: 'launch',
      gap: 'launch',
      hostBlocked: 'other',
      hostAbsent: 'other',
      dependency: 'other',
      unattributed: 'other',
      vacant: 'other',
    })
  })
})
