/**
 * Tests that the IR of the last stage agrees with the decisions by which this IR is rendered as CUDA text. The
 * attribute `by` of a node says whether an engine (TMA or the matrix unit) accesses memory. The checker explores the
 * kernel with the attribute `by`, so the CUDA text must use the same engine for the same nodes. The start of the
 * program initialises each barrier for a number of arrivals, so the emitted text must arrive at the barrier exactly as
 * often.
 */
import { attribute, walk, type Node } from '../../../ir/node.ts'
import { isLoop, opOf, type Completion } from '../../../ir/ops/index.ts'
import { KernelError } from '../../../ir/site.ts'
import { hardwareArrivals, type Decisions } from './decide.ts'
import { isByWarpgroups } from './products.ts'

type Unit = 'engine' | 'threads'

const unitOf: Readonly<
  Record<Exclude<Completion, 'at once'>, (node: Node, decisions: Decisions) => boolean>
> = {
  'at barrier': (node, { copies }) => copies.ofCopy(node).how === 'tensor',
  'at quiet': (node, { copies }) => copies.ofCopy(node).how === 'tensor',
  'at drain': (node, { stores }) => stores.has(node),
  'by unit': (node, { products }) => isByWarpgroups(products.get(node)),
}

/**
 * Throws an error if the CUDA text would let an engine (TMA or the matrix unit) make an access that the IR assigns to
 * threads, or vice versa.
 */
export function expectAgreement(decisions: Decisions): void {
  const { ir } = decisions
  if (!ir.passed?.some((stage) => stage === 'order')) return
  for (const node of walk(ir.body)) {
    if (node.op === 'start.barriers') expectArrivals(node, decisions)
    if (isLoop(node)) expectPolls(node, decisions)
    const { completes } = opOf(node)
    if (completes === 'at once') continue
    const decided: Unit = unitOf[completes](node, decisions) ? 'engine' : 'threads'
    const { by = 'threads' } = node.attributes as { by?: Unit }
    if (by !== decided)
      throw new KernelError(
        `${ir.name}: ${node.op} is by ${by} in the stage order, and the decisions say by ${decided}`,
        node.site,
      )
  }
}

/**
 * Throws an error if the decisions and the IR differ in how often a loop polls the abort word, or in whether the
 * threads of a group execute the loop together.
 */
function expectPolls(loop: Node, { ir, loops }: Decisions): void {
  const { polls, together = false } = loop.attributes
  if (polls !== loops.polling.get(loop) || together !== loops.together.has(loop))
    throw new KernelError(`${ir.name}: the decisions say that ${loop.op} polls otherwise`, loop.site)
}

/** Throws an error if a barrier is initialised for more or fewer arrivals than the emitted text makes. */
function expectArrivals(node: Node, decisions: Decisions): void {
  const initialised = attribute<readonly number[]>(node, 'arrivals')
  for (const [i, declared] of node.inputs.entries()) {
    const made = hardwareArrivals(declared, decisions)
    if (initialised[i] !== made)
      throw new KernelError(
        `${decisions.ir.name}: barriers are initialised for ${initialised[i]} arrivals, and the threads make ${made}`,
        declared.site,
      )
  }
}
