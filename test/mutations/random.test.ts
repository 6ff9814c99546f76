/** The originals are correct: 1,000 random schedules of each give no finding, and the results equal the reference. */
import { describe, expect, it } from 'vitest'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { originals } from './originals.ts'
import { randomly, stages } from './suite.ts'

describe.each(stages)('random schedules of a correct kernel have no finding, %s', (stage) => {
  it.each(originals.map((of) => [of.name, of] as const))('%s', async (_name, of) => {
    const { findings, schedules, results } = await randomly(of, of.scenario(), stage)
    expect(findings.map(formatFinding)).toEqual([])
    expect(schedules).toBe(1000)
    expect(results.length).toBe(1000)
  })
})
