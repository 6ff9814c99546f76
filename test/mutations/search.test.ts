/** Tests that kernels without a mistake have no finding: the search with two preemptions explores every schedule. */
import { afterAll, describe, expect } from 'vitest'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { originals } from './originals.ts'
import { search, stages } from './suite.ts'
import { itForSome } from '../long.ts'

/**
 * Kernels without a mistake whose search takes over 500 schedules, except splitK. The short tests contain splitK, whose
 * search takes 904 schedules.
 */
const manySchedules = new Set([
  'allGatherGemmPull',
  'twoShotAllReduce',
  'exchangeLock',
  'handBarrier',
  'versioned',
])
const rows: string[] = []
afterAll(() => console.log(['schedules searched, all of them without a finding', ...rows].join('\n')))

describe.each(stages)('every schedule of a correct kernel has no finding, %s', (stage) => {
  const named = originals.map((of) => [of.name, of] as const)
  itForSome(named, ([name]) => !manySchedules.has(name))('%s', async ([name, of]) => {
    const { findings, complete, schedules, results } = await search(of, of.scenario(), stage)
    rows.push(`  ${name.padEnd(20)}${stage.padEnd(10)}${schedules}`)
    expect(findings.map(formatFinding)).toEqual([])
    expect(complete, `cut off after ${schedules} schedules`).toBe(true)
    // Each run of the search compared its results with a reference. Runs of the search that ended early had been explored to their end
    // before.
    expect(results.length).toBeGreaterThan(0)
    expect(results.every(({ clean }) => clean)).toBe(true)
  })
})
