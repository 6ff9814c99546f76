/**
 * Random jobs of 8 to 512 ranks whose traces do not list process groups. The audit must never name a rank that is not
 * to blame, must name a rank in most jobs whose clocks are nearly right, and must always name a rank if the groups are
 * listed.
 */
import { describe, expect, it } from 'vitest'
import { long } from '../long.ts'
import { verdictOf } from './named.ts'
import { otherFamilies, recordSeeded, type SeededJob, seededJob, type SeededOptions } from './seededJobs.ts'
import { simulate, trueBlame } from './simulator.ts'

/** A description of the wrong verdict, or null. */
function wrong(job: SeededJob, named: number | null): string | null {
  if (named === null || !job.isMaterial) return null
  const most = Math.max(...job.blame)
  // If one rank was made slow and caused clearly the most waiting, no other rank may be named.
  const isRight = job.slow === null ? job.blame[named] >= most / 2 : named === job.slow
  return isRight ? null : `seed ${job.seed}: ${job.description}: named ${named}, slow ${job.slow}`
}

/** The share of jobs in which no rank is named, out of the jobs whose clocks differ by less than the shortest call. */
function judge(seeds: readonly number[], options: SeededOptions, metadata = false): number {
  let [abstained, counted] = [0, 0]
  const mistakes: string[] = []
  for (const seed of seeds) {
    const job = seededJob(seed, options)
    const { named } = verdictOf(recordSeeded(job, metadata))
    const mistake = wrong(job, named)
    if (mistake !== null) mistakes.push(mistake)
    if ((job.clocks === 'large' && !metadata) || !job.isMaterial) continue
    counted++
    if (named === null) abstained++
  }
  expect(mistakes).toEqual([])
  expect(counted).toBeGreaterThan(seeds.length / 3)
  return abstained / counted
}

const seeds = (from: number, count: number): number[] => Array.from({ length: count }, (_, i) => from + i)

describe('the simulator', () => {
  it('lets every rank of a call leave a transfer after the last one has come', () => {
    const call = { kind: 'allReduce', name: 'world', group: [0, 1], stream: 1, transfer: 50 }
    const program = (time: number) =>
      [
        { op: 'compute', time, name: 'gemm' },
        { op: 'issue', call },
        { op: 'wait', call },
      ] as const
    const ranks = simulate(
      [program(100_000), program(400_000)],
      () => 0,
      () => 0,
    )
    expect(ranks.map(({ calls }) => [...calls[0].call.starts])).toEqual([
      [100_000, 400_000],
      [100_000, 400_000],
    ])
    expect([...ranks[0].calls[0].call.ends]).toEqual([400_050, 400_050])
    expect([...trueBlame(ranks)]).toEqual([0, 300_000])
  })

  it('makes the slow rank the one that was most waited for', () => {
    for (const seed of seeds(1, 6)) {
      const { slow, blame } = seededJob(seed, { mostRanks: 16 })
      if (slow !== null) expect(blame[slow]).toBe(Math.max(...blame))
    }
  })
})

describe('jobs without metadata of process groups', () => {
  it('of 8 and 16 ranks: no innocent rank is named', () => {
    expect(judge(seeds(1, 16), { mostRanks: 16 })).toBeLessThan(0.35)
  })
  it(
    '300 of 8 to 512 ranks: no innocent rank is named, and a rank is named in most jobs',
    { ...long, timeout: 600_000 },
    () => {
      expect(judge(seeds(1, 300), {})).toBeLessThanOrEqual(0.2)
    },
  )
  it('of other kinds of parallelism: no innocent rank is named', { ...long, timeout: 600_000 }, () => {
    judge(seeds(1, 60), { families: otherFamilies })
  })
})

describe('jobs with metadata of process groups', () => {
  it('a rank is always named, and it is the right one', () => {
    expect(judge(seeds(1, 10), { mostRanks: 16 }, true)).toBe(0)
  })
  it('also in jobs of up to 512 ranks', { ...long, timeout: 600_000 }, () => {
    expect(judge(seeds(100, 60), {}, true)).toBe(0)
  })
})
