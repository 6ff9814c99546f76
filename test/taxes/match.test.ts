/** Tests the matching of calls on hand-made cases that random tests would rarely produce. */
import { describe, expect, it } from 'vitest'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { matchCalls } from '../../src/taxes/match.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { type Communication, Kind, NONE, type Timeline } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { plain } from './communication.ts'

interface Drawn {
  readonly from: number
  readonly to: number
  readonly kernel?: string
  readonly stream?: number
  readonly sequence?: number
  /** The time of the host call. */
  readonly launched?: number
  /** The communication record; null if the trace has no metadata. */
  readonly call?: Partial<Communication> | null
}

/** Builds a timeline of the ranks' calls, in microseconds. */
function draw(...ranks: readonly (readonly Drawn[])[]): Timeline {
  const builder = new TimelineBuilder()
  ranks.forEach((calls, number) => {
    const rank = builder.rank(number)
    rank.add(Kind.kernel, rank.track('stream', 0, 1), builder.intern('first'), 0, 1000)
    for (const {
      from,
      to,
      kernel = 'ncclKernel',
      stream = 2,
      sequence = NONE,
      launched,
      call = {},
    } of calls) {
      const name = builder.intern(kernel)
      const track = rank.track('stream', 0, stream)
      const event = rank.add(Kind.communication, track, name, from * 1000, (to - from) * 1000)
      if (launched !== undefined) {
        const thread = rank.track('thread', 9, 9)
        rank.linkLaunch(event, rank.add(Kind.launch, thread, builder.intern('launch'), launched * 1000, 1))
      }
      if (call !== null) rank.setCommunication(event, rank.communication({ ...plain, ...call }), sequence)
    }
  })
  return builder.freeze()
}

/** Each match (the calls of one collective), as the sorted start times of its calls in microseconds. */
const found = (timeline: Timeline): string[] =>
  [...matchCalls(timeline)]
    .map(({ members, events }) =>
      members.map((rank, k) => `${rank}@${timeline.ranks[rank].events.start[events[k]] / 1000}`).join(' '),
    )
    .sort()

const waitsOf = (timeline: Timeline): (number | null)[][] =>
  Array.from(collectivesOf(timeline, new Warnings()).collectives, ({ members }) =>
    members.map(({ wait }) => wait),
  )

describe('matching', () => {
  it('keeps groups of one name and different ranks apart', () => {
    const tensorParallel = (groupRanks: number[]) => ({ group: 'tp', groupRanks, groupSize: 2 })
    const timeline = draw(
      [{ from: 10, to: 50, call: tensorParallel([0, 1]) }],
      [{ from: 30, to: 50, call: tensorParallel([0, 1]) }],
      [{ from: 12, to: 60, call: tensorParallel([2, 3]) }],
      [{ from: 40, to: 60, call: tensorParallel([2, 3]) }],
    )
    expect(found(timeline)).toEqual(['0@10 1@30', '2@12 3@40'])
    expect(waitsOf(timeline)).toEqual([
      [20_000, 0],
      [28_000, 0],
    ])
  })

  it('goes by communicator and sequence, whatever the order and the time', () => {
    const call = { communicator: '0xc0ffee', groupSize: 2 }
    const timeline = draw(
      [
        { from: 10, to: 20, sequence: 7, call },
        { from: 30, to: 40, sequence: 8, call },
      ],
      [
        { from: 30, to: 41, sequence: 8, call },
        { from: 50, to: 60, sequence: 9, call },
      ],
    )
    expect(found(timeline)).toEqual(['0@10', '0@30 1@30', '1@50'])
    const by = [...matchCalls(timeline)].map((match) => match.by)
    expect(by.filter((one) => one === 'communicator and sequence')).toHaveLength(1)
    expect(by.filter((one) => one === null)).toHaveLength(2)
  })

  it('pairs several kernels of one numbered call in their order', () => {
    const call = { communicator: 'c', groupSize: 2 }
    const calls = (late: number): Drawn[] => [
      { from: 10 + late, to: 30, sequence: 1, call },
      { from: 31 + late, to: 50, sequence: 1, call },
    ]
    expect(found(draw(calls(0), calls(3)))).toEqual(['0@10 1@13', '0@31 1@34'])
  })

  it('does not trust communicator ids that are pointers of a process', () => {
    const call = (communicator: string) => ({ communicator, group: 'dp', groupRanks: [0, 1], groupSize: 2 })
    const timeline = draw(
      [{ from: 10, to: 20, sequence: 1, call: call('0x1') }],
      [{ from: 12, to: 20, sequence: 1, call: call('0x2') }],
    )
    expect([...matchCalls(timeline)].map((match) => match.by)).toEqual(['group and order'])
  })

  it('goes by the order on the stream and the name of the kernel, where nothing else is known', () => {
    const timeline = draw(
      [
        { from: 10, to: 30, kernel: 'reduce', call: null },
        { from: 40, to: 60, kernel: 'gather', call: null },
        { from: 11, to: 31, kernel: 'reduce', stream: 3, call: null },
      ],
      [
        { from: 20, to: 30, kernel: 'reduce', call: null },
        { from: 41, to: 60, kernel: 'gather', call: null },
        { from: 21, to: 31, kernel: 'reduce', stream: 3, call: null },
      ],
    )
    expect(found(timeline)).toEqual(['0@10 1@20', '0@11 1@21', '0@40 1@41'])
    expect(new Set([...matchCalls(timeline)].map((match) => match.by))).toEqual(
      new Set(['order on the stream']),
    )
  })

  it('finds corresponding streams by their place where their numbers differ', () => {
    const rank = (late: number, streams: readonly [number, number]): Drawn[] => [
      { from: 10 + late, to: 30, stream: streams[0] },
      { from: 50 + late, to: 90, stream: streams[1] },
    ]
    expect(found(draw(rank(0, [20, 24]), rank(5, [17, 19])))).toEqual(['0@10 1@15', '0@50 1@55'])
  })

  it('takes calls of one group on several streams in the order in which the host made them', () => {
    const call = { group: 'dp', groupRanks: [0, 1], groupSize: 2 }
    const timeline = draw(
      [
        { from: 20, to: 100, launched: 1, stream: 2, call },
        { from: 10, to: 60, launched: 2, stream: 3, call },
      ],
      [
        { from: 22, to: 100, launched: 1, stream: 2, call },
        { from: 30, to: 60, launched: 2, stream: 3, call },
      ],
    )
    expect(found(timeline)).toEqual(['0@10 1@30', '0@20 1@22'])
  })

  it('sees that a call is missing among short ones that follow each other closely', () => {
    const dense = (without: number): Drawn[] =>
      Array.from({ length: 60 }, (_, k) => ({
        from: 15 * k + ((7 * k * k) % 5) + 10,
        to: 15 * k + 20 + ((7 * k * k) % 5),
      }))
        .filter((_, k) => k !== without)
        .map((one) => ({ ...one, call: { group: 'dp', groupRanks: [0, 1], groupSize: 2 } }))
    const timeline = draw(dense(20), dense(41))
    const matches = found(timeline)
    expect(matches.filter((match) => !match.includes(' '))).toHaveLength(2)
    for (const match of matches) {
      const [one, other] = match.split(' ').map((member) => member.slice(2))
      if (other !== undefined) expect(other).toBe(one)
    }
  })

  it('leaves a call alone that ends before its counterpart arrives', () => {
    // The first 20 calls determine how the clocks of the two ranks differ.
    const both = Array.from({ length: 20 }, (_, k) => ({ from: 1000 * k + 10 * (k % 7), to: 1000 * k + 300 }))
    const call = { group: 'dp', groupRanks: [0, 1], groupSize: 2 }
    const known = both.map((one) => ({ ...one, call }))
    const timeline = draw(
      [...known, { from: 30_000, to: 30_200, call: { ...call, group: 'other' } }],
      [...known, { from: 39_000, to: 39_200, call: { ...call, group: 'other' } }],
    )
    expect(found(timeline).filter((match) => /@3\d{4}$/.test(match))).toEqual(['0@30000', '1@39000'])
  })

  it('pairs a message by its source and destination', () => {
    const message = (source: number | null, destination: number | null) => ({
      collective: 'sendRecv',
      group: 'pp',
      groupRanks: [0, 1, 2],
      groupSize: 3,
      source,
      destination,
    })
    const timeline = draw(
      [{ from: 10, to: 40, call: message(null, 1) }],
      [
        { from: 30, to: 40, call: message(0, null) },
        { from: 50, to: 90, call: message(1, 2) },
      ],
      [{ from: 70, to: 90, call: message(1, 2) }],
    )
    expect(found(timeline)).toEqual(['0@10 1@30', '1@50 2@70'])
    const { collectives } = collectivesOf(timeline, new Warnings())
    expect([...collectives]).toMatchObject([
      { groupSize: 2, complete: true, last: 1 },
      { groupSize: 2, complete: true, last: 2 },
    ])
  })

  it('lets the root of a broadcast leave before the others arrive', () => {
    const call = { collective: 'broadcast', group: 'dp', groupRanks: [0, 1], groupSize: 2 }
    const reduce = { ...call, collective: 'allReduce' }
    const reduces = Array.from({ length: 20 }, (_, k) => ({
      from: 1000 * k + 10 * (k % 7),
      to: 1000 * k + 300,
      call: reduce,
    }))
    const timeline = draw(
      [...reduces, { from: 30_000, to: 30_010, call }, { from: 32_000, to: 32_050, call: reduce }],
      [...reduces, { from: 30_900, to: 30_910, call }, { from: 32_010, to: 32_050, call: reduce }],
    )
    expect(found(timeline)).toContain('0@30000 1@30900')
  })

  it('prefers the order, and the clocks of the trace, where the calls are strictly regular', () => {
    const regular = (from: number): Drawn[] =>
      Array.from({ length: 40 - from }, (_, k) => ({ from: 100 * (k + from), to: 100 * (k + from) + 50 }))
    const all = found(draw(regular(1), regular(1)))
    expect(all).toHaveLength(39)
    expect(all).toContain('0@700 1@700')
    // The recording of the second rank lacks the first two calls of the first rank, as its clock shows.
    expect(found(draw(regular(1), regular(3)))).toContain('0@700 1@700')
  })
})
