/** The whole audit on hand-made timelines: the cost of groups, the stragglers of chosen steps, and the warnings. */
import { describe, expect, it } from 'vitest'
import { type Audit, audit, auditing, type AuditOptions } from '../../src/taxes/audit.ts'
import type { Collective } from '../../src/taxes/collective.ts'
import { Collectives } from '../../src/taxes/collectiveTable.ts'
import { groupTimes } from '../../src/taxes/groups.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { type Communication, Kind, NONE, type Timeline } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'
import { plain } from './communication.ts'
import { partitionWith } from './work.ts'

interface Drawn {
  readonly from: number
  readonly to: number
  readonly stream?: number
  /** The communication record of a collective; undefined for a kernel. */
  readonly call?: Partial<Communication>
  readonly sequence?: number
}

/**
 * Builds a timeline, in microseconds. All device work is launched 5 us before the first device work of its step or of
 * the trace.
 */
function draw(
  ranks: readonly (readonly Drawn[])[],
  steps: readonly (readonly (readonly [number: number, from: number, to: number])[])[] = [],
): Timeline {
  const builder = new TimelineBuilder()
  ranks.forEach((works, number) => {
    const rank = builder.rank(number)
    const thread = rank.track('thread', 1, 1)
    for (const [step, from, to] of steps[number] ?? [])
      rank.add(Kind.step, thread, builder.intern(`ProfilerStep#${step}`), from * 1000, (to - from) * 1000)
    const begins = (time: number): number =>
      (steps[number] ?? []).reduce((latest, [, from]) => (from <= time ? from : latest), 0)
    for (const { from, to, stream = 7, call, sequence = NONE } of works) {
      const launch = rank.add(
        Kind.launch,
        thread,
        builder.intern('cudaLaunchKernel'),
        begins(from) * 1000,
        1000,
      )
      const kind = call ? Kind.communication : Kind.kernel
      const event = rank.add(
        kind,
        rank.track('stream', 0, stream),
        builder.intern(call ? 'ncclDevKernel' : 'gemm'),
        from * 1000,
        (to - from) * 1000,
      )
      rank.linkLaunch(event, launch)
      if (call) rank.setCommunication(event, rank.communication({ ...plain, ...call }), sequence)
    }
  })
  return builder.freeze()
}

const work = (from: number, to: number): Drawn => ({ from, to })
const call = (
  from: number,
  to: number,
  of: Partial<Communication>,
  { stream = 20, sequence = 0 } = {},
): Drawn => ({ from, to, stream, call: of, sequence })

function audited(timeline: Timeline, options: AuditOptions = {}): { found: Audit; warnings: Warning[] } {
  const warnings = new Warnings()
  const found = audit(timeline, warnings, options)
  return { found, warnings: warnings.list() }
}

/** The process groups: name, number of collectives, and for each rank its communication, wait and transfer in us. */
const groupsOf = (timeline: Timeline, options: AuditOptions = {}) =>
  audited(timeline, options).found.groups.map(({ group, collectives, perRank }) => ({
    group,
    collectives,
    perRank: perRank.map(({ rank, communication, wait, transfer }) =>
      [rank, communication, wait, transfer].map((time, i) => (i === 0 || time === null ? time : time / 1000)),
    ),
  }))

describe('a process group', () => {
  it("is not charged with another group's transfer while it waits itself", () => {
    const [a, b] = [
      { group: 'A', groupRanks: [0, 1], groupSize: 2 },
      { group: 'B', groupRanks: [0, 2], groupSize: 2 },
    ]
    const timeline = draw([
      [work(30, 40), call(100, 200, a), call(100, 310, b, { stream: 21 })],
      [work(30, 40), call(100, 200, a)],
      [work(30, 40), call(300, 310, b)],
    ])
    expect(groupsOf(timeline)).toEqual([
      {
        group: 'A',
        collectives: 1,
        perRank: [
          [0, 100, 0, 100],
          [1, 100, 0, 100],
        ],
      },
      {
        group: 'B',
        collectives: 1,
        perRank: [
          [0, 210, 100, 10],
          [2, 10, 0, 10],
        ],
      },
    ])
  })

  it('counts an instant that it shares with another group of the same activity', () => {
    const [a, b] = [
      { group: 'A', groupRanks: [0, 1], groupSize: 2 },
      { group: 'B', groupRanks: [0, 2], groupSize: 2 },
    ]
    const timeline = draw([
      [work(30, 40), call(100, 200, a), call(100, 210, b, { stream: 21 })],
      [work(30, 40), call(150, 200, a)],
      [work(30, 40), call(160, 210, b)],
    ])
    const { found } = audited(timeline)
    expect(groupsOf(timeline).map(({ perRank }) => perRank[0])).toEqual([
      [0, 100, 50, 50],
      [0, 110, 50, 50],
    ])
    expect(found.ranks[0].ledger.parts).toMatchObject({ wait: 50_000, transfer: 60_000 })
  })

  it('is identified by its name and its ranks: other ranks may have a group of the same name', () => {
    const of = (groupRanks: readonly number[], from: number): Drawn =>
      call(from, 200, { group: '1', groupDescription: 'mesh_tp', groupRanks, groupSize: 2 })
    const timeline = draw([
      [work(30, 40), of([0, 1], 100)],
      [work(30, 40), of([0, 1], 140)],
      [work(30, 40), of([2, 3], 105)],
      [work(30, 40), of([2, 3], 115)],
    ])
    expect(groupsOf(timeline)).toEqual([
      {
        group: '1',
        collectives: 1,
        perRank: [
          [0, 100, 40, 60],
          [1, 60, 0, 60],
        ],
      },
      {
        group: '1',
        collectives: 1,
        perRank: [
          [2, 95, 10, 85],
          [3, 85, 0, 85],
        ],
      },
    ])
  })

  /** One collective of one microsecond for each list of ranks in `members`, one after another. */
  function between(members: readonly (readonly number[])[], group: (i: number) => string | null) {
    const ranks = Math.max(...members.flat()) + 1
    const timeline = draw(
      Array.from({ length: ranks }, (_, rank) =>
        members.flatMap((own, i) =>
          own.includes(rank) ? [call(10 * i, 10 * i + 1, { group: group(i) }, { sequence: i })] : [],
        ),
      ),
    )
    const next = timeline.ranks.map(({ tracks }) => tracks.find(({ role }) => role === 'stream')!.from)
    const collectives = members.map((own, i): Collective => ({
      kind: 'allReduce',
      library: 'nccl',
      group: group(i),
      groupDescription: null,
      groupSize: null,
      matchedBy: 'group and order',
      complete: false,
      members: own.map((rank) => ({ rank, event: next[rank]++, wait: 0, transfer: 1000 })),
      last: own[0],
      endSkew: 0,
    }))
    const whole = timeline.ranks.map(() => partitionWith(0, 1e9, { transfer: [0, 1e9] }))
    return groupTimes(timeline, Collectives.from(collectives), whole)
  }

  it('that is not listed stays one although ranks are missing from some of its collectives', () => {
    const found = between([[2, 3], [0, 1, 2], [1], [2, 3], [0, 4], [5, 6]], () => 'tp')
    expect(found.map(({ collectives, perRank }) => [collectives, perRank.map(({ rank }) => rank)])).toEqual([
      [5, [0, 1, 2, 3, 4]],
      [1, [5, 6]],
    ])
    expect(found[0].perRank.map(({ collectives }) => collectives)).toEqual([2, 2, 3, 2, 1])
  })

  it('without a name is identified by the ranks of the collective', () => {
    const found = between(
      [
        [0, 1],
        [2, 3],
        [0, 2],
        [0, 1],
      ],
      () => null,
    )
    expect(
      found.map(({ group, collectives, perRank }) => [group, collectives, perRank.map(({ rank }) => rank)]),
    ).toEqual([
      ['nccl', 2, [0, 1]],
      ['nccl', 1, [2, 3]],
      ['nccl', 1, [0, 2]],
    ])
  })

  it('is measured by its own events, even if very many groups share a stream', () => {
    const [calls, groups] = [150_000, 30_000]
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    const stream = rank.track('stream', 0, 7)
    for (let i = 0; i < calls; i++) rank.add(Kind.communication, stream, builder.intern('nccl'), 10 * i, 8)
    const timeline = builder.freeze()
    const collectives = Array.from({ length: calls }, (_, event): Collective => ({
      kind: null,
      library: null,
      group: `${event % groups}`,
      groupDescription: null,
      groupSize: null,
      matchedBy: null,
      complete: true,
      members: [{ rank: 0, event, wait: 3, transfer: 5 }],
      last: null,
      endSkew: 0,
    }))
    const all = partitionWith(0, 10 * calls, { wait: [0, 10 * calls], transfer: [0, 10 * calls] })
    const found = groupTimes(timeline, Collectives.from(collectives), [all])
    const each = calls / groups
    expect(found).toHaveLength(groups)
    const own = { rank: 0, collectives: each, communication: 8 * each, wait: 3 * each, transfer: 5 * each }
    const wanted = JSON.stringify([each, [own]])
    expect(found.filter((one) => JSON.stringify([one.collectives, one.perRank]) !== wanted)).toEqual([])
  })
})

describe('stragglers of chosen steps', () => {
  const group = { group: '0', groupRanks: [0, 1], groupSize: 2 }
  /** Steps of 1000 us whose collective extends 150 us into the next step. */
  const ranks = [
    [0, 0, 0],
    [100, 160, 120],
  ].map((late) =>
    late.flatMap((by, step) => [
      work(1000 * step + 50, 1000 * step + 150),
      call(1000 * step + 900 + by, 1000 * step + 1150, group, { sequence: step }),
    ]),
  )
  const steps = ranks.map(() => [0, 1, 2].map((step) => [step, 1000 * step, 1000 * step + 1000] as const))

  it('are charged with the waiting in those steps only', () => {
    for (const chosen of [undefined, [0, 0], [1, 1], [2, 2], [0, 1]] as const) {
      const { found } = audited(draw(ranks, steps), { steps: chosen })
      const waits = found.ranks.reduce((sum, { ledger }) => sum + ledger.parts.wait, 0)
      expect(waits).toBeGreaterThan(0)
      // No rank is charged with the waiting of 100 us at the first collective.
      const charged = chosen === undefined || chosen[0] === 0 ? waits - 100_000 : waits
      expect(found.stragglers.map(({ rank, exposed, waiters }) => [rank, exposed, waiters])).toEqual(
        charged === 0 ? [] : [[1, charged, [expect.objectContaining({ rank: 0, exposed: charged })]]],
      )
    }
  })

  it('are late by the time within the window, at the collectives with waiting in it', () => {
    const { found } = audited(draw(ranks, steps), { steps: [1, 1] })
    // The window is from 1050 to 2050 us. Rank 0 waits from 1900 us on, and rank 1 arrives at 2060 us.
    expect(found.stragglers).toMatchObject([
      { rank: 1, keptWaiting: 150_000, exposed: 150_000, late: 150_000, collectives: 1 },
    ])
  })
})

it('waiting that compute hides is charged to a rank but is not exposed', () => {
  const group = { group: '0', groupRanks: [0, 1], groupSize: 2 }
  const rank = (arrives: number): Drawn[] =>
    [0, 1, 2].flatMap((i) => [
      work(1000 * i, 1000 * i + 950),
      call(1000 * i + arrives, 1000 * i + 900, group, { sequence: i }),
    ])
  const { found } = audited(draw([rank(100), rank(800)]))
  expect(found.stragglers).toMatchObject([
    { rank: 1, keptWaiting: 1_400_000, exposed: 0, waiters: [{ rank: 0, wait: 1_400_000, exposed: 0 }] },
  ])
})

it('a rank without the chosen steps and ranks with different steps are both warned of', () => {
  const steps = (numbers: readonly number[]) =>
    numbers.map((step) => [step, 1000 * step, 1000 * step + 1000] as const)
  const works = (numbers: readonly number[]): Drawn[] =>
    numbers.map((step) => work(1000 * step + 50, 1000 * step + 700))
  const [first, second] = [
    [1, 2, 3],
    [2, 3, 4],
  ]
  const { warnings } = audited(draw([works(first), works(second)], [steps(first), steps(second)]), {
    steps: [1, 1],
  })
  expect(
    warnings.filter((one) => one.class === 'steps').map(({ message, count }) => [message, count]),
  ).toEqual([
    ['ranks 0 and 1 have recorded different steps', 1],
    ['rank 1 has no step 1; it is left out', 1],
  ])
})

describe('an audit in pieces', () => {
  it('can pause before each step of each rank, and gives the same result as the whole audit', () => {
    const steps = Array.from({ length: 20 }, (_, n) => [n, 100 * n, 100 * n + 90] as const)
    const works = steps.map(([, from]) => ({ from: from + 10, to: from + 50 }))
    const timeline = draw([works, works], [steps, steps])
    const pieces = auditing(timeline, new Warnings())
    let count = 0
    let piece = pieces.next()
    for (; !piece.done; piece = pieces.next()) count++
    expect(count).toBeGreaterThanOrEqual(2 * steps.length)
    expect(piece.value.ranks).toEqual(audit(timeline, new Warnings()).ranks)
    expect(piece.value.ranks[0].steps).toHaveLength(steps.length)
  })
})
