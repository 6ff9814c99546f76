/**
 * Tests the ledger of a host program, which covers the launches between host waits, against ledgers worked out by hand.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { recordedRun } from '../../src/runs/recorded.ts'
import { runPartNames } from '../../src/runs/results.ts'
import { timelineOf, type MadeRank } from './handmade.ts'

/** A rank with two launches, a host wait between them, and one more launch. */
const rank = (late: number): MadeRank => ({
  kernels: [
    { name: 'first', call: { from: 100, to: 110 }, from: 150, to: 250 + late },
    { name: 'second', call: { from: 120, to: 130 }, from: 260 + late, to: 300 + late },
    { name: 'third', call: { from: 1000, to: 1010 }, from: 1050, to: 1150 },
  ],
  workers: [
    {
      leader: 0,
      programs: [
        { from: 150, to: 250 + late },
        { from: 260 + late, to: 300 + late },
        { from: 1050, to: 1150 },
      ],
      waits: [{ from: 1100, to: 1150 }],
      transfers: [],
    },
  ],
  waits: [{ from: 140, to: 320 }],
})

describe('a recorded run', () => {
  it('counts from a launch to the end of the last kernel before the host waits', () => {
    const { wall, stretches, launches, ranks } = recordedRun(timelineOf([rank(0), rank(20)]))
    // The first stretch ends with the late rank and lasts from 100 to 320 ns. The second stretch lasts from 1000 to
    // 1150 ns.
    expect({ wall, stretches, launches }).toEqual({ wall: 220 + 150, stretches: 2, launches: 3 })
    const [early, late] = ranks.map(({ ledger }) => ledger.parts)
    // Rank 0 needs 50 ns until its first kernel and 10 ns between kernels, waits 20 ns for the late rank, then needs 50
    // ns until a kernel and waits 50 ns at a flag.
    expect(early).toEqual({ useful: 140 + 50, launch: 60 + 50, wait: 20 + 50, transfer: 0, other: 0 })
    expect(late).toEqual({ useful: 160 + 50, launch: 60 + 50, wait: 50, transfer: 0, other: 0 })
  })

  it('leaves out what an earlier timeline contains', () => {
    const whole = timelineOf([rank(0)])
    const [{ kernels, workers, waits }] = [rank(0)]
    const earlier = timelineOf([
      { kernels: kernels.slice(0, 2), workers: [{ ...workers[0], programs: [], waits: [] }], waits },
    ])
    const { wall, launches, stretches } = recordedRun(whole, { after: earlier })
    expect({ wall, launches, stretches }).toEqual({ wall: 150, launches: 1, stretches: 1 })
  })

  it('joins stretches that overlap, because the host waited for one stream only', () => {
    const { kernels, ...rest } = rank(0)
    const long = { name: 'long', stream: 1, call: { from: 132, to: 135 }, from: 200, to: 1100 }
    const { stretches, wall } = recordedRun(timelineOf([{ ...rest, kernels: [...kernels, long] }]))
    expect({ stretches, wall }).toEqual({ stretches: 1, wall: 1050 })
  })

  it('counts the bytes that pass from kernel to kernel, and bounds their time', () => {
    const bytes = { tensor: 1, name: 'partial', size: 64 }
    const { kernels, ...rest } = rank(0)
    const traffic = [
      { ...kernels[0], traffic: [{ ...bytes, written: 64, read: 0 }] },
      { ...kernels[1], traffic: [{ ...bytes, written: 0, read: 64 }] },
      kernels[2],
    ]
    const timeline = timelineOf([{ ...rest, kernels: traffic }])
    const [{ ledger }] = recordedRun(timeline, { bandwidth: 1e9 }).ranks
    expect(ledger.locality).toEqual({ bytes: 64, time: [0, 64] })
    expect(recordedRun(timeline).ranks[0].ledger.locality.time).toEqual([0, 140])
  })

  it('is empty if nothing was launched', () => {
    const { wall, stretches, launches } = recordedRun(timelineOf([{ kernels: [], workers: [] }]))
    expect({ wall, stretches, launches }).toEqual({ wall: 0, stretches: 0, launches: 0 })
  })

  it('has parts that add up to the wall time, and tracks without gaps', () => {
    const launches = fc.array(
      fc.record({ pause: fc.nat(50), length: fc.integer({ min: 1, max: 90 }), waits: fc.boolean() }),
      { minLength: 1, maxLength: 12 },
    )
    fc.assert(
      fc.property(fc.array(launches, { minLength: 1, maxLength: 3 }), (all) => {
        const made = all.map((own): MadeRank => {
          let now = 0
          const [kernels, waits]: [MadeRank['kernels'][number][], { from: number; to: number }[]] = [[], []]
          for (const { pause, length, waits: isFollowed } of own) {
            const call = { from: now, to: now + 1 }
            kernels.push({ name: 'k', call, from: now + 1 + pause, to: now + 1 + pause + length })
            now += 2 + pause + length
            if (isFollowed) waits.push({ from: now, to: ++now })
          }
          return { kernels, waits, workers: [{ leader: 0, programs: kernels, waits: [], transfers: [] }] }
        })
        const { wall, ranks } = recordedRun(timelineOf(made))
        for (const { ledger, tracks } of ranks) {
          expect(runPartNames.reduce((sum, part) => sum + ledger.parts[part], 0)).toBeCloseTo(wall, 6)
          for (const { spans } of tracks) {
            expect(spans[0].from).toBe(0)
            expect(spans.at(-1)!.to).toBe(wall)
            spans.slice(1).forEach(({ from }, n) => expect(from).toBe(spans[n].to))
          }
        }
      }),
      { seed: 1, numRuns: 100 },
    )
  })
})
