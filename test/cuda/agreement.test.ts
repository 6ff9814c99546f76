/**
 * The stage `order` writes decisions into the IR, from which the text is rendered. For all examples, and for probes of
 * single ops, decisions about roles, shared memory and launches made again for this IR are the same.
 */
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import type { KernelIR } from '../../src/ir/node.ts'
import { through } from '../../src/ir/stages.ts'
import { decide } from '../../src/targets/cuda/emit/decide.ts'
import { launch, roles } from '../../src/targets/cuda/emit/describe.ts'
import { factsOf, type EmitFacts } from '../../src/targets/cuda/emit/recipe.ts'
import { shapesOf } from '../../src/targets/cuda/facts.ts'
import { gpuStages, lower } from '../../src/targets/cuda/stages.ts'
import { opProbes } from '../golden/opProbes.ts'
import { exampleLaunches } from '../golden/shippedLaunches.ts'
import { itForSome, long } from '../long.ts'

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

function expectAgreement(recorded: KernelIR, options: Omit<EmitFacts, 'tensors'>): void {
  const shapes = Object.entries(shapesOf(recorded)).map(([name, shape]) => [name, factsOf(shape)])
  const facts: EmitFacts = { tensors: Object.fromEntries(shapes), ...options }
  const given = through(lower(recorded), gpuStages.slice(0, -1), facts)
  const made = through(given, gpuStages.slice(-1), facts)
  const [before, after] = [given, made].map((ir) => {
    const decisions = decide(ir, facts)
    const { sharedBytes, products } = decisions
    const kinds = [...products.values()]
    return [roles(decisions), launch(decisions), sharedBytes, kinds]
  })
  expect(after, recorded.name).toEqual(before)
}

itForSome([{}, { record: true }], ({ record }) => record !== true)('for examples: %j', async (options) => {
  for (const { kernel, ranks, meta } of await exampleLaunches(root))
    expectAgreement(kernel.record({ world: ranks, meta }), options)
})

it('for probes', long, () => {
  for (const { kernel, ranks } of opProbes()) expectAgreement(kernel.record({ world: ranks }), {})
})
