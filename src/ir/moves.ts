/**
 * Decides whether a kernel only moves data between ranks, or only waits for other ranks. A kernel that only moves data
 * reads, writes, signals or waits across ranks, and stores only values that it loaded. For example, an all-gather only
 * moves data, whereas a kernel that sums loaded values does not. The time of a kernel that only moves data counts as
 * communication.
 */
import { analysis } from './analysis.ts'
import { type KernelIR, type Node, walk } from './node.ts'
import { isPassive, isRemote, opOf, storedValues } from './ops/index.ts'

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
    if (usesFlag(node) || node.inputs.some(isOnAnotherRank)) crosses = true
    if (!storedValues(node).every(isMoved)) return false
  }
  return crosses
}

const usesFlag = (node: Node): boolean =>
  !isPassive(node) && node.inputs.some(({ type }) => type.kind === 'flags')

const isOnAnotherRank = (node: Node): boolean => node.type.kind === 'ref' && isRemote(node)

/**
 * True if a value was loaded from memory or is constant, possibly converted to another shape or type. The result is
 * false for values carried by a loop, because their origin is unknown.
 */
function isMoved(value: Node): boolean {
  const { numbers } = opOf(value)
  return typeof numbers === 'string' ? numbers === 'given' : numbers.every((at) => isMoved(value.inputs[at]))
}
