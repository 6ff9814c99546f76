/** The records of the ops that report to the host: assertions. They change no memory and order nothing. */
import { voidType } from '../type.ts'
import { expectInputs, expectScalar, fail, noMemory, straight, yieldsNothing, type Op } from './op.ts'

const reports = {
  ...yieldsNothing,
  ...noMemory,
  ...straight,
  effect: 'report',
  ahead: 'consumer',
} as const

export const diagnosticOps = {
  assert: {
    ...reports,
    summary: 'stops the world with `message` and the line of the author unless the condition holds',
    infer(node) {
      expectInputs(node, 1)
      expectScalar(node.inputs[0], 'the condition', ['bool'])
      if (typeof node.attributes.message !== 'string') fail('needs a message')
      return voidType
    },
  },
} as const satisfies Record<string, Op>
