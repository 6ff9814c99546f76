/** The rows of an output that are compared with the reference if computing all rows would take too long. */
import { expect, it } from 'vitest'
import { sampleOf } from '../../src/runs/contest.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'

const operation = (shape: readonly number[], flops: number): Parameters<typeof sampleOf>[0] => ({
  outputs: { out: { shape } as SymmetricTensor },
  traffic: { flops, remoteBytes: 0, leastRemoteBytes: 0, launches: 1 },
})

it('selects all rows of a small output', () => {
  expect(sampleOf(operation([8, 4, 16], 1e6), 8, 1)).toEqual({ width: 16, height: 32, rows: undefined })
})

it('selects some rows of a large output, in order, the same for the same seed', () => {
  const large = operation([1024, 3584], 2 * 1024 * 3584 * 8192)
  const { rows = [], width, height } = sampleOf(large, 8, 1)
  expect([width, height]).toEqual([3584, 1024])
  // The largest number of rows whose reference takes at most 4e9 floating-point operations.
  expect(rows).toHaveLength(Math.floor((1024 * 4e9) / (8 * 2 * 1024 * 3584 * 8192)))
  expect(rows).toEqual([...new Set(rows)].sort((a, b) => a - b))
  expect(rows.every((row) => row >= 0 && row < 1024)).toBe(true)
  expect(sampleOf(large, 8, 1).rows).toEqual(rows)
  expect(sampleOf(large, 8, 2).rows).not.toEqual(rows)
})

it('selects at least one row', () => {
  expect(sampleOf(operation([4, 16], 1e15), 8, 1).rows).toHaveLength(1)
})
