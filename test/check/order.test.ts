/** Compares the computed largest number of concurrent programs with a brute-force search over all sets of launches. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mostAtOnce, withPredecessors, type Ordered } from '../../src/targets/check/order.ts'

interface Drawn extends Ordered {
  readonly programs: number
}

/**
 * In a random example, each launch follows the previous launch of its stream, and some earlier launches of other
 * streams.
 */
const launches = fc
  .array(
    fc.record({ stream: fc.nat(3), programs: fc.integer({ min: 1, max: 9 }), events: fc.array(fc.nat(9)) }),
    {
      maxLength: 9,
    },
  )
  .map((draws) => {
    const made: Drawn[] = []
    for (const { stream, programs, events } of draws) {
      const before = made.filter((one) => one.stream === stream).slice(-1)
      const awaited = events.filter((at) => at < made.length).map((at) => made[at])
      made.push({ stream, programs, after: [...before, ...awaited] })
    }
    return made
  })

it('the maximum is that of the largest set of mutually unordered launches', () => {
  fc.assert(
    fc.property(launches, (all) => {
      let most = 0
      for (let set = 0; set < 1 << all.length; set++) {
        const chosen = all.filter((_, i) => (set >> i) & 1)
        const isAntichain = chosen.every((one) =>
          chosen.every((other) => other === one || !withPredecessors([other]).has(one)),
        )
        if (isAntichain)
          most = Math.max(
            most,
            chosen.reduce((sum, { programs }) => sum + programs, 0),
          )
      }
      expect(mostAtOnce(all, ({ programs }) => programs)).toBe(most)
    }),
  )
})

it('the maximum is found quickly among many launches of many streams', () => {
  const all: Drawn[] = []
  for (let i = 0; i < 400; i++)
    all.push({ stream: i % 8, programs: 1 + (i % 5), after: i >= 8 ? [all[i - 8]] : [] })
  expect(mostAtOnce(all, ({ programs }) => programs)).toBe(40)
})
