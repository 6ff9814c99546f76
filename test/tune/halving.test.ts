/**
 * Tests successive halving on made-up times: the fastest contender is found, and the default stays unless another is
 * significantly faster.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { halve, type TimeInTurns } from '../../src/tune/halving.ts'

/** Contenders take the given times with a relative noise of `noise`. Every round counts as one unit of time. */
function planted(times: readonly number[], noise: number) {
  let state = 1
  const random = (): number => (state = (state * 48271) % 2147483647) / 2147483647
  const rounds = times.map(() => 0)
  const time: TimeInTurns = (contenders, { mostRounds }) =>
    Promise.resolve(
      contenders.map((one) => {
        rounds[one] += mostRounds
        return Array.from({ length: mostRounds }, () => times[one] * (1 + noise * (random() - 0.5)))
      }),
    )
  return { rounds, time }
}

describe('halving', () => {
  it('finds the fastest of any number of contenders', async () => {
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 2, max: 70 }), fc.nat(), async (count, seed) => {
        const fastest = seed % count
        const times = Array.from({ length: count }, (_, n) => (n === fastest ? 80 : 100 + n))
        const { best, speedup, time, fallback } = await halve(count, 1, planted(times, 0.05).time)
        expect(best).toBe(fastest)
        expect(Math.abs(time.median - 80)).toBeLessThan(4)
        expect(Math.abs(fallback.median - times[0])).toBeLessThan(5)
        expect(Math.abs(speedup.median - times[0] / 80)).toBeLessThan(0.1)
      }),
      { seed: 1, numRuns: 50 },
    )
  })

  it('gives more rounds to fast contenders', async () => {
    const { rounds, time } = planted([100, 90, 80, 70, 60, 50, 40, 30], 0)
    await halve(8, 1, time)
    expect(rounds[7]).toBeGreaterThan(rounds[5])
    expect(rounds[5]).toBeGreaterThan(rounds[3])
    expect(rounds[3]).toBe(rounds[1])
  })

  it('keeps the default if another contender is only equally fast', async () => {
    const { best, speedup } = await halve(9, 1, planted(Array<number>(9).fill(100), 0.1).time)
    expect(best).toBe(0)
    expect(speedup.median).toBe(1)
  })

  it('keeps the default if it is the only contender', async () => {
    const { best, time } = await halve(1, 1, planted([7], 0).time)
    expect([best, time.median]).toEqual([0, 7])
  })

  it('returns the fastest so far when it is interrupted', async () => {
    const { time } = planted([100, 90, 80, 70], 0)
    const controller = new AbortController()
    let calls = 0
    const interrupted: TimeInTurns = async (contenders, effort) => {
      if (++calls === 2) controller.abort(new Error('stop'))
      return time(contenders, effort)
    }
    const found = await halve(4, 1, interrupted, undefined, controller.signal)
    expect(calls).toBe(2)
    expect(found).toMatchObject({ best: 3, interrupted: true })
    expect(found.speedup.median).toBeCloseTo(100 / 70)
  })

  it('throws when it is interrupted before a round is complete', async () => {
    const controller = new AbortController()
    const none: TimeInTurns = (contenders) => {
      controller.abort(new Error('stop'))
      return Promise.resolve(contenders.map(() => []))
    }
    await expect(halve(4, 1, none, undefined, controller.signal)).rejects.toThrow('stop')
  })

  it('uses the given time', async () => {
    let sum = 0
    await halve(16, 10, (contenders, { seconds }) => {
      sum += seconds
      return Promise.resolve(contenders.map(() => [1]))
    })
    expect(sum).toBeCloseTo(10)
  })
})
