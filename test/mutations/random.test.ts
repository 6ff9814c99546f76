/**
 * Tests that kernels without a mistake have no finding: 1,000 random schedules each, and results equal to the
 * reference.
 */
import { describe, expect, it } from 'vitest'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { long } from '../long.ts'
import { originals } from './originals.ts'
import { randomly, stages, type Original } from './suite.ts'

describe.each(stages)('random schedules of a correct kernel have no finding, %s', (stage) => {
  const named = originals.map((of) => [of.name, of] as const)
  const expectRight = async (of: Original, count: number): Promise<void> => {
    const { findings, schedules, results } = await randomly(of, of.scenario(), stage, count)
    expect(findings.map(formatFinding)).toEqual([])
    expect(schedules).toBe(count)
    expect(results.length).toBe(count)
  }
  it.each(named)('%s, 50 schedules', (_name, of) => expectRight(of, 50))
  it.each(named)('%s', long, (_name, of) => expectRight(of, 1000))
})
