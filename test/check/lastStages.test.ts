/**
 * Tests that the checker sees every op that the last stages for a GPU insert: each such op occurs in an example, or in
 * an operation at one of the shapes that are checked. The checker reports an example whose fences are removed.
 */
import { readdirSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, it } from 'vitest'
import { fusedByTma } from '../../examples/07-all-gather-gemm.ts'
import { teamsByTma } from '../../examples/12-teams.ts'
import { load } from '../../src/cli/load.ts'
import { walk, type KernelIR } from '../../src/ir/node.ts'
import type { OpName } from '../../src/ir/ops/index.ts'
import { Copier } from '../../src/ir/rewrite.ts'
import type { Meta } from '../../src/lang/kernel.ts'
import { operations } from '../../src/ops/operations.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { atStage, LAST_STAGE, specialise, usualWorld, type Shapes } from '../../src/targets/cuda/facts.ts'
import { describedWorld, launchFacts } from '../../src/world/described.ts'
import { intercepted } from '../../src/world/intercept.ts'
import { sharedOut } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { openWorld, type Launch, type Scenario } from '../../src/index.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))

const asOnGpu = (recorded: KernelIR, shapes: Shapes): KernelIR =>
  atStage(recorded, LAST_STAGE, specialise(usualWorld, shapes))

const lastStage = (launch: Launch, ranks: number): KernelIR =>
  asOnGpu(
    launch.kernel.record({ world: ranks, meta: launch.options.meta as Meta | undefined }),
    launchFacts(launch).shapes,
  )

async function launchesOf({ run }: Scenario, ranks: number): Promise<Launch[]> {
  const launches: Launch[] = []
  await using world = await openWorld({ target: 'check', ranks })
  await run(
    intercepted(world, (some, go) => {
      launches.push(...some)
      go()
    }),
  )
  return launches
}

/**
 * Matrix products by the matrix unit and stores by the TMA need tiles of 64 rows, which take too long here:
 * gpuStages.test.ts tests them with other kernels.
 */
const expected = [
  'fence.async',
  'meet',
  'once',
  'convert',
  'combine',
  'copy.async by engine',
  'copy.nbi by engine',
  'drain',
]

describe('the last stage for a GPU', () => {
  it('contains inserted ops in examples and operations that are checked', async () => {
    const found = new Set<string>()
    const note = (ir: KernelIR): void => {
      for (const { op, attributes } of walk(ir.body))
        found.add(attributes.by ? `${op} by ${String(attributes.by)}` : op)
    }
    for (const name of readdirSync(join(root, 'examples')).filter((one) => /^\d.*\.ts$/.test(one)))
      for (const scenario of (await load(join(root, 'examples', name))).scenarios) {
        const ranks = scenario.ranks.at(-1)!
        for (const launch of await launchesOf(scenario, ranks)) note(lastStage(launch, ranks))
      }
    const ranks = 2
    const machine = sharedOut(h200, ranks)
    for (const { points, make } of operations)
      for (const { shape, tiles } of points.odd)
        for (const form of Object.values(points.forms({ machine, ranks, dtype: 'bf16', shape }))) {
          const { world, launches } = describedWorld(machine)
          const options = { ...form, shape, dtype: 'bf16' as const, tiles }
          make(world, options as typeof options & { variant: string }).launch()
          for (const launch of launches) note(lastStage(launch, ranks))
        }
    expect(expected.filter((op) => !found.has(op))).toEqual([])
  })

  const without =
    (op: OpName) =>
    (recorded: KernelIR, shapes: Shapes): KernelIR => {
      const ir = asOnGpu(recorded, shapes)
      const copier = new Copier((node) => (node.op === op ? 'drop' : undefined))
      return { ...ir, body: copier.copyBlock(ir.body) }
    }

  const kindsOf = async (
    subject: Scenario,
    stage: (ir: KernelIR, shapes: Shapes) => KernelIR,
  ): Promise<string[]> => {
    const { findings } = await explore(subject, { ranks: 2, stage, schedules: 6 })
    return [...new Set(findings.map(({ kind }) => kind))]
  }

  it.each([
    ['examples/07', fusedByTma],
    ['examples/12', teamsByTma],
  ] as const)('is found to race without its fences, in %s', async (_, subject) => {
    expect(await kindsOf(subject, asOnGpu)).toEqual([])
    expect(await kindsOf(subject, without('fence.async'))).toContain('race')
  })
})
