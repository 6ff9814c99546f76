/** The most programs that run at once, against trying all sets of launches. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mostAtOnce, withPredecessors, type Ordered } from '../../src/targets/check/order.ts'

interface Drawn extends Ordered {
  readonly programs: number
}

/** Each launch follows the last one of its stream, and some of those before it. */
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

it('is that of the largest set of launches of which none follows another', () => {
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

it('is found at once among many launches of many streams', () => {
  const all: Drawn[] = []
  for (let i = 0; i < 400; i++)
    all.push({ stream: i % 8, programs: 1 + (i % 5), after: i >= 8 ? [all[i - 8]] : [] })
  expect(mostAtOnce(all, ({ programs }) => programs)).toBe(40)
})
