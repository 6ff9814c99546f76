/**
 * Defines the ops that report to the host: assertions and printed values. Assertions and prints change no memory and
 * order nothing.
 */
import { voidType } from '../type.ts'
import { expectInputs, expectScalar, fail, noMemory, straight, yieldsNothing, type Op } from './op.ts'

/** The dtypes of numbers that `print` accepts. A value of another dtype must be cast before it is printed. */
const printable = ['f32', 'i32', 'u32', 'i64', 'bool'] as const

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
    summary:
      'stops all ranks with an error that names `message` and the source line, unless the condition is true',
    infer(node) {
      expectInputs(node, 1)
      expectScalar(node.inputs[0], 'the condition', ['bool'])
      if (typeof node.attributes.message !== 'string') fail('needs a message')
      return voidType
    },
  },
  print: {
    ...reports,
    summary:
      'prints `label` and values, of which value i consists of the next `counts[i]` inputs; the compiler stage `prints` replaces this op by stores to a buffer',
    infer(node) {
      node.inputs.forEach((_, i) => expectScalar(node.inputs[i], 'a number', printable))
      if (typeof node.attributes.label !== 'string') fail('needs a label')
      return voidType
    },
  },
} as const satisfies Record<string, Op>
