import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { quantityOf } from '../../src/runs/quantity.ts'

describe('a median with its interval', () => {
  it('is the middle of the samples, or the mean of the two in the middle', () => {
    expect(quantityOf([3, 1, 2]).median).toBe(2)
    expect(quantityOf([4, 1, 3, 2]).median).toBe(2.5)
  })

  it('has an interval that starts and ends at samples on both sides of the median', () => {
    fc.assert(
      fc.property(fc.array(fc.double({ min: 0, max: 1e9, noNaN: true }), { minLength: 1 }), (samples) => {
        const { median, interval, samples: count } = quantityOf(samples)
        expect(count).toBe(samples.length)
        expect(samples).toContain(interval[0])
        expect(samples).toContain(interval[1])
        expect(interval[0]).toBeLessThanOrEqual(median)
        expect(interval[1]).toBeGreaterThanOrEqual(median)
      }),
      { seed: 5 },
    )
  })

  it('covers the true median 95 times of 100', () => {
    // Uniform samples in [0, 1) from a fixed sequence. The median of these samples is 0.5.
    let state = 12345
    const next = (): number => (state = (state * 1103515245 + 12345) % 2 ** 31) / 2 ** 31
    let covered = 0
    for (let trial = 0; trial < 1000; trial++) {
      const [low, high] = quantityOf(Array.from({ length: 25 }, next)).interval
      if (low <= 0.5 && high >= 0.5) covered++
    }
    expect(covered).toBeGreaterThan(930)
  })

  it('rejects an empty list', () => {
    expect(() => quantityOf([])).toThrow('no samples')
  })
})
