/**
 * Jobs whose traces do not list the ranks of process groups. Without these lists, groups that run the same program look
 * alike. Correct clocks must be kept, and a rank that kept nobody waiting must not be named as late.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { toDocument } from '../../src/report/toDocument.ts'
import { screen } from '../../src/report/terminal.ts'
import { stragglersSection } from '../../src/report/sections.ts'
import { type Audit, audit } from '../../src/taxes/audit.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'
import { type ParallelJob, type ParallelRecording, recordRun, run } from './parallel.ts'
import { itForRuns } from '../long.ts'

interface Audited {
  readonly timeline: Timeline
  readonly found: Audit
  readonly warnings: readonly Warning[]
}

function audited(job: ParallelJob, recording: ParallelRecording = {}): Audited {
  const timeline = recordRun(run(job), recording)
  const warnings = new Warnings()
  return { timeline, found: audit(timeline, warnings), warnings: warnings.list() }
}

const corrections = ({ found }: Audited): number[] => found.clocks.map(({ correction }) => correction)
const classes = ({ warnings }: Audited): string[] => warnings.map((one) => one.class)
/** For each rank, the time that others waited for it, computed from the job recorded with metadata. */
const keptWaiting = (job: ParallelJob): Map<number, number> =>
  new Map(audited(job, { metadata: true }).found.stragglers.map(({ rank, exposed }) => [rank, exposed]))

const slowAlways = { rank: 5, by: 300_000 }
const slowAtFirst = { rank: 5, by: 500_000, layers: [0] }
const cases: [string, ParallelJob][] = [
  ['2 x 4, a rank that is always slow', { tensor: 2, data: 4, slow: slowAlways }],
  ['2 x 4, a rank that is slow in the first layer', { tensor: 2, data: 4, slow: slowAtFirst }],
  ['2 x 4, without noise', { tensor: 2, data: 4, noise: 0, layers: 40, slow: slowAtFirst }],
  ['2 x 4, a rank that is a little slow', { tensor: 2, data: 4, slow: { rank: 5, by: 30_000 } }],
  ['4 x 2, a rank that is always slow', { tensor: 4, data: 2, slow: slowAlways }],
  ['4 x 2, a rank that is slow in the first layer', { tensor: 4, data: 2, slow: slowAtFirst }],
  ['4 x 2 on one stream', { tensor: 4, data: 2, oneStream: true, slow: slowAlways }],
  ['two stages of two', { tensor: 2, stages: 2, microbatches: 6, slow: { rank: 1, by: 300_000 } }],
  [
    'two stages of two, unequal',
    { tensor: 2, stages: 2, microbatches: 6, extraLayers: 2, slow: { rank: 3, by: 300_000, layers: [2] } },
  ],
  ['four stages, point to point', { stages: 4, microbatches: 8, slow: { rank: 2, by: 300_000 } }],
  ['four stages of two', { stages: 4, data: 2, microbatches: 8, slow: { rank: 2, by: 300_000 } }],
  [
    'two stages of 2 x 2 that all meet',
    { tensor: 2, stages: 2, data: 2, microbatches: 4, closing: true, slow: { rank: 2, by: 300_000 } },
  ],
]

describe('groups that no trace lists', () => {
  it.each(cases)(
    '%s: correct clocks are kept, no innocent rank is named, and a warning explains',
    (_, job) => {
      const result = audited(job)
      expect(corrections(result)).toEqual(corrections(result).map(() => 0))
      expect(classes(result)).toContain('groups')
      expect(result.warnings[0].message).not.toMatch(/disagrees? with collective ends/)
      const [worst] = result.found.stragglers
      const truth = keptWaiting(job)
      // If the audit names a rank as late, it is the slow rank, or the audit of the job with metadata names it, too.
      if (worst && worst.rank !== job.slow?.rank)
        expect(truth.get(worst.rank) ?? 0).toBeGreaterThan(Math.max(...truth.values()) / 2)
    },
  )

  it.each(cases)('%s: with metadata, groups are known and no warning mentions them', (_, job) => {
    const result = audited(job, { metadata: true })
    expect(corrections(result)).toEqual(corrections(result).map(() => 0))
    expect(classes(result)).not.toContain('groups')
    expect(result.found.stragglers.map(({ rank }) => rank)).toContain(job.slow?.rank)
    for (const { members, last } of result.found.collectives) expect(members.length > 1).toBe(last !== null)
  })

  itForRuns(
    'of random jobs: correct clocks are kept, and a warning states that groups are guessed',
    60,
    (numRuns) => {
      const jobs = fc.record({
        tensor: fc.constantFrom(2, 4),
        data: fc.constantFrom(2, 4),
        stages: fc.constantFrom(1, 2),
        layers: fc.constantFrom(4, 8, 20),
        microbatches: fc.constantFrom(1, 4),
        noise: fc.constantFrom(0, 0.001, 0.02, 0.2),
        compute: fc.constantFrom(100_000, 1_000_000),
        extraLayers: fc.constantFrom(0, 2),
        closing: fc.boolean(),
        seed: fc.nat(1e6),
        slow: fc.record({ rank: fc.nat(3), by: fc.constantFrom(100_000, 300_000, 1_000_000) }),
      })
      fc.assert(
        fc.property(jobs, (job) => {
          const result = audited(job)
          expect(corrections(result)).toEqual(corrections(result).map(() => 0))
          expect(classes(result)).toContain('groups')
        }),
        { seed: 1, numRuns },
      )
    },
  )

  it('the warning states how well the estimate fits', () => {
    const said = (job: ParallelJob, recording?: ParallelRecording): string =>
      audited(job, recording).warnings.find((one) => one.class === 'groups')?.message ?? ''
    expect(said(cases[0][1])).toMatch(
      /; the trace's clocks explain 100(\.0)? % of the time in calls \(the ends of a call are [\d.]+ µs apart, as a median\)$/,
    )
    expect(said(cases[0][1], { ahead: (rank) => 400_000 * rank })).toMatch(
      /; estimated clocks explain 100(\.0)? % .*; the runner-up: the trace's clocks explain \d/,
    )
  })

  it('no rank is named on the screen, in the JSON, on the page or in the summary, and each gives the reason', () => {
    // The traces do not show which groups belong to which of two pipeline stages, one of which has more layers.
    const { timeline, found, warnings } = audited(cases[8][1])
    expect(found.stragglers).toEqual([])
    const document = toDocument({
      timeline,
      audit: found,
      options: {},
      sources: [],
      warnings,
      version: '0',
    })
    expect(document.doubtful?.collectives).toBeGreaterThan(0)
    for (const { lastRank, perRank } of document.collectives)
      if (perRank.length > 1) expect(lastRank).toBeNull()
    expect(document.summary[1]).toMatch(/^The late rank is unknown at \d+ of \d+ collectives: /)
    expect(document.summary.join(' ')).not.toMatch(/why rank \d is late|Rank \d kept/)
    const shown = screen(document, null).join('\n')
    expect(shown).not.toContain('Who kept the others waiting')
    expect(shown.replace(/\s+/g, ' ')).toMatch(/at \d+ of \d+ collectives the last rank is unknown/)
    expect(stragglersSection(document).text.replace(/\s+/g, ' ')).toMatch(/the late rank is unknown/)
  })
})

describe('one group that no trace lists', () => {
  const job: ParallelJob = { tensor: 8, slow: { rank: 5, by: 300_000, layers: [2] } }
  it.each<[string, (rank: number) => number, number[]]>([
    ['right clocks', () => 0, []],
    ['the clock of one rank ahead', (rank) => (rank === 3 ? 3_000_000 : 0), [3]],
    ['the clock of the first rank ahead', (rank) => (rank === 0 ? 3_000_000 : 0), [1, 2, 3, 4, 5, 6, 7]],
    ['the clock of a machine ahead', (rank) => (rank >= 4 ? 3_000_000 : 0), [4, 5, 6, 7]],
    ['every clock wrong', (rank) => rank * 700_000, [1, 2, 3, 4, 5, 6, 7]],
  ])('%s: clocks are set and the slow rank is named', (_, ahead, moved) => {
    for (const metadata of [false, true]) {
      const { found } = audited(job, { ahead, metadata })
      expect(found.clocks.filter(({ aligned }) => aligned).map(({ rank }) => rank)).toEqual(moved)
      for (const { rank, correction } of found.clocks)
        expect(Math.abs(correction - (ahead(0) - ahead(rank)))).toBeLessThan(2_000)
      expect(found.stragglers[0].rank).toBe(5)
      expect(found.stragglers[0].exposed).toBeGreaterThan(0.9 * 3 * 7 * 300_000)
    }
  })

  it('a clock is corrected even if no rank is slow', () => {
    const { found } = audited({ tensor: 8 }, { ahead: (rank) => (rank === 3 ? 3_000_000 : 0) })
    expect(found.clocks.filter(({ aligned }) => aligned).map(({ rank }) => rank)).toEqual([3])
  })

  it('a group of two ranks needs no guess', () => {
    expect(classes(audited({ tensor: 2, slow: { rank: 1, by: 300_000 } }))).not.toContain('groups')
  })
})
