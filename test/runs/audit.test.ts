/**
 * Audits runs of Arke's own kernels. For any number of ranks, workers, roles and streams, the audit's categories, which
 * are finer, add up to those of the run's ledger.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readArkeTrace } from '../../src/audit/arkeTrace.ts'
import { pictureOf } from '../../src/runs/ledger.ts'
import { runPart } from '../../src/runs/picture.ts'
import { type RunPart, runPartNames } from '../../src/runs/results.ts'
import { audit, type Ledger } from '../../src/taxes/audit.ts'
import { partitionOf } from '../../src/taxes/partition.ts'
import { type Part, partNames } from '../../src/taxes/ledger.ts'
import { writeChrome } from '../../src/timeline/chrome.ts'
import { type Intervals, total } from '../../src/timeline/intervals.ts'
import { offsetBetween, type Timeline } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import {
  covers,
  type MadeKernel,
  type MadeRank,
  type MadeWorker,
  type Piece,
  timelineOf,
} from './handmade.ts'

const LENGTH = 60

const has = (set: Intervals, time: number): boolean =>
  Array.from({ length: set.length / 2 }, (_, i) => i).some((i) => set[2 * i] <= time && time < set[2 * i + 1])

/** The categories of time of each processor of the first rank. */
function partsOf(timeline: Timeline) {
  const none = { waiting: new Float64Array(0), transferring: new Float64Array(0) }
  const { processors } = partitionOf(timeline.ranks[0], timeline.names, [0, LENGTH], none)
  return processors.map(({ parts }) => parts)
}

const piece = fc
  .tuple(fc.nat(LENGTH - 2), fc.integer({ min: 1, max: 25 }))
  .map(([from, length]): Piece => ({ from, to: Math.min(LENGTH, from + length) }))
const worker = fc.record({
  programs: fc.array(piece, { minLength: 1, maxLength: 2 }),
  waits: fc.array(piece, { maxLength: 3 }),
  transfers: fc.array(piece, { maxLength: 3 }),
})
const workers: fc.Arbitrary<MadeWorker[]> = fc
  .array(worker, { maxLength: 3 })
  .map((all) => all.map((one, leader) => ({ ...one, leader })))

/** Kernels that run one after another, each enqueued before it starts. */
const kernels: fc.Arbitrary<MadeKernel[]> = fc
  .array(
    fc.record({
      pause: fc.nat(8),
      length: fc.integer({ min: 1, max: 12 }),
      early: fc.integer({ min: 2, max: 15 }),
      moves: fc.boolean(),
    }),
    { minLength: 1, maxLength: 5 },
  )
  .map((all) => {
    let at = 0
    return all.map(({ pause, length, early, moves }, n) => {
      const from = at + pause
      at = from + length
      const call = { from: from - early, to: from - Math.floor(early / 2) }
      return { name: `kernel ${n}`, from, to: at, moves, call }
    })
  })

/** A random rank: some workers are roles, some run no program, and kernels run on two streams. */
const rank: fc.Arbitrary<MadeRank> = fc.record({
  kernels: kernels.chain((all) =>
    fc
      .array(fc.nat(1), { minLength: all.length, maxLength: all.length })
      .map((streams) => all.map((kernel, n) => ({ ...kernel, stream: streams[n] }))),
  ),
  waits: fc.array(piece, { maxLength: 2 }),
  workers: fc.uniqueArray(
    fc
      .record({ stream: fc.nat(1), leader: fc.nat(3), role: fc.nat(1), idle: fc.boolean(), worker })
      .map(({ worker, idle, ...place }): MadeWorker => {
        const programs = idle || place.role > 0 ? [] : worker.programs
        return { ...place, ...worker, ...(idle ? { waits: [], transfers: [] } : {}), programs }
      }),
    { minLength: 1, maxLength: 7, selector: ({ stream, leader, role }) => `${stream} ${leader} ${role}` },
  ),
})

const ledgerOfTrace = (timeline: Timeline): Ledger => audit(timeline, new Warnings()).ranks[0].ledger

/** Merges the categories of the audit into the coarser categories of a run's ledger. */
function asRun({ parts }: Pick<Ledger, 'parts'>): Record<RunPart, number> {
  const sums = Object.fromEntries(runPartNames.map((part) => [part, 0])) as Record<RunPart, number>
  for (const part of partNames) sums[runPart[part]] += parts[part]
  return sums
}

async function exported(timeline: Timeline): Promise<Timeline> {
  const text = new TextEncoder().encode([...writeChrome(timeline)].join(''))
  const { ranks, names, warnings } = await readArkeTrace(text)
  expect(warnings).toEqual([])
  return { ranks: ranks.map(({ timeline }) => timeline), names }
}

describe("the audit of a run of Arke's kernels", () => {
  it('agrees with the ledger of the run, also from the exported trace', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(rank, { minLength: 1, maxLength: 3 }), async (ranks) => {
        const timeline = timelineOf(ranks)
        for (const one of [timeline, await exported(timeline)])
          for (const { index, ledger } of audit(one, new Warnings()).ranks) {
            const shift = offsetBetween(timeline.ranks[index], timeline.ranks[0])
            const window = { from: ledger.from + shift, to: ledger.to + shift }
            const own = pictureOf(timeline, window, { bandwidth: 1 }).ranks[index].ledger
            expect(ledger.wall).toBe(own.wall)
            const [found, expected] = [asRun(ledger), own.parts]
            for (const part of runPartNames)
              expect(found[part], `${part} of rank ${index}`).toBeCloseTo(expected[part], 9)
            expect(partNames.reduce((sum, part) => sum + ledger.parts[part], 0)).toBeCloseTo(ledger.wall, 9)
          }
      }),
      { seed: 6, numRuns: 150 },
    )
  })

  it('gives the same result for programs that fill their kernels as for the kernels alone', () => {
    fc.assert(
      fc.property(kernels, (made) => {
        const kernels = made.map((kernel) => ({ ...kernel, moves: false }))
        const worker = { leader: 0, programs: kernels, waits: [], transfers: [] }
        const recorded = ledgerOfTrace(timelineOf([{ kernels, workers: [worker] }]))
        expect(recorded).toEqual(ledgerOfTrace(timelineOf([{ kernels, workers: [] }])))
      }),
      { seed: 7, numRuns: 50 },
    )
  })

  it('does not depend on the order of processors, nor does the ledger of the run', () => {
    const shuffled = fc.shuffledSubarray([0, 1, 2], { minLength: 3 })
    fc.assert(
      fc.property(kernels, workers, shuffled, (kernels, workers, order) => {
        const permuted = workers.map((one, n) => ({ ...one, leader: order[n] }))
        const both = [workers, permuted].map((workers): MadeRank => ({ kernels, workers }))
        const timelines = both.map((rank) => timelineOf([rank]))
        const [from, to] = timelines[0].ranks[0].deviceSpan!
        const [own, other] = timelines.map(
          (one) => pictureOf(one, { from, to }, { bandwidth: 1 }).ranks[0].ledger,
        )
        expect(other).toEqual(own)
        expect(ledgerOfTrace(timelines[1])).toEqual(ledgerOfTrace(timelines[0]))
      }),
      { seed: 8, numRuns: 100 },
    )
  })

  it('divides the time of each worker, and counts a kernel without a running program as a gap', () => {
    fc.assert(
      fc.property(workers, fc.array(piece, { minLength: 1, maxLength: 3 }), (workers, pieces) => {
        // A kernel starts at 0, so that times are relative to the rank's base.
        const kernels = [{ from: 0, to: 1 }, ...pieces].map((one) => ({ ...one, name: 'kernel' }))
        const parts = partsOf(timelineOf([{ kernels, workers }]))
        const stateOf = ({ programs, waits, transfers }: MadeWorker, time: number): Part | undefined =>
          covers(waits, time)
            ? 'wait'
            : covers(transfers, time)
              ? 'transfer'
              : covers(programs, time)
                ? 'compute'
                : undefined
        const partAt = (worker: MadeWorker | undefined, time: number): Part => {
          if (!covers(kernels, time)) return 'unattributed'
          // Without worker tracks, no events inside kernels were recorded.
          if (!worker) return 'compute'
          const rest = workers.some((one) => stateOf(one, time)) ? 'vacant' : 'gap'
          return stateOf(worker, time) ?? rest
        }
        const times = Array.from({ length: LENGTH }, (_, time) => time)
        const processors = workers.length === 0 ? [undefined] : workers
        expect(
          parts.map((own) => times.map((time) => partNames.find((part) => has(own[part], time)))),
        ).toEqual(processors.map((worker) => times.map((time) => partAt(worker, time))))
        for (const own of parts)
          expect(partNames.reduce((sum, part) => sum + total(own[part]), 0)).toBe(LENGTH)
      }),
      { seed: 5, numRuns: 100 },
    )
  })

  it('does not change for traces in which nothing was recorded inside kernels', () => {
    const kernels = [{ name: 'kernel', from: 0, to: LENGTH }]
    const annotations = [{ from: 10, to: 20 }]
    expect(total(partsOf(timelineOf([{ kernels, workers: [], annotations }]))[0].compute)).toBe(LENGTH)
  })

  it('splits the communication of a single rank, and reports the cost of its group', () => {
    const kernels = [
      { name: 'gather', from: 0, to: 40, moves: true, call: { from: -9, to: -5 } },
      { name: 'gemm', from: 42, to: 60, call: { from: -5, to: -1 } },
    ]
    const programs = [
      { from: 0, to: 40 },
      { from: 42, to: 60 },
    ]
    const worker = { leader: 0, programs, waits: [{ from: 5, to: 20 }], transfers: [] }
    const { ranks, groups } = audit(timelineOf([{ kernels, workers: [worker] }]), new Warnings())
    expect(ranks[0].ledger).toMatchObject({ unsplit: false, communication: 40 })
    expect(ranks[0].ledger.parts).toMatchObject({ compute: 18, wait: 15, transfer: 25, gap: 2 })
    expect(groups[0].perRank).toMatchObject([{ communication: 40, wait: 15, transfer: 25 }])
  })
})
