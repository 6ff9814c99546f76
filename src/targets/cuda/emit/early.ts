/**
 * Finds copies that a kernel may start before the previous kernel of the stream has ended (programmatic dependent
 * launch). A role of one thread that only copies into shared memory depends only on the tensors from which it copies.
 * A kernel parameter, set by the host, says whether any running launch writes tensors that such a copying role reads.
 * If no running launch writes the tensors that a role copies, the role starts without waiting for the previous kernel.
 * For example, a producer can load the first tiles of weights or of a KV cache before the previous kernel has ended, so
 * that device memory is not idle between two kernels. All threads outside the warps of the role that starts early wait
 * for the previous kernel.
 */
import { analysis } from '../../../ir/analysis.ts'
import { walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import {
  accessesOf,
  epochOf,
  isOfThreads,
  isPassive,
  isRemote,
  isStrong,
  opOf,
  origin,
  paramName,
  type Access,
} from '../../../ir/ops/index.ts'
import { soleRoles } from '../../../ir/passes/courier.ts'
import type { Group, RolesPlan } from './groups.ts'

export interface EarlyPlan {
  readonly group: Group
  /** The names of the tensors that the role reads before the previous kernel has ended, all on the role's own rank. */
  readonly reads: readonly string[]
  /**
   * The number of threads in the warps of the role that starts early, including threads of other roles in these warps.
   * During the setup of the program, no thread in the warps of the early role waits for other threads.
   */
  readonly threads: number
}

/**
 * A role that may start before the previous kernel has ended (PDL) could read a stale cache line of memory that the
 * host has written since. A relaxed load at device scope does not read a stale cache line.
 */
export const EARLY_ORDER = { order: 'relaxed', scope: 'device', early: true } as const

/**
 * Returns the role that may copy before the previous kernel has ended, or undefined if no role may. The kernel must
 * contain no code outside its roles, because code before the roles could read epochs that the previous kernel has yet
 * to advance. The kernel must have a second role, which waits for the previous kernel, so that the kernels end in
 * order. The role that starts early must have thread 0, because thread 0 initialises the mbarriers that the role waits
 * for.
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

/**
 * True if a pure expression depends on an epoch, which the previous kernel may still advance. The function `readsOf`
 * checks all nodes that are not pure.
 */
const isOfEpochs = (node: Node): boolean =>
  epochOf(node) !== undefined || (isPassive(node) && node.inputs.some(isOfEpochs))

/**
 * Returns the names of the tensors that a block reads. Returns undefined if the block reads data that another kernel or
 * rank may change, or affects anything except the program's own shared memory and barriers.
 */
function readsOf(block: Block): ReadonlySet<string> | undefined {
  const reads = new Set<string>()
  for (const node of walk(block)) {
    if (epochOf(node) || node.inputs.some(isOfEpochs)) return undefined
    if (isPassive(node) || isOfThreads(node)) continue
    const accesses = accessesOf(node)
    const isOrdered = isStrong(node) && node.attributes.early !== true
    if (accesses.length === 0 ? !isOfProgram(node) : !accesses.every(isUnshared) || isOrdered)
      return undefined
    for (const { ref, level } of accesses) if (level === 'global') reads.add(paramName(origin(ref).base))
  }
  return reads
}

/**
 * True for loops and branches that all threads execute, and for the ops of mbarriers between roles, at which the
 * threads of one role do not wait for each other.
 */
function isOfProgram(node: Node): boolean {
  const { effect, flow, scope, meets } = opOf(node)
  if (effect === 'control') return flow === 'repeats' || flow === 'branches'
  return scope === 'program' && meets === 'never'
}

/** True for accesses to shared memory, and for reads of this rank's tensors. */
const isUnshared = ({ ref, level, writes }: Access): boolean =>
  level === 'shared' || (!writes && !isRemote(ref))
