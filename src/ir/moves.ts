/**
 * Whether a kernel only moves data between ranks, or only waits for them: it reads, writes, signals and waits across ranks, and what
 * it stores is what it loaded. An all-gather is such a kernel; one that sums what it loads is not. Its time is communication.
 */
import { analysis } from './analysis.ts'
import { type KernelIR, type Node, walk } from './node.ts'
import { isRemote } from './ops/index.ts'

const knownKernels = new WeakMap<KernelIR, boolean>()

export const onlyMoves = analysis('moves', findMoves)

function findMoves(ir: KernelIR): boolean {
  let known = knownKernels.get(ir)
  if (known === undefined) knownKernels.set(ir, (known = findOut(ir)))
  return known
}

function findOut(ir: KernelIR): boolean {
  let crosses = false
  for (const node of walk(ir.body)) {
    if (['wait', 'reached', 'signal'].includes(node.op) || node.inputs.some(isOnAnotherRank)) crosses = true
    if (node.op === 'store' && !isMoved(node.inputs[1])) return false
    if (node.op.startsWith('atomic.') && !node.inputs.slice(1).every(isMoved)) return false
    if (node.op === 'dot') return false
  }
  return crosses
}

const isOnAnotherRank = (node: Node): boolean => node.type.kind === 'ref' && isRemote(node)

/** A value that was loaded or is constant, perhaps in another shape or type; of a loop's own values nothing is known. */
function isMoved(value: Node): boolean {
  switch (value.op) {
    case 'load':
    case 'const':
      return true
    case 'cast':
    case 'expand':
    case 'broadcast':
    case 'transpose':
      return isMoved(value.inputs[0])
    case 'select':
      return value.inputs.slice(1).every(isMoved)
    default:
      return false
  }
}
