/**
 * Tests the locality tax: synthetic intermediate tensors with known bytes, and invariants over random sequences of
 * operators.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Locality, localityIn, localityOf, type LocalityOptions } from '../../src/taxes/locality.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { timelineOf, type Work } from './work.ts'

function locality(timeline: Timeline, options?: LocalityOptions): Locality {
  const found = localityOf(timeline.ranks[0], timeline.names, new Warnings(), options)
  if (!found) throw new Error('there are shapes')
  return found
}
/** The intermediates as [start of the producer, start of the consumer, bytes]. */
function pairs(works: readonly Work[]): number[][] {
  const timeline = timelineOf([works])
  const { producer, consumer, bytes } = locality(timeline)
  const first = Math.min(...works.map(({ from }) => from))
  const { start } = timeline.ranks[0].events
  return Array.from(bytes, (size, i) => [start[producer[i]] + first, start[consumer[i]] + first, size])
}
const op = (from: number, operator: string, ...shapes: number[][]): Work => ({
  from,
  to: from + 5,
  operator,
  shapes,
})

describe('intermediates', () => {
  it('pass from the kernel that writes to the next that reads', () => {
    expect(
      pairs([
        op(0, 'aten::mm', [4, 8], [8, 16]),
        op(10, 'aten::gelu', [4, 16]),
        op(20, 'aten::mm', [4, 16], [16, 2]),
      ]),
    ).toEqual([
      [0, 10, 128],
      [10, 20, 128],
    ])
  })

  it('have the same number of elements and the same type, whatever their extents', () => {
    const reshaped = op(10, 'aten::relu', [64])
    expect(pairs([op(0, 'aten::relu', [4, 16]), reshaped])).toEqual([[0, 10, 128]])
    expect(pairs([op(0, 'aten::relu', [4, 16]), { ...reshaped, type: 'float' }])).toEqual([])
    expect(pairs([op(0, 'aten::relu', [4, 16]), op(10, 'aten::relu', [63])])).toEqual([])
  })

  it('reach over three operations, not over four', () => {
    const others = [10, 20, 30].map((from) => op(from, 'aten::relu', [from]))
    const [writer, reader] = [op(0, 'aten::relu', [7]), op(50, 'aten::gelu', [7])]
    expect(pairs([writer, ...others, reader])).toEqual([[0, 50, 14]])
    expect(pairs([writer, ...others, op(40, 'aten::relu', [40]), reader])).toEqual([])
  })

  it('count once, for the first reader and the nearest writer', () => {
    expect(pairs([op(0, 'aten::mul', [7]), op(10, 'aten::eq', [7]), op(20, 'aten::eq', [7])])).toEqual([
      [0, 10, 14],
    ])
    expect(pairs([op(0, 'aten::fill_', [7]), op(10, 'aten::fill_', [7]), op(20, 'aten::eq', [7])])).toEqual([
      [10, 20, 14],
    ])
    expect(
      pairs([op(0, 'aten::fill_', [7]), op(10, 'aten::fill_', [7]), op(20, 'aten::eq', [7], [7])]),
    ).toEqual([
      [10, 20, 14],
      [0, 20, 14],
    ])
  })

  it('inside one operator are unknown; its first kernel reads and its last kernel writes', () => {
    const split: Work[] = [
      { ...op(0, 'aten::mul', [7], [7]), call: 1 },
      { ...op(10, 'aten::mul', [7], [7]), call: 1 },
      { ...op(20, 'aten::add', [7], [1]), call: 2 },
      { ...op(30, 'aten::add', [7], [1]), call: 2 },
    ]
    expect(pairs(split)).toEqual([[10, 20, 14]])
  })

  it('do not pass between products that share an operand', () => {
    const [m, n] = [
      [8, 8],
      [8, 8],
    ]
    expect(pairs([op(0, 'aten::mm', m, n), op(10, 'aten::mm', m, n), op(20, 'aten::add', m, n)])).toEqual([
      [10, 20, 128],
      [0, 20, 128],
    ])
  })

  it('do not pass from one stream to another', () => {
    expect(pairs([op(0, 'aten::relu', [7]), { ...op(10, 'aten::relu', [7]), stream: 8 }])).toEqual([])
  })

  it('pass through a collective on a stream of its own', () => {
    const gather: Work = {
      from: 10,
      to: 20,
      kind: Kind.communication,
      stream: 20,
      communication: { collective: 'allGather', dtype: 'BFloat16', elementsIn: 7, elementsOut: 28 },
    }
    const before = op(0, 'aten::relu', [7])
    const after = op(30, 'aten::mm', [4, 7], [7, 3])
    expect(pairs([before, gather, after])).toEqual([
      [0, 10, 14],
      [10, 30, 56],
    ])
    const others = [21, 27, 33, 39].map((from) => op(from, 'aten::relu', [from * 100]))
    expect(pairs([before, gather, ...others, { ...after, from: 50, to: 60 }])).toEqual([[0, 10, 14]])
    const overlapping = { ...after, from: 15, to: 25 }
    expect(pairs([before, gather, overlapping])).toEqual([[0, 10, 14]])
    expect(
      pairs([
        before,
        gather,
        { ...gather, from: 20, to: 30, communication: { ...gather.communication, elementsIn: 28 } },
      ]),
    ).toEqual([[0, 10, 14]])
  })

  it('copies to and from the host are not intermediates', () => {
    const copy = { ...op(10, 'aten::copy_', [7], [7]), kind: Kind.memcpy }
    const works = (name: string): Work[] => [
      op(0, 'aten::relu', [7]),
      { ...copy, name },
      op(20, 'aten::gelu', [7]),
    ]
    expect(pairs(works('Memcpy DtoD (Device -> Device)'))).toEqual([
      [0, 10, 14],
      [10, 20, 14],
    ])
    expect(pairs(works('Memcpy DtoH (Device -> Pageable)'))).toEqual([[0, 20, 14]])
  })
})

describe('as time', () => {
  const MiB = 2 ** 20
  const works = [
    op(0, 'aten::relu', [100 * MiB]),
    op(10, 'aten::gelu', [100 * MiB]),
    op(20, 'aten::mean', [100 * MiB]),
    op(30, 'aten::relu', [MiB]),
    op(40, 'aten::gelu', [MiB]),
  ]
  it('is an interval from the bytes beyond the cache size to all bytes', () => {
    const found = locality(timelineOf([works]))
    expect(localityIn(found, -Infinity, Infinity)).toEqual({
      bytes: 402 * MiB,
      time: { low: Math.round((400 * MiB) / 3350), high: Math.round((402 * MiB) / 3350) },
    })
    // 3,350 GB/s are 3,350 bytes per nanosecond. A time window contains the intermediate tensors that are read in it.
    expect(localityIn(found, 10, 20).bytes).toBe(200 * MiB)
    expect(localityIn(found, 11, 20).bytes).toBe(0)
    expect(localityIn(found, 30, 30).bytes).toBe(0)
  })

  it('uses a given bandwidth', () => {
    const { time } = localityIn(locality(timelineOf([works]), { bandwidth: 1e9 }), 0, 100)
    expect(time).toEqual({ low: 400 * MiB, high: 402 * MiB })
  })

  it('is unknown for an unknown device, which a warning says', () => {
    const timeline = timelineOf([works], 'Abacus 9')
    const warnings = new Warnings()
    const found = localityOf(timeline.ranks[0], timeline.names, warnings)
    expect(found && localityIn(found, 0, 100)).toEqual({ bytes: 402 * MiB, time: null })
    expect(warnings.list()).toMatchObject([
      { class: 'device', message: expect.stringContaining('Abacus 9') as string },
    ])
  })

  it('is unknown without shapes, which a warning says', () => {
    const timeline = timelineOf([[{ from: 0, to: 5, operator: 'aten::relu' }]])
    const warnings = new Warnings()
    expect(localityOf(timeline.ranks[0], timeline.names, warnings)).toBeNull()
    expect(warnings.list()).toMatchObject([
      { class: 'shapes', message: expect.stringContaining('record_shapes=True') as string },
    ])
  })

  it('comes with a warning if most operators are unknown', () => {
    const strange = [10, 20].map((from) => op(from, 'mine::step', [7]))
    const timeline = timelineOf([[op(0, 'aten::relu', [7]), ...strange]])
    const warnings = new Warnings()
    expect(localityOf(timeline.ranks[0], timeline.names, warnings)).toMatchObject({ operations: 3, known: 1 })
    expect(warnings.list()).toMatchObject([
      { class: 'shapes', message: expect.stringContaining('2 of 3') as string },
    ])
  })
})

describe('laws', () => {
  /** An element-wise operator on one or two tensors. The operator reads its operands and writes one tensor. */
  const element = fc.record({
    tensors: fc.integer({ min: 1, max: 2 }),
    size: fc.integer({ min: 1, max: 4 }),
    stream: fc.constantFrom(7, 8),
    kind: fc.constantFrom<'compute' | 'communication'>('compute', 'compute', 'compute', 'communication'),
    gap: fc.integer({ min: 0, max: 3 }),
    length: fc.integer({ min: 1, max: 9 }),
  })
  type Element = typeof element extends fc.Arbitrary<infer T> ? T : never

  it('bytes do not exceed the writes or the reads; windows add up; low is at most high', () => {
    fc.assert(
      fc.property(fc.array(element, { minLength: 1, maxLength: 40 }), fc.nat(200), (elements, cut) => {
        let [now, read, written] = [0, 0, 0]
        const works = elements.map(({ tensors, size, stream, kind, gap, length }: Element): Work => {
          const from = now + gap
          now = from + length
          const communicates = kind === 'communication'
          read += (communicates ? 1 : tensors) * size * 2
          written += size * 2
          return communicates
            ? {
                from,
                to: now,
                kind: Kind.communication,
                stream: 20,
                communication: { dtype: 'Half', elementsIn: size, elementsOut: size },
              }
            : {
                ...op(from, 'aten::add', ...Array<number[]>(tensors).fill([size])),
                to: now,
                stream,
                type: 'c10::Half',
              }
        })
        const timeline = timelineOf([[...works, op(now + 10, 'aten::add', [999])]])
        const found = locality(timeline)
        const { events } = timeline.ranks[0]
        const all = localityIn(found, -Infinity, Infinity)
        expect(all.bytes).toBeLessThanOrEqual(Math.min(read, written))
        expect(localityIn(found, -Infinity, cut).bytes + localityIn(found, cut, Infinity).bytes).toBe(
          all.bytes,
        )
        expect(all.time?.low).toBeLessThanOrEqual(all.time?.high ?? NaN)
        for (let i = 0; i < found.bytes.length; i++) {
          const [producer, consumer] = [found.producer[i], found.consumer[i]]
          expect(events.start[producer] + events.duration[producer]).toBeLessThanOrEqual(
            events.start[consumer],
          )
          expect(events.start[consumer]).toBe(found.start[i])
          if (i > 0) expect(found.start[i]).toBeGreaterThanOrEqual(found.start[i - 1])
          const [from, to] = [events.kind[producer], events.kind[consumer]]
          expect(from === Kind.communication && to === Kind.communication).toBe(false)
          if (events.track[producer] !== events.track[consumer])
            expect(from === Kind.communication || to === Kind.communication).toBe(true)
        }
      }),
      { seed: 5, numRuns: 300 },
    )
  })
})
