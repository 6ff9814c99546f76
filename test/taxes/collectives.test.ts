/**
 * Tests collectives of synthetic jobs: their calls are matched correctly, and the audit finds the waits of the
 * simulation.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { ranges } from '../../src/timeline/ranges.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { type JobOptions, jobOf, type Metadata, random, record } from './job.ts'
import { brokenLaw, mismatch } from './planted.ts'
import { itForRuns } from '../long.ts'

const layouts = fc.constantFrom<JobOptions['layouts'][]>(
  ['world'],
  ['pairs'],
  ['pairs', 'strides'],
  ['world', 'pairs'],
  ['world', 'pairs', 'strides'],
)
const jobs = fc.record({
  seed: fc.nat(),
  ranks: fc.integer({ min: 1, max: 8 }),
  layouts,
  rounds: fc.integer({ min: 12, max: 40 }),
})
/** Jobs in which shared collectives connect all ranks. */
const tiedJobs = jobs.filter((job) => job.layouts.length > 1 || job.layouts[0] === 'world')
const metadata = fc.constantFrom<Metadata>('communicator', 'sequence', 'ranks', 'size', 'none')

/** Clocks that pairwise agree or differ by at least 20 us, up to 11 days. */
const offsets = fc.array(
  fc.oneof(
    fc.constant(0n),
    fc.bigInt(-50n, 50n).map((steps) => steps * 20_000n),
    fc.bigInt(-(5n * 10n ** 10n), 5n * 10n ** 10n).map((steps) => steps * 20_000n),
  ),
  { minLength: 8, maxLength: 8 },
)

describe('collectives', () => {
  itForRuns('are matched and split as constructed, whatever the clocks show', 150, (numRuns) => {
    fc.assert(
      fc.property(jobs, metadata, offsets, (options, written, clocks) => {
        const job = record(jobOf(options), options.ranks, {
          metadata: written,
          offset: (rank) => clocks[rank],
        })
        const { collectives } = collectivesOf(job.timeline, new Warnings())
        expect(brokenLaw(collectives, job)).toBeNull()
        expect(mismatch(collectives, job, 0)).toBeNull()
        if (written !== 'none') expect([...collectives].every(({ complete }) => complete)).toBe(true)
      }),
      { seed: 1, numRuns },
    )
  })

  it('of a named group may be on several streams, which may differ between ranks', () => {
    fc.assert(
      fc.property(
        jobs,
        metadata,
        offsets,
        fc.integer({ min: 2, max: 3 }),
        (options, written, clocks, streams) => {
          const first = { world: 20, pairs: 30, strides: 40 }
          const job = record(jobOf({ ...options, rounds: 3 * options.rounds }), options.ranks, {
            metadata: written,
            offset: (rank) => clocks[rank],
            stream: ({ layout, sequence }, rank) =>
              first[layout] + (written === 'none' || rank % 2 ? sequence % streams : 0),
          })
          const { collectives } = collectivesOf(job.timeline, new Warnings())
          expect(brokenLaw(collectives, job)).toBeNull()
          expect(mismatch(collectives, job, 0)).toBeNull()
        },
      ),
      { seed: 5, numRuns: 60 },
    )
  })

  it('are matched although recordings begin, end or miss calls at different positions', () => {
    const drops = fc.record({ lead: fc.nat(4), trail: fc.nat(4), missing: fc.nat(2), seed: fc.nat() })
    fc.assert(
      fc.property(jobs, metadata, offsets, drops, (options, written, clocks, drop) => {
        const next = random(drop.seed)
        const plan = Array.from({ length: options.ranks }, () => ({
          lead: Math.floor(next() * (drop.lead + 1)),
          trail: Math.floor(next() * (drop.trail + 1)),
          missing: Array.from({ length: drop.missing }, () => next()),
        }))
        const job = record(jobOf(options), options.ranks, {
          metadata: written,
          offset: (rank) => clocks[rank],
          has: (rank, k, calls) => {
            const { lead, trail, missing } = plan[rank]
            return k >= lead && k < calls - trail && !missing.some((at) => Math.floor(at * calls) === k)
          },
        })
        const { collectives } = collectivesOf(job.timeline, new Warnings())
        expect(brokenLaw(collectives, job)).toBeNull()
        expect(mismatch(collectives, job, 0)).toBeNull()
      }),
      { seed: 2, numRuns: 200 },
    )
  })

  it('are split within the noise of their ends and the residual of drifting clocks', () => {
    fc.assert(
      fc.property(
        jobs,
        metadata,
        offsets,
        fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 8, maxLength: 8 }),
        fc.integer({ min: 1, max: 4_000 }),
        (options, written, clocks, partsPerMillion, endNoise) => {
          const job = record(jobOf({ ...options, endNoise }), options.ranks, {
            metadata: written,
            offset: (rank) => clocks[rank],
            drift: (rank) => partsPerMillion[rank] / 1e6,
          })
          const { collectives } = collectivesOf(job.timeline, new Warnings())
          expect(brokenLaw(collectives, job)).toBeNull()
          // The tolerance: twice the noise of the ends, 10 us for uncorrected clocks, and 100 ppm of up to 0.4 s of
          // trace.
          expect(mismatch(collectives, job, 2 * endNoise + 10_000 + 40_000)).toBeNull()
        },
      ),
      { seed: 3, numRuns: 150 },
    )
  })

  it('do not change when a constant is added to one clock; only its correction does', () => {
    fc.assert(
      fc.property(
        tiedJobs,
        metadata,
        fc.bigInt(20_000n, 10n ** 15n),
        fc.nat(7),
        (options, written, shift, moved) => {
          const calls = jobOf(options)
          const audit = (by: bigint) =>
            collectivesOf(
              record(calls, options.ranks, {
                metadata: written,
                offset: (rank) => (rank === moved ? by : 0n),
              }).timeline,
              new Warnings(),
            )
          const [before, after] = [audit(0n), audit(shift)]
          expect([...after.collectives]).toEqual([...before.collectives])
          before.clocks.forEach((clock, index) => {
            expect(clock.aligned).toBe(false)
            if (moved === 0 || index !== moved) return
            expect(after.clocks[index]).toMatchObject({ aligned: true, drift: 0, residual: 0 })
            expect(Math.abs(after.clocks[index].correction + Number(shift))).toBeLessThanOrEqual(1)
          })
        },
      ),
      { seed: 4, numRuns: 60 },
    )
  })

  it('have waits that are lower bounds if ranks have no trace, and a warning names these ranks', () => {
    const calls = jobOf({ seed: 5, ranks: 8, layouts: ['world', 'pairs'], rounds: 20 })
    const job = record(calls, 8, { metadata: 'ranks', traced: (rank) => rank < 3 || rank === 6 })
    const warnings = new Warnings()
    const { collectives } = collectivesOf(job.timeline, warnings)
    expect(mismatch(collectives, job, 0)).toBeNull()
    for (const { members, complete, groupSize } of collectives)
      expect(complete).toBe(members.length === groupSize)
    expect([...collectives].some(({ complete }) => complete)).toBe(true)
    expect(warnings.list()).toEqual([expect.objectContaining({ class: 'missing-ranks', count: 4 })])
    expect(warnings.list()[0].message).toContain('ranks 3-5, 7;')
  })

  it('of a single rank have no waits, and the size of the world identifies the missing ranks', () => {
    const calls = jobOf({ seed: 6, ranks: 4, layouts: ['world'], rounds: 5 })
    const job = record(calls, 4, { metadata: 'none', traced: (rank) => rank === 2 })
    const warnings = new Warnings()
    const { collectives, clocks } = collectivesOf(job.timeline, warnings, 4)
    expect(collectives).toHaveLength(5)
    for (const collective of collectives) {
      expect(collective).toMatchObject({ complete: false, last: null, matchedBy: null })
      expect(collective.members).toMatchObject([{ wait: null, transfer: null }])
    }
    expect(clocks).toMatchObject([{ rank: 2, offset: 0, aligned: false, residual: null, collectives: 0 }])
    expect(warnings.list()).toEqual([expect.objectContaining({ class: 'missing-ranks', count: 3 })])
    expect(warnings.list()[0].message).toContain('ranks 0-1, 3;')
  })

  it('that lack a counterpart are counted', () => {
    const calls = jobOf({ seed: 7, ranks: 2, layouts: ['world'], rounds: 30 })
    const job = record(calls, 2, { metadata: 'ranks', has: (rank, k) => rank === 0 || (k !== 11 && k > 2) })
    const warnings = new Warnings()
    collectivesOf(job.timeline, warnings)
    expect(warnings.list()).toEqual([expect.objectContaining({ class: 'unmatched', count: 4 })])
  })

  it('come in order of the first arrival', () => {
    const calls = jobOf({ seed: 8, ranks: 4, layouts: ['pairs', 'strides'], rounds: 20 })
    const job = record(calls, 4, { metadata: 'communicator' })
    const { collectives } = collectivesOf(job.timeline, new Warnings())
    const first = Array.from(collectives, ({ members }) =>
      Math.min(...job.callOf(members[0].rank, members[0].event).parts.map(({ arrival }) => arrival)),
    )
    expect(first).toEqual([...first].sort((a, b) => a - b))
  })
})

it('ranks are written in ranges', () => {
  expect(ranges([])).toBe('')
  expect(ranges([3])).toBe('3')
  expect(ranges([0, 1, 2, 5, 7, 8])).toBe('0-2, 5, 7-8')
})
