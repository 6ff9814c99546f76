/**
 * The last IR stage states every thread barrier of the CUDA text: in ops, in the steps of exchanges, at the end of
 * `roles`, and at the start of a program. The number of barriers in the text is compared with the IR, for all examples
 * and for probes of single ops.
 */
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { exchangeOf } from '../../src/ir/exchange.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { through } from '../../src/ir/stages.ts'
import { renderCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmitFacts } from '../../src/targets/cuda/emit/recipe.ts'
import { shapesOf } from '../../src/targets/cuda/facts.ts'
import { gpuStages, lower } from '../../src/targets/cuda/stages.ts'
import { opProbes } from '../golden/opProbes.ts'
import { exampleLaunches } from '../golden/shippedLaunches.ts'

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

/** The number of thread barriers that a node states. */
function stated({ op, attributes, ...node }: Node): number {
  const { joins, early, waiting } = attributes
  if (op === 'meet' || op === 'barrier') return joins === true ? 0 : 1
  if (op === 'roles') return 1
  if (op === 'start.meet') return early === undefined || waiting === undefined ? 1 : 2
  return exchangeOf({ op, attributes, ...node } as Node).filter((step) => step === 'meet').length
}

function expectStated(recorded: KernelIR, options: Omit<EmitFacts, 'tensors'>): void {
  const shapes = Object.entries(shapesOf(recorded)).map(([name, shape]) => [name, factsOf(shape)])
  const facts: EmitFacts = { tensors: Object.fromEntries(shapes), ...options }
  const ir = through(lower(recorded), gpuStages, facts)
  const { source } = renderCuda(ir, facts)
  const body = source.slice(source.indexOf('extern "C" __global__'))
  const inText = body.match(/\b(__syncthreads(_or)?|group_barrier)\(/g) ?? []
  const inStage = [...walk(ir.body)].reduce((sum, node) => sum + stated(node), 0)
  expect(`${inText.length} thread barriers in ${ir.name}`).toBe(`${inStage} thread barriers in ${ir.name}`)
}

it.each([{}, { record: true }])(
  'the last stage states all thread barriers of examples: %j',
  async (options) => {
    for (const { kernel, ranks, meta } of await exampleLaunches(root))
      expectStated(kernel.record({ world: ranks, meta }), options)
  },
)

it.each([{}, { record: true }])('the last stage states all thread barriers of probes: %j', (options) => {
  for (const { kernel, ranks } of opProbes()) expectStated(kernel.record({ world: ranks }), options)
})
