/**
 * Finds copies that a kernel may start before the previous kernel of the stream has ended (programmatic dependent
 * launch). A role of one thread that only copies into shared memory depends only on the sources of its copies. The host
 * passes a parameter that says whether a running launch may write these sources. If none does, the role does not wait
 * for the previous kernel. The first tiles of weights or of a cache are then loaded early, and device memory does not
 * idle between two kernels. All other threads wait for the previous kernel.
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
  /** The names of the tensors that the role reads, all on its own rank. */
  readonly reads: readonly string[]
  /**
   * The number of threads in the role's branch of warps, including other roles there. These threads wait for no other
   * threads at the start.
   */
  readonly threads: number
}

/**
 * A role that may start before the previous kernel has ended (PDL) could read a stale cache line of memory that the host
 * has written since. A relaxed load at device scope avoids the stale line.
 */
export const EARLY_ORDER = { order: 'relaxed', scope: 'device', early: true } as const

/**
 * Returns undefined if no role may start early. The kernel must consist of its roles only, since epochs that the early
 * threads read before the roles would be out of date. There must be a second role, which waits for the previous kernel,
 * so that this kernel ends after the previous one. The early role must have thread 0, because thread 0 initialises the
 * mbarriers that the role waits for.
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
 * True if a pure expression depends on an epoch, which the previous kernel may still advance. `readsOf` checks all
 * other nodes.
 */
const isOfEpochs = (node: Node): boolean =>
  epochOf(node) !== undefined || (isPassive(node) && node.inputs.some(isOfEpochs))

/**
 * The names of the tensors that a block reads. Undefined if it reads data that another kernel or rank may change, or has
 * an effect other than on the program's own memory and barriers.
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

/** True for loops and branches of all threads, and for barriers among the roles at which they do not meet. */
function isOfProgram(node: Node): boolean {
  const { effect, flow, scope, meets } = opOf(node)
  if (effect === 'control') return flow === 'repeats' || flow === 'branches'
  return scope === 'program' && meets === 'never'
}

/** True for accesses to shared memory, and for reads of this rank's tensors. */
const isUnshared = ({ ref, level, writes }: Access): boolean =>
  level === 'shared' || (!writes && !isRemote(ref))
