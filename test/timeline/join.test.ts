/** Timelines of several files made one: names renumbered, nothing else changed. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { joinTimelines } from '../../src/timeline/join.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'
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
        const before = apart.flatMap(contents)
        const joined = joinTimelines([...apart].reverse())
        expect(contents(joined)).toEqual(before)
        expect(new Set(joined.names).size).toBe(joined.names.length)
      }),
      { seed: 5, numRuns: 100 },
    )
  })

  it('has room for more names than each part has', () => {
    const part = (rank: number): Timeline => {
      const builder = new TimelineBuilder()
      const made = builder.rank(rank)
      const track = made.track('stream', 0, 0)
      for (let i = 0; i < 200; i++) made.add(Kind.kernel, track, builder.intern(`${rank} ${i}`), i, 1)
      return builder.freeze()
    }
    const { ranks, names } = joinTimelines([part(0), part(1)])
    for (const { rank, events } of ranks)
      expect(Array.from(events.name, (name) => names[name])).toEqual(
        Array.from({ length: 200 }, (_, i) => `${rank} ${i}`),
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
