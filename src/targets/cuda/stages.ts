/**
 * Defines the compiler stages that only the CUDA target has. The stages of the CUDA target follow the stages of
 * `ir/stages.ts`. `../stages.ts` describes each stage. The renderers in `emit/` translate the IR of the last stage to
 * CUDA C++, node by node.
 */
import { subjectOf, withDecisions, type Decision } from '../../ir/decisions.ts'
import { walk, type KernelIR, type Node } from '../../ir/node.ts'
import { detachCourier } from '../../ir/passes/courier.ts'
import { completeAtOnce } from '../../ir/passes/complete.ts'
import { removeDead } from '../../ir/passes/dead.ts'
import { lowerFor, type Stage } from '../../ir/stages.ts'
import { cudaOnly } from '../stages.ts'
import { withMulticast } from './emit/clusters.ts'
import { insertCombines, insertConversions } from './emit/conversions.ts'
import { conflictIn, copiesIn, decide } from './emit/decide.ts'
import { costOfCourier } from './emit/groups.ts'
import { deviceOf, mayCarryEpochs, type EmitFacts } from './emit/recipe.ts'
import { orderThreads } from './emit/order.ts'
import { partialsOf } from './emit/scratch.ts'
import { roleShape } from './roleShape.ts'
import { carryEpochs, planWords } from './emit/words.ts'

/** Lowers a recorded kernel to roles whose sizes fit NVIDIA GPUs. */
export const lower = (ir: KernelIR): KernelIR => lowerFor(ir, roleShape)

const passes: Readonly<Record<keyof typeof cudaOnly, Stage<EmitFacts>['passes']>> = {
  complete: [withCompleteCopies],
  courier: [withCourier],
  clusters: [withMulticast],
  layouts: [withLayouts],
  words: [withWords, removeDead],
  order: [(ir, facts) => orderThreads(ir, decide(ir, facts))],
}

/** For each stage, the ops that the stage replaces by other ops. */
const removes: Partial<Record<keyof typeof cudaOnly, Stage['removes']>> = { order: ['quiet'] }

export const gpuStages: readonly Stage<EmitFacts>[] = (
  Object.keys(cudaOnly) as (keyof typeof cudaOnly)[]
).map((name) => ({ name, passes: passes[name], removes: removes[name] }))

function withCompleteCopies(ir: KernelIR, facts: EmitFacts): KernelIR {
  const copies = copiesIn(ir, facts)
  const made = (copy: Node): string => {
    const plan = copies.ofCopy(copy)
    if (plan.how === 'tensor') return 'TMA makes the copy while the role continues'
    if (plan.how === 'chunks')
      return `threads start the copy in chunks of ${plan.bytes} bytes (cp.async), and continue`
    return `complete at once, because ${copies.atOnce(copy)}`
  }
  const decisions = [...walk(ir.body)]
    .filter(({ op }) => op === 'copy.nbi')
    .map((copy) => ({ of: subjectOf(copy), what: made(copy) }))
  const staysInFlight = (copy: Node): boolean => copies.atOnce(copy) === undefined
  return withDecisions(completeAtOnce(ir, staysInFlight), 'complete', decisions)
}

function withLayouts(ir: KernelIR, facts: EmitFacts): KernelIR {
  const converted = insertConversions(ir, (one) => conflictIn(one, facts))
  const { layouts } = decide(converted, facts)
  return insertCombines(converted, (reduction) => partialsOf(reduction, layouts) > 0)
}

function withWords(ir: KernelIR, facts: EmitFacts): KernelIR {
  const decided = (made: KernelIR, ...decisions: readonly Decision[]): KernelIR =>
    withDecisions(made, 'words', decisions)
  if (!ir.carried) return decided(ir, { what: 'flag-in-data words are not used: no tensor carries epochs' })
  if (!mayCarryEpochs(facts))
    return decided(ir, {
      what: 'flag-in-data words are not used: a kernel that records events waits for flags, so that its log shows each wait',
    })
  const { layouts, groupOf, ranges } = decide(ir, facts)
  const plan = planWords(ir, layouts, groupOf, ranges)
  if (plan.obstacle) return decided(ir, plan.obstacle)
  const carriers = Object.entries(ir.carried).map(([tensor, flags]) => ({
    what: `the words of ${tensor} carry the epochs of ${flags}`,
  }))
  return decided(carryEpochs(ir, plan), ...carriers)
}

/**
 * Adds a courier role, which sends data on idle warps of the producer, if the courier costs nothing. The cost of a
 * courier depends on registers and shared memory, so all decisions are first made for a copy of the kernel that has a
 * courier.
 */
function withCourier(ir: KernelIR, facts: EmitFacts): KernelIR {
  const decided = (made: KernelIR, decision: Decision): KernelIR => withDecisions(made, 'courier', [decision])
  const detached = detachCourier(ir, roleShape)
  if (!detached.ir) return decided(ir, detached.obstacle)
  const { roles, sharedBytes } = decide(withLayouts(detached.ir, facts), facts)
  const cost = costOfCourier(roles, sharedBytes, deviceOf(facts))
  if (cost !== undefined) return decided(ir, { what: `no courier: ${cost}` })
  return decided(detached.ir, { what: 'a courier executes', others: detached.moved.map(subjectOf) })
}
