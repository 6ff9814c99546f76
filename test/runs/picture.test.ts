/**
 * Compares the division of a run's time with a count, nanosecond by nanosecond, of random timelines. The timelines have
 * several ranks, workers, roles and streams, programs with waits and copies, and idle time between kernels.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { ledgerOf, pictureOf } from '../../src/runs/ledger.ts'
import { type RunPart, runPartNames } from '../../src/runs/results.ts'
import { offsetBetween } from '../../src/timeline/timeline.ts'
import {
  covers,
  type MadeKernel,
  type MadeRank,
  type MadeWorker,
  type Piece,
  timelineOf,
} from './handmade.ts'

const LENGTH = 60

const piece = fc
  .tuple(fc.nat(LENGTH - 2), fc.integer({ min: 1, max: 15 }))
  .map(([from, length]): Piece => ({ from, to: Math.min(LENGTH, from + length) }))
const pieces = (most: number): fc.Arbitrary<Piece[]> => fc.array(piece, { maxLength: most })
/** Intervals that do not overlap, like the programs of a worker. */
const sequence = fc
  .array(fc.tuple(fc.nat(8), fc.integer({ min: 1, max: 20 })), { maxLength: 4 })
  .map((steps) => {
    let at = 0
    return steps.map(([pause, length]) => {
      const from = at + pause
      at = from + length
      return { from, to: at }
    })
  })
const worker: fc.Arbitrary<MadeWorker> = fc
  .record({
    stream: fc.nat(1),
    leader: fc.nat(2),
    role: fc.nat(1),
    programs: sequence,
    waits: pieces(3),
    transfers: pieces(3),
  })
  .map((one) => (one.role === 0 ? one : { ...one, programs: [] }))
const rank: fc.Arbitrary<MadeRank> = fc.record({
  // No two kernels of the random timeline start at the same time, so it is clear which one ends an idle interval.
  kernels: fc.uniqueArray(
    fc
      .tuple(
        piece,
        fc.nat(1),
        fc.boolean(),
        fc.option(fc.integer({ min: 2, max: 12 }), { nil: undefined }),
        fc.constantFrom('first', 'second', 'third'),
      )
      .map(([{ from, to }, stream, moves, early, name]): MadeKernel => {
        const call = early && { from: from - early, to: from - Math.floor(early / 2) }
        return { from, to, stream, moves, name, ...(call ? { call } : {}) }
      }),
    { maxLength: 4, selector: ({ from }) => from },
  ),
  waits: pieces(2),
  workers: fc.uniqueArray(worker, {
    minLength: 1,
    maxLength: 5,
    selector: ({ stream, leader, role }) => `${stream} ${leader} ${role}`,
  }),
})

/**
 * The activity of a worker at a time. A role takes part in a program of its leader (the worker that runs the program)
 * if the role recorded a wait or a transfer during the program.
 */
function doing(
  worker: MadeWorker,
  others: readonly MadeWorker[],
  moving: readonly MadeKernel[],
  time: number,
): RunPart | undefined {
  if (covers(worker.waits, time)) return 'wait'
  if (covers(worker.transfers, time)) return 'transfer'
  const recorded = [...worker.waits, ...worker.transfers]
  const programs =
    worker.programs.length > 0
      ? worker.programs
      : others
          .flatMap(({ programs }) => programs)
          .filter((program) => recorded.some(({ from, to }) => from < program.to && program.from < to))
  if (!covers(programs, time)) return undefined
  const moves = moving.filter(({ stream }) => stream === worker.stream)
  return covers(moves, time) ? 'transfer' : 'useful'
}

/** The category to which a nanosecond of a processor's time belongs, by the definitions of docs/taxes.md. */
function partAt(
  { kernels, workers, waits = [] }: MadeRank,
  leader: number,
  time: number,
  { from, to }: Piece,
  lastEnd: number,
): RunPart {
  if (!covers(kernels, time)) {
    const later = kernels.filter((kernel) => kernel.from > time && kernel.from < to && kernel.to > from)
    if (later.length === 0) return time < lastEnd ? 'wait' : 'other'
    const next = later.reduce((first, kernel) => (kernel.from < first.from ? kernel : first))
    if (!next.call) return 'other'
    if (time >= next.call.to) return 'launch'
    const calls = kernels.flatMap(({ call }) => call ?? [])
    return covers(calls, time) && !covers(waits, time) ? 'launch' : 'other'
  }
  const moving = kernels.filter(({ moves }) => moves)
  const all = (wanted: number): readonly (RunPart | undefined)[] => {
    const own = workers.filter((worker) => worker.leader === wanted)
    return own.map((worker) => doing(worker, own, moving, time))
  }
  const found = (['useful', 'transfer', 'wait'] as const).find((part) => all(leader).includes(part))
  if (found) return found
  return workers.some((worker) => all(worker.leader).some((part) => part !== undefined)) ? 'other' : 'launch'
}

/**
 * The kernels that are related to those of `rank`: two ranks are related if kernels of the same name run on both in the
 * window, directly or through other ranks.
 */
function relatedKernels(ranks: readonly MadeRank[], rank: number, window: Piece): MadeKernel[] {
  const kernels = ranks.map((one) =>
    one.kernels.filter(({ from, to }) => from < window.to && to > window.from),
  )
  const reached = new Set(kernels[rank].map(({ name }) => name))
  for (let before = -1; before < reached.size;) {
    before = reached.size
    for (const own of kernels)
      if (own.some(({ name }) => reached.has(name))) for (const { name } of own) reached.add(name)
  }
  return kernels.flat().filter(({ name }) => reached.has(name))
}

describe('the tracks of a window', () => {
  it('assign every nanosecond of every worker to one part, and the ledger is their mean', () => {
    fc.assert(
      fc.property(fc.array(rank, { minLength: 1, maxLength: 3 }), piece, (ranks, window) => {
        const timeline = timelineOf(ranks)
        const base = Number(timeline.ranks[0].base)
        const shifted = { from: window.from - base, to: window.to - base }
        const picture = pictureOf(timeline, shifted, { bandwidth: 1 })
        const wall = window.to - window.from
        expect(picture.wall).toBe(wall)
        picture.ranks.forEach(({ tracks, ledger }, i) => {
          const ends = relatedKernels(ranks, i, window).map(({ to }) => to)
          const lastEnd = Math.min(window.to, Math.max(window.from, ...ends))
          const leaders = [...new Set(ranks[i].workers.map(({ leader }) => leader))].sort((a, b) => a - b)
          expect(tracks.map(({ name }) => name)).toEqual(leaders.map((leader) => `worker ${leader}`))
          const sums = Object.fromEntries(runPartNames.map((part) => [part, 0])) as Record<RunPart, number>
          tracks.forEach(({ spans }, n) => {
            // The spans of a track have no gaps from the start to the end of the window.
            expect([0, ...spans.map(({ to }) => to)]).toEqual([...spans.map(({ from }) => from), wall])
            const parts = Array.from({ length: wall }, (_, at) =>
              partAt(ranks[i], leaders[n], window.from + at, window, lastEnd),
            )
            expect(spans.flatMap(({ from, to, part }) => new Array<RunPart>(to - from).fill(part))).toEqual(
              parts,
            )
            for (const part of parts) sums[part]++
          })
          for (const part of runPartNames)
            expect(ledger.parts[part]).toBeCloseTo(sums[part] / leaders.length, 9)
          expect(runPartNames.reduce((sum, part) => sum + ledger.parts[part], 0)).toBeCloseTo(wall, 9)
        })
        const mean = ledgerOf(picture)
        for (const part of runPartNames) {
          const sum = picture.ranks.reduce((total, { ledger }) => total + ledger.parts[part], 0)
          expect(mean.parts[part]).toBeCloseTo(sum / ranks.length, 9)
        }
      }),
      { seed: 11, numRuns: 150 },
    )
  })

  it('account for the different time bases of ranks', () => {
    const worker = { leader: 0, programs: [{ from: 30, to: 40 }], waits: [], transfers: [] }
    const timeline = timelineOf([
      {
        kernels: [{ name: 'kernel', from: 10, to: 20 }],
        workers: [{ ...worker, programs: [{ from: 10, to: 20 }] }],
      },
      { kernels: [{ name: 'kernel', from: 30, to: 40 }], workers: [worker] },
    ])
    expect(offsetBetween(timeline.ranks[1], timeline.ranks[0])).toBe(20)
    const { ranks } = pictureOf(timeline, { from: 0, to: 30 }, { bandwidth: 1 })
    expect(ranks.map(({ ledger: { parts } }) => parts)).toEqual([
      { useful: 10, launch: 0, wait: 20, transfer: 0, other: 0 },
      { useful: 10, launch: 0, wait: 0, transfer: 0, other: 20 },
    ])
  })

  it('have labels, and distinguish dispatch from gap', () => {
    const timeline = timelineOf([
      {
        kernels: [
          { name: 'first', from: 10, to: 50, call: { from: 0, to: 4 } },
          { name: 'second', from: 80, to: 90, call: { from: 55, to: 70 } },
        ],
        workers: [
          {
            leader: 0,
            programs: [
              { from: 12, to: 48 },
              { from: 80, to: 90 },
            ],
            waits: [{ from: 20, to: 25 }],
            transfers: [{ from: 30, to: 40 }],
          },
        ],
      },
    ])
    const [{ tracks }] = pictureOf(timeline, { from: 0, to: 100 }, { bandwidth: 1 }).ranks
    expect(tracks[0].spans.map(({ from, to, part, label }) => `${from}-${to} ${part}: ${label}`)).toEqual([
      '0-4 launch: dispatch: the host is launching first',
      '4-10 launch: gap before first',
      '10-12 launch: a kernel starts or ends: no program runs',
      '12-20 useful: program 0',
      '20-25 wait: wait for ready of rank 0',
      '25-30 useful: program 0',
      '30-40 transfer: copy with rank 0, 64 bytes',
      '40-48 useful: program 0',
      '48-50 launch: a kernel starts or ends: no program runs',
      '50-55 other: the host does other work before it launches second',
      '55-70 launch: dispatch: the host is launching second',
      '70-80 launch: gap before second',
      '80-90 useful: program 1',
      '90-100 other: no more work to run',
    ])
  })

  it('show a wait only while all programs on a processor are blocked', () => {
    // First one program computes while the other waits, then both wait.
    const blocks = [
      { programs: [{ from: 0, to: 40 }], waits: [{ from: 10, to: 30 }], transfers: [] },
      { programs: [{ from: 0, to: 40 }], waits: [{ from: 20, to: 40 }], transfers: [] },
    ]
    const kernels = [{ name: 'kernel', from: 0, to: 40 }]
    const parts = (place: (n: number) => { leader: number; role: number }) => {
      const workers = blocks.map((block, n) => ({ ...block, ...place(n) }))
      const timeline = timelineOf([{ kernels, workers }])
      return pictureOf(timeline, { from: 0, to: 40 }, { bandwidth: 1 }).ranks[0].ledger.parts
    }
    const together = parts((n) => ({ leader: 0, role: n }))
    expect(together).toEqual({ useful: 30, launch: 0, wait: 10, transfer: 0, other: 0 })
    const apart = parts((n) => ({ leader: n, role: 0 }))
    expect(apart).toEqual({ useful: 20, launch: 0, wait: 20, transfer: 0, other: 0 })
  })

  it('count kernels inside which no event was recorded as useful, as the audit does', () => {
    const timeline = timelineOf([{ kernels: [{ name: 'kernel', from: 0, to: 40 }], workers: [] }])
    const [{ ledger, tracks }] = pictureOf(timeline, { from: 0, to: 40 }, { bandwidth: 1 }).ranks
    expect(ledger.parts.useful).toBe(40)
    expect(tracks[0].spans[0].label).toMatch(/no event was recorded/)
  })
})
