/** A real trace without annotated steps: its period is found. The trace files are not part of this repository. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { readTraces } from '../../src/audit/open.ts'
import { stepsOf } from '../../src/taxes/steps.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { root } from '../docs/snippets.ts'

const file = join(root, '../shared/traces/nsys/mfu-2gpu.sqlite')
const here = existsSync(file)
if (!here) console.log('skipped: the real traces are not beside this checkout')

it.skipIf(!here)('both ranks of a training run have 15 steps of 119 kernels', async () => {
  const { timeline } = await readTraces([file])
  for (const rank of timeline.ranks) {
    const { steps, period } = stepsOf(rank, timeline.names, new Warnings())
    expect([period, steps.length]).toEqual([119, 15])
  }
})
