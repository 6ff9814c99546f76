/**
 * Tests that an execution consists of the kernels behind a gate, on all ranks, from the opening of the gate to the end
 * of the last rank.
 */
import { describe, expect, it } from 'vitest'
import { executionsOf, pictureOf } from '../../src/runs/ledger.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { type MadeKernel, type MadeRank, timelineOf } from './handmade.ts'

const kernel = (name: string, from: number, to: number, call = from): MadeKernel => ({
  name,
  from,
  to,
  call: { from: call, to: call + 1 },
})
const rank = (kernels: readonly MadeKernel[], waits: MadeRank['waits'] = []): MadeRank => ({
  kernels,
  workers: [{ leader: 0, programs: kernels, waits: [], transfers: [] }],
  waits,
})

/** The windows of executions on the common clock, with the names of their kernels. */
const read = (timeline: Timeline) =>
  executionsOf(timeline, 'gate').map(({ from, to, kernels }) => {
    const base = Number(timeline.ranks[0].base)
    const namesOf = (events: readonly number[], i: number): string[] =>
      events.map((event) => timeline.names[timeline.ranks[i].events.name[event]])
    return [from + base, to + base, kernels.map(namesOf)]
  })

describe('executions', () => {
  it('last from the last end of a gate to the last end of a kernel before the next gate, over all ranks', () => {
    const timeline = timelineOf([
      rank([kernel('gate', 10, 20), kernel('a', 21, 30), kernel('b', 31, 50), kernel('gate', 51, 95)]),
      rank([kernel('gate', 5, 25), kernel('a', 26, 60), kernel('b', 61, 80), kernel('gate', 85, 90)]),
    ])
    expect(read(timeline)).toEqual([
      [
        25,
        80,
        [
          ['a', 'b'],
          ['a', 'b'],
        ],
      ],
      [95, 95, [[], []]],
    ])
  })

  it('contain kernels that a fast rank ran before the gate opened, and not the next gate', () => {
    const timeline = timelineOf([
      rank([kernel('gate', 0, 10), kernel('work', 11, 15), kernel('gate', 16, 60)]),
      rank([kernel('gate', 0, 20), kernel('work', 20, 50), kernel('gate', 50, 60)]),
    ])
    const [first] = executionsOf(timeline, 'gate')
    expect(read(timeline)[0]).toEqual([20, 50, [['work'], ['work']]])
    const { ranks } = pictureOf(timeline, first, { bandwidth: 1 })
    expect(ranks[0].ledger.parts).toEqual({ useful: 0, launch: 0, wait: 30, transfer: 0, other: 0 })
    expect(ranks[1].ledger.parts).toEqual({ useful: 30, launch: 0, wait: 0, transfer: 0, other: 0 })
  })

  it('end at a host wait: kernels enqueued after it belong to no execution', () => {
    const timeline = timelineOf([
      rank(
        [
          kernel('gate', 10, 20, 0),
          kernel('a', 21, 30, 2),
          kernel('hold', 50, 70, 45),
          kernel('gate', 71, 80, 47),
        ],
        [{ from: 5, to: 40 }],
      ),
    ])
    expect(read(timeline).map(([, , kernels]) => kernels)).toEqual([[['a']], [[]]])
  })

  it('require the same gates on all ranks', () => {
    const timeline = timelineOf([rank([kernel('gate', 0, 10)]), rank([])])
    expect(() => executionsOf(timeline, 'gate')).toThrow(/rank 0 has passed 1 gates and rank 1 0/)
    expect(executionsOf(timelineOf([]), 'gate')).toEqual([])
  })
})
