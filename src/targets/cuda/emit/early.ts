/**
 * Copies that a kernel may start while the kernel before it on the stream still ends. A role of one thread that only copies into
 * shared memory, or a strand of one, needs nothing but its sources. Where no launch under way writes those, which the host knows and says
 * in a parameter, it does not wait for the kernel before: the first tiles of weights or of a cache are then on their way, and the
 * device's memory does not idle between two kernels. All other threads wait as ever.
 */
import { walk, type Block, type KernelIR } from '../../../ir/node.ts'
import { isRemote, origin, paramName } from '../../../ir/ops/index.ts'
import { isOfEpochs, isPassive, soleRoles } from '../../../ir/passes/ahead.ts'
import type { Group, RolesPlan } from './groups.ts'

export interface EarlyPlan {
  /** Those that may be early, in the order of their warps from the first on. */
  readonly strands: readonly EarlyStrand[]
  /** Threads of their warps, and of roles beside them that may not: no other thread is waited for by these. */
  readonly threads: number
  /** Those that execute waits: they have to know whether the world was stopped. */
  readonly asking: readonly number[]
}

export interface EarlyStrand {
  readonly group: Group
  /** Tensors that it copies from or loads from, on its own rank. */
  readonly reads: readonly string[]
}

/**
 * Of a kernel whose roles are all it does: what threads of the role read of epochs before them is too old. Others wait for the kernel
 * before, so that this one ends after it; and the barriers that the role waits at are made by its own thread, the first one, for which
 * the other strands wait.
 */
export function planEarly({ body }: KernelIR, roles: RolesPlan): EarlyPlan | undefined {
  const node = soleRoles(body)
  if (!node || node.blocks.length < 2) return undefined
  const first = node.blocks.filter((one) => roles.groups.get(one)!.branch.first === 0)
  const strands: EarlyStrand[] = []
  for (const block of first) {
    const [group, reads] = [roles.groups.get(block)!, readsOf(block)]
    if (group.solo && reads) strands.push({ group, reads: [...reads].sort() })
    else break
  }
  if (strands.length === 0) return undefined
  const waiting = first.filter((block) => [...walk(block)].some(({ op }) => op === 'wait'))
  return {
    strands,
    threads: 32 * strands[0].group.branch.warps,
    asking: waiting.map((block) => roles.groups.get(block)!.first),
  }
}

/** Undefined: it does something else, or needs what another kernel or rank may change. */
function readsOf(block: Block): ReadonlySet<string> | undefined {
  const reads = new Set<string>()
  for (const node of walk(block)) {
    if (node.op === 'epoch' || node.inputs.some(isOfEpochs)) return undefined
    switch (node.op) {
      case 'load':
      case 'copy.async':
        // An ordered load is there to see what somebody writes meanwhile.
        if (isRemote(node.inputs[0]) || node.attributes.order !== undefined) return undefined
        reads.add(paramName(origin(node.inputs[0]).base))
        continue
      case 'wait':
        if (node.attributes.unlessSettled !== true) return undefined
        continue
      case 'barrier.arrive':
      case 'barrier.wait':
      case 'for':
      case 'while':
      case 'if':
      case 'persistent':
        continue
      default:
        if (!isPassive(node)) return undefined
    }
  }
  return reads
}
