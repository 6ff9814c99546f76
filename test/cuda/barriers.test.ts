/**
 * The last IR stage states every thread barrier of the CUDA text: in ops, in the steps of exchanges, at the end of
 * `roles`, at the start of a program, and in loops that poll the abort word, whose threads vote whether to leave. The
 * numbers of barriers and votes in the text are compared with the IR, for all examples
 * and for probes of single ops.
 */
import { fileURLToPath } from 'node:url'
import { expect, it } from 'vitest'
import { exchangeOf } from '../../src/ir/exchange.ts'
import { walk, type KernelIR, type Node } from '../../src/ir/node.ts'
import { through } from '../../src/ir/stages.ts'
import { decide } from '../../src/targets/cuda/emit/decide.ts'
import { renderCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmitFacts } from '../../src/targets/cuda/emit/recipe.ts'
import { shapesOf } from '../../src/targets/cuda/facts.ts'
import { gpuStages, lower } from '../../src/targets/cuda/stages.ts'
import { opProbes } from '../golden/opProbes.ts'
import { exampleLaunches } from '../golden/shippedLaunches.ts'
import { itForSome, long } from '../long.ts'

const root = fileURLToPath(new URL('../..', import.meta.url)).replace(/\/$/, '')

/** The number of votes in which all threads of a group take part, according to an IR node. */
function votes({ op, attributes, inputs }: Node): number {
  const { polls, together, early } = attributes
  if (op === 'start.meet') return early !== undefined && inputs.length > 0 ? 1 : 0
  if (op === 'until') return together === true ? 2 : 0
  return polls === undefined ? 0 : 1
}

/** The number of thread barriers that an IR node states. */
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
  const votesInText = body.match(/\bgroup_any\(/g) ?? []
  const { groupOf } = decide(ir, facts)
  const nodes = [...walk(ir.body)]
  const inStage = nodes.reduce((sum, node) => sum + stated(node), 0)
  const votesInStage = nodes.reduce((sum, node) => sum + (groupOf.get(node)!.solo ? 0 : votes(node)), 0)
  const text = (barriers: number, all: number): string => `${barriers} barriers, ${all} votes in ${ir.name}`
  expect(text(inText.length, votesInText.length)).toBe(text(inStage, votesInStage))
}

itForSome([{}, { record: true }], ({ record }) => record !== true)(
  'the last stage states all thread barriers of examples: %j',
  async (options) => {
    for (const { kernel, ranks, meta } of await exampleLaunches(root))
      expectStated(kernel.record({ world: ranks, meta }), options)
  },
)

it.for([{}, { record: true }])('the last stage states all thread barriers of probes: %j', long, (options) => {
  for (const { kernel, ranks } of opProbes()) expectStated(kernel.record({ world: ranks }), options)
})
