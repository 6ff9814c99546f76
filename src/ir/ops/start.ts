/**
 * Defines the ops at the start of a program. The compiler stage `order` of a GPU target inserts these ops. They
 * synchronise the threads of a program before the kernel's own first op, and a launch with the launches before and
 * after it on the stream:
 *
 *   start.barriers  (…barriers)  one thread initialises the barriers
 *   start.after     ()           the threads wait until the previous launch of the stream has ended
 *   start.next      ()           the next launch of the stream may start
 *   start.aborted   ()           one thread reads whether the launch has been aborted
 *   start.epochs    (…flags)     the threads read the epochs of flag sets
 *   start.meet      (aborted?)   the threads synchronise; the program ends if the launch has been aborted
 *   start.advance   (…flags)     the last program of the launch to arrive advances the epochs for the next launch
 *
 * A kernel has each op of the start at most once, in the listed order. `src/ir/start.ts` states which ops of the start
 * a kernel needs.
 */
import type { Node } from '../node.ts'
import { typeName, valueType, voidType } from '../type.ts'
import { expectInputs, fail, noMemory, straight, yieldsNothing, type Op, type Unplaced } from './op.ts'

/** Checks that an input is a whole flag set of the kernel, not a view of one, because epochs belong to flag sets. */
export function expectFlagSet(node: Node | undefined): void {
  if (node?.type.kind !== 'flags') fail(`needs flags, not ${node ? typeName(node.type) : 'nothing'}`)
  if (node.op !== 'param') fail('needs a whole flag set that is a parameter of the kernel, not a view of one')
}

const isCount = (value: unknown): boolean => Number.isInteger(value) && Number(value) >= 1

/** Checks that each input is a flag set, and that the attribute `sides` names one of its epochs. */
function expectEpochs({ inputs, attributes }: Unplaced): void {
  const sides = (attributes.sides ?? []) as readonly unknown[]
  if (inputs.length === 0 || sides.length !== inputs.length)
    fail(`has ${sides.length} sides for ${inputs.length} flag sets: at least one, and a side for each`)
  inputs.forEach(expectFlagSet)
  for (const side of sides)
    if (side !== 'signal' && side !== 'wait') fail(`side ${String(side)} is not signal or wait`)
}

const atStart = {
  ...yieldsNothing,
  ...noMemory,
  ...straight,
  effect: 'sync',
  waitsFor: 'threads',
  place: 'start',
  inserted: 'order',
  ahead: 'consumer',
} as const

export const startOps = {
  'start.barriers': {
    ...atStart,
    summary:
      'one thread initialises these barriers, and makes them visible to engines; each completes a phase after as many `arrivals` of the hardware as the attribute states for it',
    infer({ inputs, attributes }) {
      const arrivals = (attributes.arrivals ?? []) as readonly unknown[]
      if (inputs.length === 0 || arrivals.length !== inputs.length || !arrivals.every(isCount))
        fail(`has arrivals ${arrivals.join(', ')} for ${inputs.length} declarations: a count for each`)
      for (const { op, type } of inputs)
        if (op !== 'barriers') fail(`initialises barriers where they are declared, not ${typeName(type)}`)
      return voidType
    },
  },
  'start.after': {
    ...atStart,
    order: 'acquires',
    scope: 'threads',
    summary:
      'waits until the previous launch of the stream has ended and its writes are visible; the role `early` goes on at once if no running launch writes the tensors `reads`',
    infer({ inputs, attributes: { early, reads } }) {
      expectInputs({ inputs, attributes: {}, blocks: [] }, 0)
      if ((early === undefined) !== (reads === undefined))
        fail('names a role that starts early and the tensors that it reads, or neither')
      return voidType
    },
  },
  'start.next': {
    ...atStart,
    summary:
      'the next launch of the stream may start before this launch has ended, as soon as all programs are here',
    infer(node) {
      expectInputs(node, 0)
      return voidType
    },
  },
  'start.aborted': {
    ...atStart,
    elements: 'other',
    numbers: 'other',
    summary: 'true if the launch has been aborted; only `thread` reads it, and for all others it is false',
    infer(node) {
      expectInputs(node, 0)
      if (!Number.isInteger(node.attributes.thread)) fail('needs a thread that reads it')
      return valueType('bool')
    },
  },
  'start.epochs': {
    ...atStart,
    summary: "the threads read this launch's epochs of these flag sets, on the given `sides`",
    infer(node) {
      expectEpochs(node)
      return voidType
    },
  },
  'start.meet': {
    ...atStart,
    meets: 'barrier',
    order: 'both',
    scope: 'threads',
    summary:
      'the threads of the program synchronise, and the program ends if its input is true in any thread; the first `arriving` threads only arrive, except the warp of the thread `waiting`, and so the role `early` goes on at once',
    infer(node) {
      expectInputs(node, 0, 1)
      const [aborted] = node.inputs as readonly (Node | undefined)[]
      if (aborted && aborted.op !== 'start.aborted')
        fail(`ends the program for start.aborted, not for ${aborted.op}`)
      const { early, arriving, waiting } = node.attributes
      if ((early === undefined) !== (arriving === undefined))
        fail('names a role that starts early and the number of threads that only arrive, or neither')
      if (arriving !== undefined && !isCount(arriving)) fail(`${String(arriving)} threads only arrive`)
      if (waiting !== undefined && !(Number(waiting) < Number(arriving)))
        fail(`thread ${String(waiting)} waits in any case, because it does not only arrive`)
      return voidType
    },
  },
  'start.advance': {
    ...atStart,
    summary:
      'the last program of the launch to arrive here advances these epochs for the next launch; `thread` does it',
    infer(node) {
      expectEpochs(node)
      if (!Number.isInteger(node.attributes.thread)) fail('needs a thread that advances the epochs')
      return voidType
    },
  },
} as const satisfies Record<string, Op>

/** The ops at the start of a program, in their order. */
export const startOrder = Object.keys(startOps) as (keyof typeof startOps)[]
