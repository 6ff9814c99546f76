/**
 * Tests proxy fences between data that threads write and accesses by engines of a GPU, with a thread barrier or a
 * barrier of roles in between: the checker has no finding in the kernels after the last stage, and finds a race if the
 * fences are removed. test/targets/primitives/copiesInFlight.test.ts runs the kernels.
 */
import { describe, expect, it } from 'vitest'
import type { KernelIR } from '../../src/ir/node.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { fencedScenarios } from './fencedKernels.ts'

const asOnGpu = (recorded: KernelIR, shapes: Shapes): KernelIR =>
  atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))
const unfenced = (recorded: KernelIR, shapes: Shapes): KernelIR => {
  const ir = asOnGpu(recorded, shapes)
  const copier = new Copier(({ op }) => (op === 'fence.async' ? 'drop' : undefined))
  return { ...ir, body: copier.copyBlock(ir.body) }
}

describe('what threads have written and engines access', () => {
  it.each(fencedScenarios)('is fenced: $name', async (subject) => {
    const { findings } = await explore(subject, { ranks: 1, stage: asOnGpu, schedules: 4 })
    expect(findings.map(formatFinding)).toEqual([])
    const without = await explore(subject, { ranks: 1, stage: unfenced, schedules: 4 })
    expect(without.findings.map(({ kind }) => kind)).toContain('race')
  })
})
