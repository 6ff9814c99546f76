/** Tests the order in which contestants run. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { randomOrder } from '../../src/runs/contest.ts'

const counts = fc.integer({ min: 1, max: 40 })

it('every contestant runs once per round, and over two rounds all have the same mean position', () => {
  fc.assert(
    fc.property(fc.nat(), counts, (seed, count) => {
      const random = randomOrder(seed)
      const rounds = Array.from({ length: 6 }, () => random(count))
      for (const order of rounds) expect([...order].sort((a, b) => a - b)).toEqual([...order.keys()])
      const places = Array.from({ length: count }, (_, n) =>
        rounds.reduce((sum, order) => sum + order.indexOf(n), 0),
      )
      expect(places).toEqual(places.map(() => 3 * (count - 1)))
    }),
    { seed: 5 },
  )
})

it('a different number of contestants starts a new permutation', () => {
  const random = randomOrder(3)
  for (const count of [5, 3, 3, 5, 4]) expect(new Set(random(count)).size).toBe(count)
})
