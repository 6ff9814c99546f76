/**
 * The stages of a kernel for a GPU, after those of ir/stages.ts; `../stages.ts` says what each does. The renderers of `emit/` write
 * the IR of the last one as text, node by node.
 */
import type { KernelIR } from '../../ir/node.ts'
import { detachCourier } from '../../ir/passes/courier.ts'
import { removeDead } from '../../ir/passes/dead.ts'
import type { Stage } from '../../ir/stages.ts'
import { cudaOnly } from '../stages.ts'
import { insertCombines, insertConversions } from './emit/conversions.ts'
import { conflictIn, decide } from './emit/decide.ts'
import { isCourierFree } from './emit/groups.ts'
import { mayCarryEpochs, type EmitFacts } from './emit/recipe.ts'
import { orderThreads } from './emit/order.ts'
import { partialsOf } from './emit/scratch.ts'
import { SHARED_LIMIT } from './emit/tiles.ts'
import { carryEpochs, planWords } from './emit/words.ts'

const passes: Readonly<Record<keyof typeof cudaOnly, Stage<EmitFacts>['passes']>> = {
  courier: [withCourier],
  layouts: [withLayouts],
  words: [withWords, removeDead],
  order: [(ir, facts) => orderThreads(ir, decide(ir, facts))],
}

export const gpuStages: readonly Stage<EmitFacts>[] = Object.keys(cudaOnly).map((name) => ({
  name,
  passes: passes[name as keyof typeof cudaOnly],
}))

function withLayouts(ir: KernelIR, facts: EmitFacts): KernelIR {
  const converted = insertConversions(ir, (one) => conflictIn(one, facts))
  const { layouts } = decide(converted, facts)
  return insertCombines(converted, (reduction) => partialsOf(reduction, layouts) > 0)
}

function withWords(ir: KernelIR, facts: EmitFacts): KernelIR {
  if (!ir.carried || !mayCarryEpochs(facts)) return ir
  const { layouts, groupOf, ranges } = decide(ir, facts)
  const plan = planWords(ir, layouts, groupOf, ranges)
  return plan ? carryEpochs(ir, plan) : ir
}

/** With a courier the kernel is planned to its end, since its registers and shared memory decide whether it costs something. */
function withCourier(ir: KernelIR, facts: EmitFacts): KernelIR {
  const detached = detachCourier(ir)
  if (!detached) return ir
  const { roles, sharedBytes } = decide(withLayouts(detached, facts), facts)
  return isCourierFree(roles, programsByMemory(sharedBytes)) ? detached : ir
}

/** Programs that a multiprocessor's shared memory holds, of which it keeps some for each. */
const programsByMemory = (bytes: number): number =>
  Math.floor((SHARED_LIMIT + RESERVED_SHARED) / (bytes + RESERVED_SHARED))
const RESERVED_SHARED = 1024
