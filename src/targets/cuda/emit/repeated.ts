/**
 * Decides which loops of waits or signals are divided among the threads of a group, and which flags a `once` node
 * remembers in order to skip repeated waits.
 */
import { attribute, type Node } from '../../../ir/node.ts'
import { opOf } from '../../../ir/ops/index.ts'
import { flagPlaceOf } from './views.ts'

/**
 * Returns the signal or wait of a loop that has no other effect, and undefined for other loops. A loop that only
 * signals or waits usually iterates over ranks. The iterations of a loop that only signals or waits are divided among
 * the threads, so that all flags are signalled or awaited at the same time. In a kernel that records events, one thread
 * executes all waits of a loop.
 */
export function dealtOut(loop: Node, isRecorded: boolean): Node | undefined {
  if (loop.op !== 'for' || loop.inputs.length > 3) return undefined
  const [low, , step] = loop.inputs
  const isConstant = (node: Node, value: number): boolean =>
    node.op === 'const' && attribute<number>(node, 'value') === value
  if (!isConstant(low, 0) || !isConstant(step, 1)) return undefined
  const effects = loop.blocks[0].nodes.filter((node) => opOf(node).effect !== 'pure')
  const [only] = effects
  if (effects.length !== 1) return undefined
  return only.op === 'signal' || (only.op === 'wait' && !isRecorded) ? only : undefined
}

/**
 * Returns how a `once` node remembers the flags that were waited for. With `set`, the node has one bit for each of the
 * first 32 flags of a flag set that is on this rank and has one axis. With `last`, the node remembers only the flag of
 * its last wait.
 */
export function remembered(wait: Node): 'set' | 'last' {
  const { owner, indices } = flagPlaceOf(wait.inputs[0])
  return owner === undefined && indices.length === 1 ? 'set' : 'last'
}
