/**
 * Waits and signals in loops: which loops are divided among the threads of a group, and which flags a skipped wait
 * remembers.
 */
import { attribute, type Node } from '../../../ir/node.ts'
import { opOf } from '../../../ir/ops/index.ts'
import { flagPlaceOf } from './views.ts'

/**
 * Returns the signal or wait of a loop that contains no other effect. Such a loop usually iterates over ranks. Its
 * iterations are divided among the threads, so that all flags are signalled or waited for at the same time. Recorded
 * waits are executed by one thread.
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
 * `set`: `once` remembers which of the first 32 flags of a local one-axis set were waited for. `last`: only the last
 * flag.
 */
export function remembered(wait: Node): 'set' | 'last' {
  const { owner, indices } = flagPlaceOf(wait.inputs[0])
  return owner === undefined && indices.length === 1 ? 'set' : 'last'
}
