/**
 * Ops that no author writes: what the stages of a target (`src/targets/cuda/stages.ts`) put into a lowered kernel. They have a
 * record as all others have, so that each stage can be verified, printed and checked while it is IR.
 */
import { fail, expectInputs, expectValue, noMemory, straight, type Op } from './op.ts'

export const stageOps = {
  convert: {
    ...noMemory,
    ...straight,
    effect: 'pure',
    elements: 'same',
    isView: false,
    operations: 0,
    summary: 'the same fragment in another layout: its threads exchange their elements',
    infer(node) {
      expectInputs(node, 1)
      const type = expectValue(node.inputs[0], 'the operand')
      if (type.shape.length === 0) fail('a scalar has no layout')
      return type
    },
    evaluate: (_, [input]) => input,
  },
} as const satisfies Record<string, Op>
