/**
 * Tests the differences between two ledgers. The file test/report/runs.test.ts tests the words that describe the
 * differences.
 */
import { describe, expect, it } from 'vitest'
import { compareLedgers } from '../../src/runs/compare.ts'
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

describe('a comparison', () => {
  it('has each part before and after, with differences that add up', () => {
    const { wall, parts, locality } = compareLedgers(bulk, fused)
    expect(wall).toEqual({ before: 300e3, after: 200e3, difference: -100e3 })
    expect(parts.launch).toEqual({ before: 40e3, after: 5e3, difference: -35e3 })
    expect(runPartNames.reduce((sum, part) => sum + parts[part].difference, 0)).toBe(wall.difference)
    expect(locality.bytes).toEqual({ before: 4_194_304, after: 0, difference: -4_194_304 })
    expect(locality.time.difference).toBe(-90e3)
  })
})
