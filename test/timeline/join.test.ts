/** Tests joining the timelines of several files: names are renumbered, and nothing else changes. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { joinTimelines } from '../../src/timeline/join.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'
import { contents, timelines } from './drawn.ts'
import { itForSome } from '../long.ts'

/** Builds one rank with one kernel per name, in this order. */
function named(rank: number, names: readonly string[]): Timeline {
  const builder = new TimelineBuilder()
  const made = builder.rank(rank)
  const track = made.track('stream', 0, 0)
  names.forEach((name, i) => made.add(Kind.kernel, track, builder.intern(name), i, 1))
  return builder.freeze()
}

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
    const namesOf = (rank: number): string[] => Array.from({ length: 200 }, (_, i) => `${rank} ${i}`)
    const { ranks, names } = joinTimelines([named(0, namesOf(0)), named(1, namesOf(1))])
    for (const { rank, events } of ranks)
      expect(Array.from(events.name, (name) => names[name])).toEqual(namesOf(rank))
  })

  // A name column has one byte up to 2^8 names and two bytes up to 2^16. Timelines with that many names are slow, so
  // there are few.
  const edges = [
    [2 ** 8, 40],
    [2 ** 16, 12],
  ] as const
  itForSome(edges, ([edge]) => edge === 2 ** 8)(
    'keeps every name where a column must become wider than for %i, and where it need not',
    ([edge, numRuns]) => {
      fc.assert(
        fc.property(
          fc.constantFrom(edge - 1, edge, edge + 1),
          fc.array(
            fc.record({ how: fc.constantFrom('same', 'prefix', 'permuted', 'more'), share: fc.nat(100) }),
            { minLength: 1, maxLength: 3 },
          ),
          (most, others) => {
            const all = Array.from({ length: most }, (_, i) => `name ${i}`)
            const parts = [{ how: 'prefix', share: 100 }, ...others].map(({ how, share }, rank) => {
              const some = all.slice(0, Math.ceil((share * most) / 100))
              if (how === 'same') return { rank, names: all }
              if (how === 'prefix') return { rank, names: some }
              if (how === 'permuted') return { rank, names: [...some].reverse() }
              return { rank, names: [...some, `only rank ${rank}`, `only rank ${rank} too`] }
            })
            // Joins the timelines in both orders, so that the largest table of names comes first once and last once.
            for (const inOrder of [parts, [...parts].reverse()]) {
              const { ranks, names } = joinTimelines(inOrder.map((part) => named(part.rank, part.names)))
              for (const { rank, events } of ranks)
                expect(parts[rank].names.findIndex((name, i) => names[events.name[i]] !== name)).toBe(-1)
            }
          },
        ),
        { seed: 7, numRuns },
      )
    },
  )

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
