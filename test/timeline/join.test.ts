/** Timelines of several files made one: names renumbered, nothing else changed. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { joinTimelines } from '../../src/timeline/join.ts'
import { contents, timelines } from './drawn.ts'

describe('joining timelines', () => {
  it('keeps every rank as it was, and each name once', () => {
    fc.assert(
      fc.property(fc.array(timelines, { maxLength: 4 }), (parts) => {
        let next = 0
        const apart = parts.map(({ ranks, names }) => ({
          names,
          ranks: ranks.map((rank) => ({ ...rank, rank: next++ })),
        }))
        const joined = joinTimelines([...apart].reverse())
        expect(contents(joined)).toEqual(apart.flatMap(contents))
        expect(new Set(joined.names).size).toBe(joined.names.length)
      }),
      { seed: 5, numRuns: 100 },
    )
  })

  it('refuses the same rank twice', () => {
    fc.assert(
      fc.property(
        timelines.filter(({ ranks }) => ranks.length > 0),
        (timeline) => {
          expect(() => joinTimelines([timeline, timeline])).toThrow('two of the timelines')
        },
      ),
      { seed: 6, numRuns: 20 },
    )
  })
})
