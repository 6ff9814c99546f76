/** Damaged traces: the audit finds the true result, or a warning names the damage. The audit never throws. */
import { describe, expect, it } from 'vitest'
import { demoJob } from '../../src/audit/demo/demo.ts'
import { layOut } from '../../src/audit/demo/layout.ts'
import { truthOf } from '../../src/audit/demo/truth.ts'
import { kinetoTextOf } from '../../src/audit/demo/write.ts'
import type { Audit } from '../../src/taxes/audit.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { auditFiles } from './auditFiles.ts'
import { damages } from './dirty.ts'
import { TraceText } from './traceText.ts'
import { problemsOf } from './wellFormed.ts'

const laid = layOut(demoJob({ layers: 1, steps: 2 }))
const truth = truthOf(laid)
const traces = laid.ranks.map(({ rank }) => new TraceText(`rank${rank}.json`, kinetoTextOf(laid, rank)))

/** True if all parts of every rank's time, in total and per step, equal the true values. */
function isTrue(timeline: Timeline, found: Audit): boolean {
  const parts = found.ranks.map(({ index, ledger, steps }) => ({
    rank: timeline.ranks[index].rank,
    parts: ledger.parts,
    steps: steps.map((one) => one.ledger.parts),
  }))
  const expected = truth.ranks.map((one) => ({
    rank: one.rank,
    parts: one.parts,
    steps: one.steps.map((step) => step.parts),
  }))
  return JSON.stringify(parts) === JSON.stringify(expected)
}

describe('damaged traces', () => {
  it('are audited correctly and without a warning if they are undamaged', async () => {
    const { timeline, found, warnings } = await auditFiles(traces.map(({ bytes }) => bytes))
    expect(warnings).toEqual([])
    expect(isTrue(timeline, found)).toBe(true)
  })

  it.each(damages.map((damage) => [damage.what, damage] as const))(
    '%s',
    async (_, { classes, harmless, apply }) => {
      const audited = await auditFiles(apply(traces))
      const { timeline, found, warnings } = audited
      expect(problemsOf(audited)).toEqual([])
      const named = warnings.map((one) => one.class)
      const isNamed = named.some((one) => classes.includes(one))
      if (harmless) expect(isNamed, 'no warning').toBe(true)
      if (harmless || !isNamed)
        expect(isTrue(timeline, found), `not the truth; warned of ${named.join(', ') || 'nothing'}`).toBe(
          true,
        )
    },
  )
})
