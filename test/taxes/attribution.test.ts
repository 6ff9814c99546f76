/**
 * The attribution of time to processors, compared with a naive implementation that checks every nanosecond separately.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { attribute, type Claims } from '../../src/taxes/attribution.ts'
import { busyParts, type IdlePart, idleParts, partNames } from '../../src/taxes/ledger.ts'
import { type Intervals, total, unionOf } from '../../src/timeline/intervals.ts'

const LENGTH = 50
const set = fc
  .array(fc.tuple(fc.integer({ min: -5, max: LENGTH }), fc.integer({ min: 1, max: 20 })), { maxLength: 3 })
  .map((pieces) => unionOf(pieces.flatMap(([from, length]) => [from, from + length])))
const claimable = busyParts
const processor: fc.Arbitrary<Claims> = fc.record(
  Object.fromEntries(claimable.map((part) => [part, set])) as Record<(typeof claimable)[number], typeof set>,
  { requiredKeys: [] },
)
const processors = fc.array(processor, { minLength: 1, maxLength: 4 })

const has = (intervals: Intervals | undefined, time: number): boolean => {
  for (let i = 0; intervals && i < intervals.length; i += 2)
    if (intervals[i] <= time && time < intervals[i + 1]) return true
  return false
}
/** Assigns all idle time to one given cause, so that it can be distinguished from gaps inside kernels. */
const idleOf =
  (cause: IdlePart) =>
  (idle: Intervals): Record<IdlePart, Intervals> =>
    Object.fromEntries(
      idleParts.map((part) => [part, part === cause ? idle : new Float64Array(0)]),
    ) as Record<IdlePart, Intervals>

const rankTime = (processors: readonly Claims[], running: Intervals) => ({
  from: 0,
  to: LENGTH,
  processors,
  running,
  idle: idleOf('hostAbsent'),
})

describe('time over processors', () => {
  it('follows the definition at every nanosecond of every processor', () => {
    fc.assert(
      fc.property(processors, set, (processors, running) => {
        const found = attribute(rankTime(processors, running))
        expect(found).toHaveLength(processors.length)
        const claimAt = (claims: Claims, time: number) => claimable.find((part) => has(claims[part], time))
        for (let time = 0; time < LENGTH; time++)
          processors.forEach((claims, n) => {
            const others = processors.some((one) => claimAt(one, time) !== undefined)
            const rest = others ? 'vacant' : has(running, time) ? 'gap' : 'hostAbsent'
            expect(partNames.filter((part) => has(found[n][part], time))).toEqual([
              claimAt(claims, time) ?? rest,
            ])
          })
        const sum = found.flatMap((parts) => partNames.map((part) => total(parts[part])))
        expect(sum.reduce((all, one) => all + one, 0)).toBe(processors.length * LENGTH)
      }),
      { seed: 3, numRuns: 300 },
    )
  })

  it('does not depend on the order of processors', () => {
    const shuffled = processors.chain((all) =>
      fc.tuple(
        fc.constant(all),
        fc.shuffledSubarray(
          all.map((_, n) => n),
          { minLength: all.length },
        ),
      ),
    )
    fc.assert(
      fc.property(shuffled, set, ([processors, order], running) => {
        const found = attribute(rankTime(processors, running))
        const permuted = order.map((n) => processors[n])
        expect(attribute(rankTime(permuted, running))).toEqual(order.map((n) => found[n]))
      }),
      { seed: 4, numRuns: 100 },
    )
  })
})
