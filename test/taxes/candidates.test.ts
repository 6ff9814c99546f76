/** Tests fusion candidates: synthetic chains of kernels with known savings, and invariants over random timelines. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { type Candidate, Candidates } from '../../src/taxes/candidates.ts'
import { Collectives } from '../../src/taxes/collectiveTable.ts'
import { kernelLabel } from '../../src/taxes/labels.ts'
import { localityOf } from '../../src/taxes/locality.ts'
import { idleTime, type Partition } from '../../src/taxes/ledger.ts'
import { Measured } from '../../src/taxes/measured.ts'
import type { Recognised, Recogniser } from '../../src/taxes/recognition.ts'
import { repetitions } from '../../src/taxes/repetitions.ts'
import { activity, complement, difference, total } from '../../src/timeline/intervals.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { partitionWith, timelineOf, type Work } from './work.ts'

/** Treats each communication of each rank as a separate collective. */
function collectivesIn({ ranks }: Timeline, split = true): Collectives {
  const all = ranks.flatMap(({ events, communications }, rank) =>
    Array.from(events.kind, (kind, event) => ({ kind, event }))
      .filter(({ kind }) => kind === Kind.communication)
      .map(({ event }) => ({
        kind: communications[events.communication[event]]?.collective ?? null,
        library: 'nccl',
        group: '0',
        groupDescription: null,
        groupSize: 2,
        matchedBy: null,
        complete: true,
        members: [{ rank, event, wait: split ? 0 : null, transfer: split ? 0 : null }],
        last: null,
        endSkew: 0,
      })),
  )
  return Collectives.from(all)
}

function candidates(timeline: Timeline, partitions: Partition[], split = true): Candidate[] {
  const candidates = new Candidates(timeline, collectivesIn(timeline, split), partitions, [])
  timeline.ranks.forEach((rank, index) => [
    ...candidates.addRank(index, localityOf(rank, timeline.names, new Warnings())),
  ])
  return candidates.list()
}

const us = 1000
const kernel = (from: number, to: number, operator: string, more: Partial<Work> = {}): Work => ({
  from: from * us,
  to: to * us,
  operator,
  ...more,
})
const collective = (from: number, to: number, kind: string, more: Partial<Work> = {}): Work => ({
  from: from * us,
  to: to * us,
  kind: Kind.communication,
  stream: 20,
  communication: { collective: kind },
  ...more,
})

describe('compute, collective, compute', () => {
  // 20 us of GEMM, 5 us idle, a collective of 30 us (10 us of it waiting), 5 us idle, 20 us of GEMM. Rank 1 does the
  // same.
  const works = [kernel(0, 20, 'aten::mm'), collective(25, 55, 'allReduce'), kernel(60, 80, 'aten::add')]
  const partition = partitionWith(0, 80 * us, {
    dispatch: [20 * us, 23 * us],
    gap: [55 * us, 60 * us],
    dependency: [23 * us, 25 * us],
    wait: [25 * us, 35 * us],
    transfer: [35 * us, 55 * us],
  })

  it('saves launch, wait and transfer, summed over ranks', () => {
    const late = works.map((work) => ({ ...work, from: work.from + us, to: work.to + us }))
    expect(candidates(timelineOf([works, late]), [partition, partition])).toEqual([
      {
        kind: 'compute-collective-compute',
        chain: ['aten::mm', 'allReduce', 'aten::add'],
        count: 2,
        ranks: [0, 1],
        saves: 76 * us,
        savings: { launch: 16 * us, wait: 20 * us, transfer: 40 * us, communication: 0, locality: null },
        localityBytes: null,
        operation: null,
        example: { rank: 0, from: 0, to: 80 * us },
      },
    ])
  })

  it('communication that cannot be split is one figure', () => {
    const unsplit = partitionWith(0, 80 * us, { communication: [25 * us, 55 * us] })
    expect(candidates(timelineOf([works]), [unsplit], false)).toMatchObject([
      { saves: 30 * us, savings: { launch: 0, wait: null, transfer: null, communication: 30 * us } },
    ])
  })

  it('collectives between the same kernels are one chain', () => {
    const two = [works[0], collective(25, 35, 'allReduce'), collective(35, 55, 'allGather'), works[2]]
    expect(candidates(timelineOf([two]), [partition])).toMatchObject([
      { chain: ['aten::mm', 'allReduce', 'allGather', 'aten::add'], count: 1, saves: 38 * us },
    ])
  })

  it('hidden collectives and those outside the window are not candidates', () => {
    const compute = kernel(20, 60, 'aten::mm', { stream: 8 })
    expect(candidates(timelineOf([[...works, compute]]), [partitionWith(0, 80 * us, {})])).toEqual([])
    const later = partitionWith(56 * us, 80 * us, { gap: [56 * us, 60 * us] })
    expect(candidates(timelineOf([works]), [later])).toEqual([])
    expect(candidates(timelineOf([works]), [partitionWith(0, 0, {})])).toEqual([])
  })

  it('prefers the kernels that data flows to and from, and saves their locality', () => {
    const flowing = [
      kernel(0, 20, 'aten::mm', { shapes: [[64, 32], [32, 16]] }), // prettier-ignore
      kernel(20, 24, 'aten::relu', { shapes: [[5]] }),
      collective(25, 55, 'allReduce', {
        communication: { collective: 'allReduce', dtype: 'BFloat16', elementsIn: 1024, elementsOut: 1024 },
      }),
      kernel(60, 64, 'aten::relu', { shapes: [[5]] }),
      kernel(64, 80, 'aten::add', { shapes: [[64, 16]] }),
    ]
    const [first] = candidates(timelineOf([flowing]), [partition])
    expect(first).toMatchObject({
      chain: ['aten::mm', 'allReduce', 'aten::add'],
      localityBytes: 2 * 2048,
      savings: { launch: 8 * us, wait: 10 * us, transfer: 20 * us, locality: Math.round(4096 / 3350) },
    })
  })

  it('leaves out launch tax of more than a millisecond at one place', () => {
    const far = [works[0], collective(25, 55, 'allReduce'), kernel(1060, 1080, 'aten::add')]
    const slow = (dispatched: number): Partition =>
      partitionWith(0, 1080 * us, { dispatch: [55 * us, dispatched * us], wait: [25 * us, 55 * us] })
    expect(candidates(timelineOf([far]), [slow(1055)])[0].savings.launch).toBe(1000 * us)
    expect(candidates(timelineOf([far]), [slow(1056)])[0].savings).toMatchObject({ launch: 0, wait: 30 * us })
  })
})

describe('operations', () => {
  const works = (columns: number, from: number): Work[] => [
    kernel(from, from + 20, 'aten::mul', { shapes: [[128, 8], [128, 8]] }), // prettier-ignore
    collective(from + 25, from + 55, 'allGather', {
      communication: { collective: 'allGather', dtype: 'BFloat16', elementsIn: 1024, elementsOut: 8192 },
    }),
    kernel(from + 60, from + 80, 'aten::mm', { shapes: [[128, 64], [64, columns]] }), // prettier-ignore
  ]
  /** A recogniser that identifies a chain by the number of columns of its product. */
  const recogniser = (name: string, replaces: Recognised['replaces']): Recogniser => ({
    name,
    recognise: ({ after }) =>
      after?.computes?.kind === 'product'
        ? { shape: { N: after.computes.columns }, dtype: 'bf16', ranks: null, replaces }
        : null,
  })
  const timeline = timelineOf([[...works(32, 0), ...works(48, 100), ...works(32, 200)]])
  const wait = [25, 45, 125, 155, 225, 245].map((time) => time * us)
  const found = (...recognisers: Recogniser[]): Candidate[] => {
    const candidates = new Candidates(
      timeline,
      collectivesIn(timeline),
      [partitionWith(0, 300 * us, { wait })],
      recognisers,
    )
    timeline.ranks.forEach((rank, index) => [
      ...candidates.addRank(index, localityOf(rank, timeline.names, new Warnings())),
    ])
    return candidates.list()
  }

  it('are named with the shapes of the costliest chain, however many shapes it has', () => {
    const [candidate] = found(recogniser('someGemm', ['collective', 'after']))
    expect(candidate).toMatchObject({ count: 3, chain: ['aten::mul', 'allGather', 'aten::mm'] })
    expect(candidate.operation).toEqual({
      name: 'someGemm',
      shapes: 'N=48, bf16',
      otherShapes: 1,
      command: 'arke bench some-gemm --shape N=48 --dtype bf16',
    })
  })

  it('are those that replace most of the chain', () => {
    const [some, all] = [
      recogniser('some', ['collective', 'after']),
      recogniser('all', ['before', 'collective', 'after']),
    ]
    expect(found(some, all)[0].operation?.name).toBe('all')
    expect(found(all, some)[0].operation?.name).toBe('all')
    expect(found()[0].operation).toBeNull()
  })
})

describe('runs of small kernels', () => {
  const run = (from: number, ...operators: string[]): Work[] =>
    operators.map((operator, i) => kernel(from + 5 * i, from + 5 * i + 2, operator))
  const launching = (from: number, to: number, works: Work[][]): Partition[] =>
    timelineOf(works).ranks.map((rank) =>
      partitionWith(from * us, to * us, { dispatch: complement(activity(rank), from * us, to * us) }),
    )
  const found = (works: Work[], to: number): Candidate[] =>
    candidates(timelineOf([works]), launching(0, to, [works]))

  it('save the launch tax between them', () => {
    const works = [
      ...run(0, 'a', 'b', 'c'),
      kernel(20, 40, 'long'),
      ...run(50, 'a', 'b', 'c'),
      kernel(70, 90, 'long'),
    ]
    expect(found(works, 90)).toEqual([
      {
        kind: 'small-kernels',
        chain: ['a', 'b', 'c'],
        count: 2,
        ranks: [0],
        saves: 12 * us,
        savings: { launch: 12 * us, wait: null, transfer: null, communication: 0, locality: null },
        localityBytes: null,
        operation: null,
        example: { rank: 0, from: 0, to: 12 * us },
      },
    ])
  })

  it('have at least three kernels, each below 10 us, none that communicates or copies', () => {
    expect(found(run(0, 'a', 'b'), 10)).toEqual([])
    expect(found([...run(0, 'a', 'b'), kernel(10, 20, 'long'), ...run(20, 'c', 'd')], 30)).toEqual([])
    expect(found([...run(0, 'a', 'b'), kernel(10, 19, 'short')], 30)).toHaveLength(1)
    for (const kind of [Kind.communication, Kind.memcpy]) {
      const parted = [...run(0, 'a', 'b'), kernel(10, 12, 'x', { kind }), ...run(15, 'c', 'd')]
      expect(found(parted, 30).filter((one) => one.kind === 'small-kernels')).toEqual([])
    }
    expect(found([...run(0, 'a', 'b'), kernel(10, 12, 'x', { kind: Kind.memset })], 30)).toHaveLength(1)
  })

  it('end where the host waits for the device, not where it is elsewhere', () => {
    const works = run(0, 'a', 'b', 'c', 'd')
    const given = (part: 'hostBlocked' | 'hostAbsent' | 'dependency') =>
      candidates(timelineOf([works]), [
        partitionWith(0, 30 * us, { gap: [2 * us, 5 * us], [part]: [7 * us, 10 * us] }),
      ])
    expect(given('hostBlocked')).toEqual([])
    expect(given('dependency')).toEqual([])
    expect(given('hostAbsent')).toMatchObject([{ saves: 3 * us }])
  })

  it('that repeat are one candidate; what lies between two is not saved', () => {
    const layers = run(
      0,
      'embed',
      ...Array.from({ length: 5 }, () => ['norm', 'gemm', 'add', 'gemm']).flat(),
      'head',
    )
    expect(found(layers, 200)).toMatchObject([
      { chain: ['norm', 'gemm', 'add', 'gemm'], count: 5, saves: 5 * 3 * 3 * us },
    ])
  })

  it('of one kernel again and again are one occurrence', () => {
    expect(found(run(0, ...Array<string>(7).fill('copy')), 100)).toMatchObject([
      { chain: ['copy', '…'], count: 1, saves: 6 * 3 * us },
    ])
  })

  it('save what passes between them', () => {
    const shapes = [[1000]]
    const works = [0, 5, 10].map((from) => kernel(from, from + 2, 'aten::relu', { shapes }))
    expect(found([...works, kernel(15, 40, 'aten::relu', { shapes })], 40)).toMatchObject([
      { localityBytes: 4000, savings: { launch: 6 * us, locality: 1 } },
    ])
  })

  it('are ordered by what they save, and come with the costliest example', () => {
    const cheap = run(0, 'a', 'b', 'c')
    const dear = [kernel(20, 50, 'long'), kernel(50, 51, 'd'), kernel(60, 61, 'e'), kernel(80, 81, 'f')]
    const dearer = [
      kernel(90, 120, 'long'),
      kernel(120, 121, 'd'),
      kernel(150, 151, 'e'),
      kernel(170, 171, 'f'),
    ]
    expect(found([...cheap, ...dear, ...dearer], 200)).toMatchObject([
      { chain: ['d', 'e', 'f'], saves: (28 + 48) * us, example: { from: 120 * us, to: 171 * us } },
      { chain: ['a', 'b', 'c'], saves: 6 * us },
    ])
  })
})

describe('kernels that hand data to each other', () => {
  const big = { shapes: [[1024, 1024]] }
  const square = {
    shapes: [
      [1024, 1024],
      [1024, 1024],
    ],
  }
  const found = (works: readonly Work[]): Candidate[] =>
    candidates(timelineOf([works]), [
      partitionWith(0, 400 * us, { gap: [120 * us, 123 * us, 143 * us, 150 * us] }),
    ]).filter(({ kind }) => kind === 'producer-consumer')

  it('save the bytes between them, and the launch tax between neighbours', () => {
    const chain = [
      kernel(0, 120, 'aten::mm', square),
      kernel(123, 143, 'aten::silu', big),
      kernel(150, 170, 'aten::gelu', big),
    ]
    const bytes = 2 * 1024 * 1024 * 2
    expect(found(chain)).toMatchObject([
      {
        chain: ['aten::mm', 'aten::silu', 'aten::gelu'],
        count: 1,
        localityBytes: bytes,
        savings: { launch: 10 * us, locality: Math.round(bytes / 3350), wait: null, transfer: null },
        example: { rank: 0, from: 0, to: 170 * us },
      },
    ])
  })
  it('end before a product, which wants its operands in memory', () => {
    const works = [
      kernel(0, 120, 'aten::silu', big),
      kernel(123, 143, 'aten::gelu', big),
      kernel(150, 300, 'aten::mm', square),
    ]
    expect(found(works).map(({ chain }) => chain)).toEqual([['aten::silu', 'aten::gelu']])
  })
  it('are runs, and not this, where all are small', () => {
    const small = Array.from({ length: 4 }, (_, i) => kernel(10 * i, 10 * i + 5, 'aten::silu', big))
    expect(found(small)).toEqual([])
  })
  it('of more than sixteen kernels go on as another chain, and no byte counts twice', () => {
    const works = Array.from({ length: 20 }, (_, i) =>
      kernel(15 * i, 15 * i + 14, `aten::${i % 2 ? 'silu' : 'gelu'}`, big),
    )
    const all = found(works)
    expect(all.map(({ chain }) => chain.length).sort()).toEqual([16, 5])
    expect(all.reduce((sum, { localityBytes }) => sum + (localityBytes ?? 0), 0)).toBe(19 * 1024 * 1024 * 2)
  })
})

describe('laws', () => {
  const work = fc.record({
    stream: fc.constantFrom(7, 8, 9),
    kind: fc.constantFrom(Kind.kernel, Kind.kernel, Kind.kernel, Kind.memset, Kind.communication),
    from: fc.nat(300),
    length: fc.integer({ min: 0, max: 12 }),
    operator: fc.constantFrom('aten::relu', 'aten::gelu', 'mine'),
  })
  const rank = fc.array(work, { minLength: 1, maxLength: 60 })

  it('no nanosecond is saved twice by one kind', () => {
    fc.assert(
      fc.property(fc.array(rank, { minLength: 1, maxLength: 3 }), fc.boolean(), (ranks, split) => {
        const timeline = timelineOf(
          ranks.map((works) =>
            works.map(({ stream, kind, from, length, operator }) =>
              kind === Kind.communication
                ? collective(from, from + length, 'allReduce', { stream: stream + 20 })
                : kernel(from, from + length, operator, { stream, kind, shapes: [[8]] }),
            ),
          ),
        )
        const partitions = timeline.ranks.map((one) => {
          const compute = activity(one, (event) => one.events.kind[event] !== Kind.communication)
          const exposed = difference(activity(one), compute)
          const dispatch = complement(activity(one), 0, 400 * us)
          return partitionWith(
            0,
            400 * us,
            split ? { dispatch, wait: exposed } : { dispatch, communication: exposed },
          )
        })
        const launch = partitions.reduce((sum, one) => sum + total(idleTime(one).dispatch), 0)
        const exposed = partitions.reduce(
          (sum, { processors: [{ parts }] }) => sum + total(parts.wait) + total(parts.communication),
          0,
        )
        const all = candidates(timeline, partitions, split)
        for (const kind of ['small-kernels', 'compute-collective-compute', 'producer-consumer']) {
          const own = all.filter((one) => one.kind === kind)
          const sum = (of: (one: Candidate) => number | null): number =>
            own.reduce((s, one) => s + (of(one) ?? 0), 0)
          expect(sum(({ savings }) => savings.launch)).toBeLessThanOrEqual(launch)
          expect(sum(({ savings }) => (savings.wait ?? 0) + savings.communication)).toBeLessThanOrEqual(
            exposed,
          )
        }
        for (const { saves, savings, kind, ranks: on, count, example } of all) {
          const { launch: idle, wait, transfer, communication, locality } = savings
          expect(saves).toBe(idle + (wait ?? 0) + (transfer ?? 0) + communication + (locality ?? 0))
          expect(saves).toBeGreaterThan(0)
          expect(count).toBeGreaterThanOrEqual(on.length)
          expect(on).toContain(example.rank)
          expect(wait === null).toBe(kind !== 'compute-collective-compute' || !split)
        }
        expect(all.map(({ saves }) => saves)).toEqual(all.map(({ saves }) => saves).sort((a, b) => b - a))
      }),
      { seed: 7, numRuns: 300 },
    )
  })

  it('what repeats does, and is no more than the sequence', () => {
    fc.assert(
      fc.property(
        fc.array(fc.nat(2), { maxLength: 60 }),
        fc.integer({ min: 1, max: 9 }),
        (values, longest) => {
          const sequence = Int32Array.from(values)
          let end = 0
          for (const { from, period, times } of repetitions(sequence, longest, 3)) {
            expect(from).toBeGreaterThanOrEqual(end)
            expect(times).toBeGreaterThanOrEqual(2)
            expect(period).toBeLessThanOrEqual(longest)
            end = from + period * times
            expect(end).toBeLessThanOrEqual(values.length)
            for (let i = from + period; i < end; i++) expect(values[i]).toBe(values[i - period])
            // No other period, if it begins where the found repetition begins, repeats over a longer range of values.
            for (let other = 1; other <= longest; other++) {
              let same = 0
              while (
                from + other + same < values.length &&
                values[from + same] === values[from + other + same]
              )
                same++
              if (same >= other)
                expect(other * (1 + Math.floor(same / other))).toBeLessThanOrEqual(period * times)
            }
          }
        },
      ),
      { seed: 13, numRuns: 500 },
    )
  })

  it('time in a window is that of a set looked at instant by instant', () => {
    const lengths = fc.array(fc.integer({ min: 1, max: 9 }), { maxLength: 20 })
    fc.assert(
      fc.property(
        lengths,
        fc.integer({ min: -5, max: 200 }),
        fc.integer({ min: -5, max: 200 }),
        (steps, from, to) => {
          const bounds = steps.map((_, i) => steps.slice(0, i + 1).reduce((a, b) => a + b, 0))
          const set = Float64Array.from(bounds.slice(0, bounds.length - (bounds.length % 2)))
          let expected = 0
          for (let at = from; at < to; at++)
            for (let i = 0; i < set.length; i += 2) if (set[i] <= at && at < set[i + 1]) expected++
          expect(new Measured(set).within(from, to)).toBe(expected)
        },
      ),
      { seed: 17 },
    )
  })
})

describe('labels', () => {
  it.each([
    [
      'void at::native::vectorized_elementwise_kernel<4, at::native::MulFunctor<float>, std::array<char*, 3ul> >(int, float)',
      'at::native::vectorized_elementwise_kernel',
    ],
    [
      'void at::native::(anonymous namespace)::CatArrayBatchedCopy<float, 4>(float*)',
      'at::native::CatArrayBatchedCopy',
    ],
    ['sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n', 'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n'],
    ['Cijk_'.repeat(30), `${'Cijk_'.repeat(30).slice(0, 79)}…`],
    ['<odd>', '<odd>'],
  ])('%s', (name, label) => {
    expect(kernelLabel(name)).toBe(label)
  })

  it('kernels of an operator that has three or more go by their own names', () => {
    const names = ['void top<8>()', 'void scatter<8>()', 'void gemm()']
    const works = names.map((name, i) => kernel(5 * i, 5 * i + 2, 'moe', { name, call: 1 }))
    const [{ chain }] = candidates(timelineOf([works]), [
      partitionWith(0, 20 * us, { gap: [2 * us, 5 * us] }),
    ])
    expect(chain).toEqual(['top', 'scatter', 'gemm'])
  })

  it('kernels of a graph go by their own names, not by what launched the graph', () => {
    const works = ['a', 'b', 'c'].map((name, i) =>
      kernel(5 * i, 5 * i + 2, 'step', { name: `void ${name}<1>(int)`, launch: 'cudaGraphLaunch' }),
    )
    const [{ chain }] = candidates(timelineOf([works]), [
      partitionWith(0, 20 * us, { gap: [2 * us, 5 * us] }),
    ])
    expect(chain).toEqual(['a', 'b', 'c'])
  })
})
