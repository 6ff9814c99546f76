/**
 * Copies that a kernel may start while the kernel before it on the stream still ends. A role of one thread that only copies into
 * shared memory needs nothing but its sources. Where no launch under way writes those, which the host knows and says
 * in a parameter, it does not wait for the kernel before: the first tiles of weights or of a cache are then on their way, and the
 * device's memory does not idle between two kernels. All other threads wait as ever.
 */
import { analysis } from '../../../ir/analysis.ts'
import { walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import {
  isOfThreads,
  isPassive,
  isRemote,
  isStrong,
  origin,
  paramName,
  type OpName,
} from '../../../ir/ops/index.ts'
import { soleRoles } from '../../../ir/passes/courier.ts'
import type { Group, RolesPlan } from './groups.ts'

export interface EarlyPlan {
  readonly group: Group
  /** Tensors that it copies from or loads from, on its own rank. */
  readonly reads: readonly string[]
  /** Threads of its warpgroup, those of roles beside it among them: no other thread is waited for by these. */
  readonly threads: number
}

/**
 * Of a kernel whose roles are all it does: what threads of the role read of epochs before them is too old. Others wait for the kernel
 * before, so that this one ends after it; and the barriers that the role waits at are made by its own thread, the first one.
 */
export const planEarly = analysis('early copies', earlyIn)

function earlyIn({ body }: KernelIR, roles: RolesPlan): EarlyPlan | undefined {
  const node = soleRoles(body)
  if (!node || node.blocks.length < 2) return undefined
  const first = node.blocks.find((one) => roles.groups.get(one)!.branch.first === 0)
  const group = first && roles.groups.get(first)!
  const reads = first && readsOf(first)
  if (!group?.solo || !reads) return undefined
  return { group, reads: [...reads].sort(), threads: 32 * group.branch.warps }
}

/** Epochs are advanced by the kernel before. What other nodes than pure ones give is looked at where they stand. */
const isOfEpochs = (node: Node): boolean =>
  node.op === 'epoch' || (isPassive(node) && node.inputs.some(isOfEpochs))

/** Undefined: it does something else, or needs what another kernel or rank may change. */
function readsOf(block: Block): ReadonlySet<string> | undefined {
  const reads = new Set<string>()
  for (const node of walk(block)) {
    if (node.op === 'epoch' || node.inputs.some(isOfEpochs)) return undefined
    if (isPassive(node) || isOfThreads(node)) continue
    const source = allowed[node.op]?.(node)
    if (source === undefined) return undefined
    if (source !== null) reads.add(paramName(origin(source).base))
  }
  return reads
}

/**
 * Ops that an early role may execute besides pure ones: the memory that each reads, null if none, or undefined if it may not be
 * executed early. An op without an entry may not.
 */
const allowed: Readonly<Partial<Record<OpName, (node: Node) => Node | null | undefined>>> = {
  load: sourceOf,
  'copy.async': sourceOf,
  'barrier.arrive': () => null,
  'barrier.wait': () => null,
  for: () => null,
  while: () => null,
  if: () => null,
  persistent: () => null,
}

/** An ordered load is there to see what somebody writes meanwhile. */
function sourceOf(node: Node): Node | undefined {
  const [source] = node.inputs
  return isRemote(source) || isStrong(node) ? undefined : source
}
