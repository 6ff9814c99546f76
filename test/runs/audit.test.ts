/**
 * Audits a run of Arke's own kernels. With one processor, the audit agrees with the ledger of the run, in finer parts.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readArkeTrace } from '../../src/audit/arkeTrace.ts'
import { pictureOf } from '../../src/runs/ledger.ts'
import { audit, type Ledger } from '../../src/taxes/audit.ts'
import { partitionOf } from '../../src/taxes/partition.ts'
import { partNames } from '../../src/taxes/ledger.ts'
import { writeChrome } from '../../src/timeline/chrome.ts'
import { type Intervals, total } from '../../src/timeline/intervals.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
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

function partsOf(timeline: Timeline) {
  const none = { waiting: new Float64Array(0), transferring: new Float64Array(0) }
  return partitionOf(timeline.ranks[0], timeline.names, [0, LENGTH], none).parts
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

const ledgerOfTrace = (timeline: Timeline): Ledger => audit(timeline, new Warnings()).ranks[0].ledger

/** Merges the parts of the audit into the coarser parts of a run's ledger. */
const asRun = ({ parts }: Pick<Ledger, 'parts'>) => ({
  useful: parts.compute,
  launch:
    parts.dispatch + parts.gap + parts.hostBlocked + parts.hostAbsent + parts.dependency + parts.unattributed,
  wait: parts.wait,
  transfer: parts.transfer,
  other: parts.copy + parts.communication,
})

describe("the audit of a run of Arke's kernels", () => {
  it('agrees with the ledger of a run on one processor, also from the exported trace', async () => {
    await fc.assert(
      fc.asyncProperty(kernels, worker, async (kernels, worker) => {
        const timeline = timelineOf([{ kernels, workers: [{ ...worker, leader: 0 }] }])
        const [from, to] = timeline.ranks[0].deviceSpan!
        const { ledger } = pictureOf(timeline, { from, to }, { bandwidth: 1 }).ranks[0]
        const text = new TextEncoder().encode([...writeChrome(timeline)].join(''))
        const read = await readArkeTrace(text)
        const again = { ranks: read.ranks.map(({ timeline }) => timeline), names: read.names }
        for (const one of [timeline, again]) {
          const audited = ledgerOfTrace(one)
          expect(audited.wall).toBe(ledger.wall)
          expect(asRun(audited)).toEqual(ledger.parts)
        }
      }),
      { seed: 6, numRuns: 100 },
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

  it('counts an instant as wait or transfer when no program computes, and as a gap when none runs', () => {
    fc.assert(
      fc.property(workers, fc.array(piece, { minLength: 1, maxLength: 3 }), (workers, pieces) => {
        // A kernel starts at 0, so that times are relative to the rank's base.
        const kernels = [{ from: 0, to: 1 }, ...pieces].map((one) => ({ ...one, name: 'kernel' }))
        const parts = partsOf(timelineOf([{ kernels, workers }]))
        const expected = Array.from({ length: LENGTH }, (_, time) => {
          const states = workers.map(({ programs, waits, transfers }) =>
            covers(waits, time)
              ? 'wait'
              : covers(transfers, time)
                ? 'transfer'
                : covers(programs, time)
                  ? 'compute'
                  : undefined,
          )
          const state = (['compute', 'transfer', 'wait'] as const).find((one) => states.includes(one))
          // Without worker tracks, nothing was recorded inside kernels.
          const unknown = workers.length === 0 ? 'compute' : 'gap'
          return covers(kernels, time) ? (state ?? unknown) : 'unattributed'
        })
        const found = expected.map((_, time) => partNames.find((part) => has(parts[part], time)))
        expect(found).toEqual(expected)
        expect(partNames.reduce((sum, part) => sum + total(parts[part]), 0)).toBe(LENGTH)
      }),
      { seed: 5, numRuns: 100 },
    )
  })

  it('does not change for traces in which nothing was recorded inside kernels', () => {
    const kernels = [{ name: 'kernel', from: 0, to: LENGTH }]
    const annotations = [{ from: 10, to: 20 }]
    expect(total(partsOf(timelineOf([{ kernels, workers: [], annotations }])).compute)).toBe(LENGTH)
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
