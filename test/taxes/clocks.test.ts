/**
 * Tests clock estimates: known offsets of synthetic traces are found, clocks that agree are kept, and warnings name the
 * ranks that share no collective with the others.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AGREEMENT } from '../../src/taxes/agreement.ts'
import { fromCommon } from '../../src/taxes/clocks.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { toCommon } from '../../src/taxes/collective.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { jobOf, type JobOptions, record, type Recording } from './job.ts'
import { mismatch } from './planted.ts'

function audit(options: JobOptions, recording: Recording) {
  const job = record(jobOf(options), options.ranks, recording)
  const warnings = new Warnings()
  return { job, ...collectivesOf(job.timeline, warnings), warnings: warnings.list() }
}

const world = { seed: 1, ranks: 4, layouts: ['world'], rounds: 60 } as const

describe('clocks', () => {
  it('that agree are not corrected', () => {
    const { clocks, warnings } = audit({ ...world, endNoise: 5_000 }, { metadata: 'ranks' })
    for (const clock of clocks) expect(clock).toMatchObject({ aligned: false, correction: 0, drift: 0 })
    expect(warnings).toEqual([])
  })

  it('that differ by less than the scatter of ends are not corrected', () => {
    fc.assert(
      fc.property(fc.nat(), fc.bigInt(-6_000n, 6_000n), (seed, offset) => {
        const { clocks, collectives, job } = audit(
          { ...world, seed },
          { metadata: 'ranks', offset: (rank) => (rank === 2 ? offset : 0n) },
        )
        expect(clocks[2].aligned).toBe(false)
        expect(mismatch(collectives, job, AGREEMENT)).toBeNull()
      }),
      { seed: 1, numRuns: 30 },
    )
  })

  it('that are apart are corrected, which a warning says', () => {
    const { clocks, warnings } = audit(world, {
      metadata: 'ranks',
      offset: (rank) => (rank === 3 ? -250_000_000n : 0n),
    })
    expect(clocks.map(({ correction }) => correction)).toEqual([0, 0, 0, 250_000_000])
    expect(clocks[3]).toMatchObject({ rank: 3, aligned: true, drift: 0, residual: 0, collectives: 60 })
    expect(warnings).toEqual([
      {
        class: 'aligned',
        count: 1,
        message:
          'the clock of rank 3 disagrees with collective ends by 250000.000 µs; ' +
          'after alignment, the median distance from the common end is 0.000 µs',
      },
    ])
  })

  it('may be centuries apart', () => {
    const { clocks, collectives, job, warnings } = audit(world, {
      metadata: 'ranks',
      offset: (rank) => (rank === 1 ? -1_600_000_000_000_000_000n : rank === 2 ? 10n ** 19n : 0n),
    })
    expect(mismatch(collectives, job, 0)).toBeNull()
    expect(clocks.map(({ aligned }) => aligned)).toEqual([false, true, true, false])
    expect(clocks[1].correction / 1.6e18).toBeCloseTo(1, 12)
    expect(clocks[2].correction / -1e19).toBeCloseTo(1, 12)
    expect(warnings.map((warning) => warning.class)).toEqual(['aligned'])
  })

  it('that drift are followed', () => {
    fc.assert(
      fc.property(
        fc.nat(),
        fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 4, maxLength: 4 }),
        fc.constantFrom('communicator' as const, 'ranks' as const, 'none' as const),
        (seed, partsPerMillion, metadata) => {
          // The job runs for about six seconds, over which a drift of 50 ppm adds up to 300 us.
          const { clocks, collectives, job } = audit(
            { ...world, seed, rounds: 300, compute: 40_000_000, endNoise: 1_000 },
            { metadata, drift: (rank) => partsPerMillion[rank] / 1e6 },
          )
          expect(mismatch(collectives, job, AGREEMENT + 3_000)).toBeNull()
          clocks.forEach(({ drift, aligned }, rank) => {
            const planted = partsPerMillion[0] - partsPerMillion[rank]
            if (Math.abs(planted) > 10) {
              expect(aligned).toBe(true)
              expect(Math.abs(drift * 1e6 - planted)).toBeLessThan(0.5)
            }
          })
        },
      ),
      { seed: 2, numRuns: 25 },
    )
  })

  it('are connected to the first rank through other ranks', () => {
    // The process groups are [0, 1], [2, 3], [0, 2] and [1, 3], so rank 3 shares no group with rank 0.
    const offsets = [0n, 3_000_000n, -70_000_000n, 900_000_000n]
    const { clocks, collectives, job } = audit(
      { seed: 3, ranks: 4, layouts: ['pairs', 'strides'], rounds: 30 },
      { metadata: 'ranks', offset: (rank) => offsets[rank] },
    )
    expect(mismatch(collectives, job, 0)).toBeNull()
    expect(clocks.map(({ correction }) => BigInt(-correction))).toEqual(offsets)
  })

  it('that drift are followed through other ranks', () => {
    const partsPerMillion = [10, -30, 45, -50]
    const { clocks, collectives, job } = audit(
      { seed: 5, ranks: 4, layouts: ['pairs', 'strides'], rounds: 200, compute: 40_000_000 },
      { metadata: 'ranks', drift: (rank) => partsPerMillion[rank] / 1e6 },
    )
    expect(mismatch(collectives, job, 2_000)).toBeNull()
    clocks.forEach(({ drift }, rank) => {
      expect(Math.abs(drift * 1e6 - (partsPerMillion[0] - partsPerMillion[rank]))).toBeLessThan(0.1)
    })
  })

  it('of ranks that share no collective with the first rank are kept, with a warning', () => {
    const { clocks, collectives, job, warnings } = audit(
      { seed: 4, ranks: 4, layouts: ['pairs'], rounds: 30 },
      { metadata: 'ranks', offset: (rank) => (rank >= 2 ? 5_000_000n : 0n) },
    )
    expect(mismatch(collectives, job, 0)).toBeNull()
    for (const { aligned } of clocks) expect(aligned).toBe(false)
    expect(warnings).toMatchObject([{ class: 'clock', count: 2 }])
    expect(warnings[0].message).toBe(
      "no matched collective connects ranks 2-3 to rank 0; they keep the trace's clock",
    )
  })

  it('of unconnected ranks that are years away are not called aligned', () => {
    // Ranks 2 and 3 are years away from the others. Relative to rank 2, rank 3 is 5 ms ahead, as their collectives
    // show.
    const years = 100_000_000_000_000_000n
    const { clocks, collectives, job, warnings } = audit(
      { seed: 4, ranks: 4, layouts: ['pairs'], rounds: 30 },
      { metadata: 'ranks', offset: (rank) => (rank < 2 ? 0n : years + (rank === 3 ? 5_000_000n : 0n)) },
    )
    expect(mismatch(collectives, job, 0)).toBeNull()
    expect(clocks.map(({ aligned, correction }) => [aligned, correction])).toEqual([
      [false, 0],
      [false, 0],
      [false, 0],
      [true, -5_000_000],
    ])
    expect(clocks[2].offset).toBe(0)
    expect(warnings.map(({ class: of, count }) => [of, count])).toEqual([
      ['clock', 2],
      ['aligned', 1],
    ])
    expect(warnings[0].message).toMatch(/^no matched collective connects ranks 2-3 to rank 0, .* years apart/)
    expect(warnings[1].message).toMatch(/^the clock of rank 3 disagrees .* by 5000\.000 µs/)
  })

  it('of a single unconnected rank are reported in the singular', () => {
    const { warnings } = audit(
      { seed: 4, ranks: 3, layouts: ['pairs'], rounds: 30 },
      { metadata: 'ranks', offset: (rank) => (rank === 2 ? 5_000_000n : 0n) },
    )
    expect(warnings.find((one) => one.class === 'clock')?.message).toMatch(
      /connects rank 2 to rank 0; it keeps/,
    )
  })

  it('of many ranks have the residual that sorting all ends gives', () => {
    const ranks = 40
    const options = { seed: 6, ranks, layouts: ['world'], rounds: 21, endNoise: 9_000 } as const
    const { clocks, collectives, job } = audit(options, { metadata: 'communicator' })
    const middle = (values: number[]): number => {
      const sorted = [...values].sort((a, b) => a - b)
      return (sorted[(sorted.length - 1) >> 1] + sorted[sorted.length >> 1]) / 2
    }
    const distances = clocks.map((): number[] => [])
    for (const { members } of collectives) {
      const ends = members.map(({ rank, event }) => {
        const { start, duration } = job.timeline.ranks[rank].events
        return toCommon(clocks[rank], start[event] + duration[event])
      })
      members.forEach(({ rank }, i) => distances[rank].push(Math.abs(ends[i] - middle(ends))))
    }
    expect(clocks.map(({ residual }) => residual)).toEqual(distances.map((of) => Math.round(middle(of))))
  })

  it('that let a rank leave before another arrives are corrected', () => {
    // Ends scatter by up to 400 us, so a clock offset of 200 us would not be significant. Some transfers are shorter
    // than 200 us, so the offset still makes a rank leave before another arrives.
    const options = { ...world, ranks: 2, rounds: 200, compute: 1_000_000, endNoise: 400_000 }
    const { clocks } = audit(options, {
      metadata: 'communicator',
      offset: (rank) => (rank === 1 ? 200_000n : 0n),
    })
    expect(clocks[1].aligned).toBe(true)
    expect(Math.abs(clocks[1].correction + 200_000)).toBeLessThan(50_000)
  })

  it('convert there and back', () => {
    const clock = {
      rank: 1,
      offset: 12_345,
      drift: 4e-5,
      aligned: true,
      correction: 0,
      residual: 0,
      collectives: 1,
    }
    expect(fromCommon(clock, toCommon(clock, 1e9))).toBeCloseTo(1e9, 3)
  })
})
