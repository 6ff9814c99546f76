/**
 * Whether a kernel only moves data between ranks, or only waits for them: it reads, writes, signals and waits across ranks, and what
 * it stores is what it loaded. An all-gather is such a kernel; one that sums what it loads is not. Its time is communication.
 */
import { analysis } from './analysis.ts'
import { type KernelIR, type Node, walk } from './node.ts'
import { isRemote, opOf, storedValues } from './ops/index.ts'

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
  opOf(node).effect === 'sync' && node.inputs.some(({ type }) => type.kind === 'flags')

const isOnAnotherRank = (node: Node): boolean => node.type.kind === 'ref' && isRemote(node)

/** A value that was loaded or is constant, perhaps in another shape or type; of a loop's own values nothing is known. */
function isMoved(value: Node): boolean {
  const { numbers } = opOf(value)
  return typeof numbers === 'string' ? numbers === 'given' : numbers.every((at) => isMoved(value.inputs[at]))
}
