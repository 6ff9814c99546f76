/**
 * Implements the stage `order`, which adds the synchronisation that makes the threads of a group behave as one
 * sequential agent. The stage `order` inserts these ops:
 *
 *   start.…      the start of a program: barriers, epochs, and the launches before and after (orderStart.ts)
 *   meet         a thread barrier of the group, where an access by one thread must precede an access by another thread
 *   fence.async  a proxy fence, where ordinary accesses must precede accesses by TMA or the matrix unit
 *   drain        a wait for the completion of pending TMA stores, or of copies that threads have in flight
 *   once         skips a wait in a loop if the same flag has already been waited for
 *   boxes, operands, …  how fragments pass through shared memory to TMA or the matrix unit (ir/ops/staging.ts)
 *   dot.wait, held, …   waits for the matrix unit, and releases of slots that wait for it (ir/ops/products.ts)
 *
 * The stage `order` also adds attributes: `by` (which unit accesses memory), `early` (marks a load of a role that may
 * start before the previous kernel has ended), `exchange` (how the threads exchange a value), `joins` (a thread barrier
 * that is redundant because another one directly precedes it), `apart` (the iterations of a loop are divided among the
 * threads), and `polls` and `together` (after how many iterations the threads decide together whether the launch has
 * been aborted). `hazards.ts` decides which synchronisation two accesses need. A role of one thread needs no thread
 * barriers.
 */
import { analysis } from '../../../ir/analysis.ts'
import { withDecisions } from '../../../ir/decisions.ts'
import type { Block, KernelIR, Node } from '../../../ir/node.ts'
import { entryOf, opOf, opsWith, STAGING_PLACES, type OpName } from '../../../ir/ops/index.ts'
import type { Decisions } from './decide.ts'
import type { Group } from './groups.ts'
import * as accesses from './orderAccesses.ts'
import * as control from './orderControl.ts'
import { Ordering, type Step } from './ordering.ts'
import { emitStart } from './orderStart.ts'

export const orderThreads = analysis('order of threads', withOrder)

function withOrder(ir: KernelIR, decisions: Decisions): KernelIR {
  const ordering = new Ordering(decisions, (self, node) => entryOf(steps, node)(self, node))
  const body = wholeBody(ordering, ir.body)
  return withDecisions({ ...ir, body }, 'order', ordering.decisions)
}

/** Copies the body of the kernel. The copy begins with the declarations and the ops at the start of a program. */
function wholeBody(ordering: Ordering, body: Block): Block {
  const { copier, plans, staging } = ordering
  const atStart = (): void => {
    const declare = (user: Group | Node, places: number): void =>
      void staging.set(user, copier.emit('staging', [], { places }))
    for (const group of plans.shared.staging.keys()) declare(group, STAGING_PLACES)
    for (const node of plans.scratch.keys()) if (node.op === 'dot') declare(node, 1)
    for (const node of body.nodes) if (opOf(node).effect === 'declare') copier.copyNode(node)
    emitStart(ordering, body)
  }
  const atEnd = (): void => {
    ordering.end()
    if (plans.record) ordering.meetForLog()
  }
  return ordering.copyBlock(body, { atStart, atEnd })
}

const copied: Step = (ordering, node) => ordering.copy(node)

/** The declarations in the body of the kernel are copied before all other ops, so they are not copied again. */
const declaration: Step = ({ copier }, node) => (copier.map.has(node) ? 'drop' : copier.copyAsIs(node))

const refused: Step = (_, { op }) => {
  throw new Error(`${op} is not an op of the stage before \`order\``)
}

/** The step for each op. The TypeScript compiler reports an error if an op has no step. */
const steps: Readonly<Record<OpName, Step>> = {
  ...opsWith({ effect: 'pure' }, accesses.value),
  ...opsWith({ effect: 'declare' }, declaration),
  ...opsWith({ effect: 'report' }, copied),
  ...opsWith({ effect: 'sync' }, control.synchronising),
  ...opsWith({ effect: 'write', elements: 'other' }, accesses.atomic),
  load: accesses.load,
  store: accesses.store,
  copy: accesses.settled,
  'put.signal': refused,
  ...opsWith({ completes: 'at quiet' }, accesses.copyInFlight),
  ...opsWith({ completes: 'at barrier' }, accesses.copyAsync),
  dot: accesses.dot,
  // Accesses to flag-in-data words are ordered by the epochs in the words.
  'words.post': copied,
  'words.take': copied,
  wait: control.wait,
  reached: control.reached,
  fence: control.fenced,
  barrier: control.barrier,
  'barrier.arrive': control.arrive,
  'barrier.wait': control.slot,
  for: control.loop,
  persistent: control.loop,
  while: control.whileLoop,
  until: control.until,
  if: control.ifElse,
  teams: control.teams,
  roles: control.roles,
  last: control.last,
  pipeline: refused,
  ...opsWith({ inserted: 'order' }, refused),
  quiet: accesses.quiet,
}
