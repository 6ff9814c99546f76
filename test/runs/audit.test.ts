/** The audit of a run's trace: a kernel whose programs are all blocked does not compute. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { partitionOf } from '../../src/taxes/partition.ts'
import { partNames } from '../../src/taxes/ledger.ts'
import { type Intervals, total } from '../../src/timeline/intervals.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { blockedTime } from '../../src/timeline/workers.ts'
import { covers, type MadeWorker, type Piece, timelineOf } from './handmade.ts'

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
const workers: fc.Arbitrary<MadeWorker[]> = fc
  .array(
    fc.record({
      programs: fc.array(piece, { minLength: 1, maxLength: 2 }),
      waits: fc.array(piece, { maxLength: 3 }),
      transfers: fc.array(piece, { maxLength: 3 }),
    }),
    { maxLength: 3 },
  )
  .map((all) => all.map((one, leader) => ({ ...one, leader })))

describe('the audit of an own run', () => {
  it('counts an instant as wait or transfer when no program of a kernel computes', () => {
    fc.assert(
      fc.property(workers, fc.array(piece, { minLength: 1, maxLength: 3 }), (workers, pieces) => {
        // Something starts at 0, so that times are those of the rank.
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
          return covers(kernels, time) ? (state ?? 'compute') : 'idle'
        })
        const busy = ['compute', 'transfer', 'wait'] as const
        const found = expected.map((_, time) => busy.find((part) => has(parts[part], time)) ?? 'idle')
        expect(found).toEqual(expected)
        expect(partNames.reduce((sum, part) => sum + total(parts[part]), 0)).toBe(LENGTH)
      }),
      { seed: 5, numRuns: 100 },
    )
  })

  it('leaves traces alone in which nothing was recorded inside kernels', () => {
    const kernels = [{ name: 'kernel', from: 0, to: LENGTH }]
    const annotated = { leader: 0, programs: [{ from: 10, to: 20 }], waits: [], transfers: [] }
    const timeline = timelineOf([{ kernels, workers: [annotated] }])
    expect(total(partsOf(timeline).compute)).toBe(LENGTH)
    expect(blockedTime(timeline.ranks[0]).waiting).toHaveLength(0)
  })
})
