/** The warnings of the audit: the affected ranks, the affected time, and names that the user can search for. */
import { describe, expect, it } from 'vitest'
import { inspect } from '../../src/audit/inspect.ts'
import { warningLines } from '../../src/report/warningLines.ts'
import { audit } from '../../src/taxes/audit.ts'
import { kernelLabel } from '../../src/taxes/labels.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind, type Timeline, unknownCommunication } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'

interface Drawn {
  readonly name?: string
  /** The start, in microseconds. */
  readonly from: number
  readonly to: number
  /** The time of the launch, in microseconds; absent if there is no launch. */
  readonly launched?: number
  readonly communication?: boolean
}

function draw(...ranks: readonly (readonly Drawn[])[]): Timeline {
  const builder = new TimelineBuilder()
  ranks.forEach((work, number) => {
    const rank = builder.rank(number)
    const stream = rank.track('stream', 0, 7)
    const thread = rank.track('thread', 9, 9)
    for (const { name = 'gemm', from, to, launched, communication } of work) {
      const kind = communication ? Kind.communication : Kind.kernel
      const event = rank.add(kind, stream, builder.intern(name), from * 1000, (to - from) * 1000)
      if (communication)
        rank.setCommunication(
          event,
          rank.communication({ ...unknownCommunication, collective: 'allReduce' }),
          -1,
        )
      if (launched !== undefined)
        rank.linkLaunch(
          event,
          rank.add(Kind.launch, thread, builder.intern('cudaLaunchKernel'), launched * 1000, 1),
        )
    }
  })
  return builder.freeze()
}

function warningsOf(timeline: Timeline): Warning[] {
  const warnings = new Warnings()
  for (const rank of timeline.ranks) inspect(rank, timeline.names, warnings)
  audit(timeline, warnings)
  return warnings.list()
}
const said = (timeline: Timeline, kind: string): [string, number][] =>
  warningsOf(timeline)
    .filter((one) => one.class === kind)
    .map(({ message, count }) => [message, count])

describe('a warning that applies to several ranks names all of them', () => {
  it('work from before the recording, with its time and its fraction of the recording', () => {
    const rank: Drawn[] = [
      { from: 0, to: 20 },
      { from: 20, to: 44 },
      { from: 44, to: 70, launched: 30 },
      { from: 70, to: 100, launched: 60 },
    ]
    expect(said(draw(rank, rank.slice(1), rank.slice(2)), 'before-recording')).toEqual([
      [
        'ranks 0-1: 3 kernels and copies that were enqueued before the recording began are left out: 68.0 µs, 37.8 % of the recorded time of these ranks (--window all keeps them)',
        3,
      ],
    ])
    expect(said(draw(rank), 'before-recording')[0][0]).toMatch(
      /^rank 0: 2 kernels and copies .* left out: 44\.0 µs, 44\.0 % of the recorded time of this rank \(--window all keeps them\)$/,
    )
  })

  it('work that overlaps, that starts before its launch, that is there twice', () => {
    const overlapping: Drawn[] = [
      { name: 'a', from: 0, to: 20, launched: 0 },
      { name: 'b', from: 10, to: 30, launched: 1 },
    ]
    const twice: Drawn[] = [
      { name: 'c', from: 0, to: 20, launched: 0 },
      { name: 'c', from: 0, to: 20, launched: 0 },
    ]
    const early: Drawn[] = [{ name: 'd', from: 0, to: 20, launched: 5 }]
    expect(said(draw(overlapping, overlapping), 'overlap')[0][0]).toMatch(
      /^ranks 0-1: GPU work such as b \(stream 7/,
    )
    expect(said(draw(twice, twice), 'duplicate-event')[0][0]).toMatch(/^ranks 0-1: .* such as c/)
    expect(said(draw(early, early), 'before-launch')[0][0]).toMatch(/^ranks 0-1: GPU work such as d /)
  })

  it('shapes and devices that are missing', () => {
    const rank: Drawn[] = [{ from: 0, to: 20, launched: 0 }]
    expect(said(draw(rank, rank, rank), 'shapes')).toEqual([
      [
        'the traces of ranks 0-2 have no operand shapes, so their locality tax is unknown; record with record_shapes=True',
        1,
      ],
    ])
  })

  it('calls without a counterpart, with their time', () => {
    const call = (from: number): Drawn => ({ from, to: from + 10, launched: from - 1, communication: true })
    const all = Array.from({ length: 20 }, (_, k) => call(100 * k + 7 * (k % 3)))
    const [message, count] = said(draw(all, all.slice(0, 18)), 'unmatched')[0]
    expect(count).toBe(2)
    expect(message).toMatch(
      /^2 calls have no counterpart on other ranks that have a trace, first rank 0's allReduce; .*20\.0 µs \(\d+\.\d % of/,
    )
  })
})

describe('names', () => {
  it('that are empty are reported as missing', () => {
    const rank: Drawn[] = [
      { name: '', from: 0, to: 20, launched: 5 },
      { name: '', from: 10, to: 30, launched: 6 },
    ]
    for (const { message } of warningsOf(draw(rank))) expect(message).not.toMatch(/ {2}|such as (?!an)/)
    expect(said(draw(rank), 'overlap')[0][0]).toContain('such as an event without a name')
    expect(kernelLabel('')).toBe('(no name)')
  })
})

describe('lines of several files', () => {
  it('list the rank numbers of all files, not only of the first', () => {
    const sources = [0, 1, 2, 3].map((file) => ({
      path: `job/${file}.json`,
      format: 'kineto',
      bytes: 1,
      ranks: [file],
    }))
    const warnings = sources.map((_, file) => ({
      class: 'rank',
      message: `${file}.json: neither the trace nor its name states a rank; taken as rank ${file}`,
      count: 1,
    }))
    expect(warningLines({ sources, warnings })).toEqual([
      'neither the trace nor its name states a rank; taken as rank 0-3 (in 4 files)',
    ])
  })
})
