/** What changed between two ledgers, in figures and in words. */
import { describe, expect, it } from 'vitest'
import { compareLedgers, comparisonInWords } from '../../src/runs/compare.ts'
import { type RunLedger, runPartNames } from '../../src/runs/results.ts'

const bulk: RunLedger = {
  wall: 300e3,
  parts: { useful: 180e3, launch: 40e3, wait: 50e3, transfer: 28e3, other: 2e3 },
  locality: { bytes: 4_194_304, time: [0, 90e3] },
}
const fused: RunLedger = {
  wall: 200e3,
  parts: { useful: 168e3, launch: 5e3, wait: 20e3, transfer: 6e3, other: 1e3 },
  locality: { bytes: 0, time: [0, 0] },
}
const names = { before: 'bsp', after: 'fused' }

describe('a comparison', () => {
  it('has each part before and after, and differences that add up', () => {
    const { wall, parts, locality } = compareLedgers(bulk, fused)
    expect(wall).toEqual({ before: 300e3, after: 200e3, difference: -100e3 })
    expect(parts.launch).toEqual({ before: 40e3, after: 5e3, difference: -35e3 })
    expect(runPartNames.reduce((sum, part) => sum + parts[part].difference, 0)).toBe(wall.difference)
    expect(locality.bytes).toEqual({ before: 4_194_304, after: 0, difference: -4_194_304 })
    expect(locality.time.difference).toBe(-90e3)
  })

  it('is told in three sentences, the largest change first, without what does not matter', () => {
    expect(comparisonInWords(compareLedgers(bulk, fused), names)).toMatchInlineSnapshot(
      `"fused takes 200 µs, bsp 300 µs: 1.50 times as fast. On average a rank spends 35.0 µs less on launching kernels (40.0 µs before, 5.00 µs now), 30.0 µs less on waiting for other ranks (50.0 µs before, 20.0 µs now), 22.0 µs less on copying between ranks (28.0 µs before, 6.00 µs now) and 12.0 µs less on computing (180 µs before, 168 µs now). Kernels hand each other nothing through memory (4.19 MB before), which saves up to 90.0 µs of the computing."`,
    )
  })

  it('tells losses too', () => {
    expect(
      comparisonInWords(compareLedgers(fused, bulk), { before: 'fused', after: 'bsp' }),
    ).toMatchInlineSnapshot(
      `"bsp takes 300 µs, fused 200 µs: 1.50 times as slow. On average a rank spends 35.0 µs more on launching kernels (5.00 µs before, 40.0 µs now), 30.0 µs more on waiting for other ranks (20.0 µs before, 50.0 µs now), 22.0 µs more on copying between ranks (6.00 µs before, 28.0 µs now) and 12.0 µs more on computing (168 µs before, 180 µs now). Kernels hand each other 4.19 MB through memory (nothing before), which costs up to 90.0 µs of the computing."`,
    )
  })

  it('has little to say of equal ones', () => {
    expect(comparisonInWords(compareLedgers(bulk, bulk), names)).toMatchInlineSnapshot(
      `"fused takes 300 µs, bsp 300 µs: the same within 1 %."`,
    )
  })
})
