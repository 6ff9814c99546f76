/**
 * The stages of a kernel for a GPU, after those of ir/stages.ts. What the last one makes is what the renderers of `emit/` write
 * as text, node by node.
 */
import type { KernelIR } from '../../ir/node.ts'
import { detachCourier } from '../../ir/passes/courier.ts'
import { removeDead } from '../../ir/passes/dead.ts'
import type { Stage } from '../../ir/stages.ts'
import { insertCombines, insertConversions } from './emit/conversions.ts'
import { conflictIn, decide } from './emit/decide.ts'
import { isCourierFree } from './emit/groups.ts'
import type { EmitFacts } from './emit/recipe.ts'
import { orderThreads } from './emit/order.ts'
import { partialsOf } from './emit/scratch.ts'
import { SHARED_LIMIT } from './emit/tiles.ts'
import { carryEpochs, planWords } from './emit/words.ts'

export const gpuStages: readonly Stage<EmitFacts>[] = [
  {
    name: 'courier',
    summary: 'what a consumer sends before its first product has warps of its own, where they are idle',
    passes: [withCourier],
  },
  {
    name: 'layouts',
    summary:
      'a value that is needed in two layouts is converted; partial results of several warps are combined',
    passes: [withLayouts],
  },
  {
    name: 'words',
    summary: 'words carry the epochs of flags that tell of nothing else',
    passes: [withWords, removeDead],
  },
  {
    name: 'order',
    summary:
      'threads of a role meet, accesses by engines are fenced, and their stores awaited, where that is needed',
    passes: [(ir, facts) => orderThreads(ir, decide(ir, facts))],
  },
]

function withLayouts(ir: KernelIR, facts: EmitFacts): KernelIR {
  const converted = insertConversions(ir, (one) => conflictIn(one, facts))
  const { layouts } = decide(converted, facts)
  return insertCombines(converted, (reduction) => partialsOf(reduction, layouts) > 0)
}

function withWords(ir: KernelIR, facts: EmitFacts): KernelIR {
  if (!facts.words || facts.record || !ir.carried) return ir
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
