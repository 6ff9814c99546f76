/**
 * The records of the ops for matrix products that are executed while their role does other work. The matrix unit of a
 * GPU may execute a `dot` while its role continues. The accumulator of the product, and the shared tiles that it reads,
 * must not be used before the role waits:
 *
 *   dot.wait        ()               the products that the role has started are complete, except the last `pending`
 *
 * A pipelined loop starts the next product before it waits for the previous one. A pipelined loop therefore releases
 * the buffer slot of a product only in the next iteration:
 *
 *   held            (barriers)       holds at most one arrival at one of the barriers; at first it holds none
 *   barrier.arrive  (barrier, held)  holds an arrival at this barrier
 *   arrive.held     (held)           arrives at the barrier for which an arrival is held, if there is one
 */
import type { Node } from '../node.ts'
import { typeName, voidType } from '../type.ts'
import { startedProduct } from './companions.ts'
import { expectInputs, fail, noMemory, straight, yieldsNothing, type Op } from './op.ts'

const facts = { ...yieldsNothing, ...noMemory, ...straight, ahead: 'consumer', inserted: 'order' } as const

/**
 * Checks that the input is a `held` node, which can hold back an arrival at one of its barriers. If `barrier` is given,
 * it must be one of these barriers.
 */
export function expectHeld(node: Node, barrier?: Node): void {
  if (node.op !== 'held') fail(`needs \`held\`, not ${node.op}`)
  if (barrier && (barrier.op !== 'pick' || barrier.inputs[0] !== node.inputs[0]))
    fail('arrives at another barrier than those whose arrivals are held')
}

export const productOps = {
  'dot.wait': {
    ...facts,
    effect: 'sync',
    waitsFor: 'threads',
    needs: startedProduct,
    order: 'acquires',
    scope: 'threads',
    summary: 'the matrix products that the role has started are complete, except the last `pending`',
    infer(node) {
      expectInputs(node, 0)
      const { pending } = node.attributes
      if (pending !== undefined && (!Number.isInteger(pending) || Number(pending) < 1))
        fail(
          `leaves ${String(pending)} products in flight: \`pending\` must be at least one, or absent if all are to be complete`,
        )
      return voidType
    },
  },
  held: {
    ...facts,
    effect: 'declare',
    isView: true,
    ahead: 'both',
    summary: 'holds at most one arrival of the role at one of these barriers; at first it holds none',
    infer(node) {
      expectInputs(node, 1)
      const { op, type } = node.inputs[0]
      if (op !== 'barriers') fail(`needs barriers, not ${typeName(type)}`)
      return type
    },
  },
  'arrive.held': {
    ...facts,
    effect: 'sync',
    order: 'releases',
    scope: 'program',
    summary: 'arrives at the barrier for which an arrival is held, if there is one, and then holds none',
    infer(node) {
      expectInputs(node, 1)
      expectHeld(node.inputs[0])
      return voidType
    },
  },
} as const satisfies Record<string, Op>
