/** The integer map behaves like a `Map`, whatever the ids. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { Identifiers } from '../../src/audit/identifiers.ts'
import { IntegerMap } from '../../src/audit/integerMap.ts'

const id = fc.oneof(
  fc.nat(5000),
  fc.integer({ min: -10, max: 2 ** 31 - 1 }),
  fc.maxSafeInteger(),
  fc.constantFrom(0, 127, 128, 2 ** 32 - 2, 2 ** 32 - 1, 2 ** 32, 0.5, 3.25, -1, Infinity),
)

it('returns the value that was set last', () => {
  fc.assert(
    fc.property(fc.array(fc.tuple(id, fc.nat()), { maxLength: 400 }), fc.array(id), (entries, asked) => {
      const map = new IntegerMap()
      const plain = new Map<number, number>()
      for (const [key, value] of entries) {
        map.set(key, value)
        plain.set(key, value)
      }
      for (const key of [...plain.keys(), ...asked]) expect(map.get(key)).toBe(plain.get(key) ?? -1)
    }),
    { seed: 41, numRuns: 300 },
  )
})

it('holds ids that are far apart without a page for each', () => {
  const map = new IntegerMap()
  for (let i = 0; i < 100_000; i++) map.set(i * 1_000_003, i)
  for (let i = 0; i < 100_000; i += 997) expect(map.get(i * 1_000_003)).toBe(i)
  expect(map.size).toBe(100_000)
  map.clear()
  expect([map.size, map.get(0), map.get(1_000_003)]).toEqual([0, -1, -1])
})

it('a column of ids returns the pushed values, including NaN', () => {
  fc.assert(
    fc.property(fc.array(fc.oneof(id, fc.constant(NaN))), (ids) => {
      const column = new Identifiers()
      for (const one of ids) column.push(one)
      expect(ids.map((_, i) => column.get(i))).toEqual(ids)
    }),
    { seed: 42 },
  )
})
