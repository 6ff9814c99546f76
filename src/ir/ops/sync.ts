/**
 * The records of the synchronisation ops: flags between programs and ranks, barriers between the roles of a program,
 * and fences.
 *
 * A flag set has two epochs: the number of launches on this rank that have signalled it, and the number of launches
 * that have waited for it. A `signal` signals that this launch has done its work. A `wait` waits for the signal of the
 * launch with the same epoch or, with lag L, of the launch L epochs earlier. The optional second input of a `wait` is
 * the number of signals of that epoch for which it waits; without it, `wait` waits for all of them. The op `reached`
 * polls once whether a `wait` would succeed, and does not advance the wait epoch.
 */
import { barriersType, typeName, valueType, voidType, type FlagsType } from '../type.ts'
import { attribute, type Node } from '../node.ts'
import { scopes, type Scope } from './memory.ts'
import { laterArrival } from './companions.ts'
import { expectHeld } from './products.ts'
import {
  expectInputs,
  expectScalar,
  fail,
  noMemory,
  straight,
  yieldsNothing,
  type Op,
  type Unplaced,
} from './op.ts'

/** Checks that the input is one flag, not a set of flags. */
export function expectFlag(node: Node | undefined): void {
  if (node?.type.kind !== 'flags') fail(`needs a flag, not ${node ? typeName(node.type) : 'nothing'}`)
  if (node.type.rank !== 0) fail(`needs one flag of the ${typeName(node.type)}: choose it with .at([…])`)
}

function expectBarrier(node: Node | undefined): void {
  if (node?.type.kind !== 'barriers' || node.type.count !== 0)
    fail(`needs one barrier, not ${node ? typeName(node.type) : 'nothing'}: choose it with .at(i)`)
}

/** Checks the flag, count, order, scope and lag of `wait` and `reached`. */
function expectAwaited(node: Unplaced): void {
  expectInputs(node, 1, 2)
  expectFlag(node.inputs[0])
  expectCount(node)
  expectOrderIn(node, ['acquire', 'relaxed'])
  const lag = node.attributes.lag as number
  if (!Number.isInteger(lag) || lag < 0) fail(`lag ${lag} is not a whole number of launches`)
}

/** Checks the number of signals that a wait requires, if the number is known. */
function expectCount({ inputs: [flag, count] }: Unplaced): void {
  if (!(count as Node | undefined)) return
  expectScalar(count, 'atLeast', ['i32'])
  const { arrivals } = flag.type as FlagsType
  const value = count.op === 'const' ? attribute<number>(count, 'value') : 0
  if (value < 0) fail(`atLeast ${value} is not a number of signals`)
  if (value > arrivals)
    fail(
      `atLeast ${value} is more than the ${arrivals} ${arrivals === 1 ? 'signal' : 'signals'} of an epoch: declare the flags with arrivals ${value}`,
    )
}

/** Checks the order and the scope of a synchronisation op. */
export function expectOrderIn(node: Unplaced, allowed: readonly string[]): void {
  const { order, scope } = node.attributes
  if (!allowed.includes(order as string)) fail(`order ${order} is not one of ${allowed.join(', ')}`)
  if (!scopes.includes(scope as Scope)) fail(`scope ${scope} is not one of ${scopes.join(', ')}`)
}

/**
 * The record fields that are equal for all ops that order memory accesses or wait. Accesses to flags and barriers do
 * not count as memory accesses.
 */
const synchronises = {
  ...yieldsNothing,
  ...straight,
  effect: 'sync',
  accesses: [],
  ahead: 'consumer',
} as const

export const syncOps = {
  epoch: {
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    effect: 'pure',
    elements: 'other',
    numbers: 'other',
    looks: 'attribute',
    ahead: 'both',
    summary:
      "this launch's epoch of a flag set (1 in the first launch), on the signalling or the waiting side",
    infer(node) {
      expectInputs(node, 1)
      if (node.inputs[0].type.kind !== 'flags') fail(`needs flags, not ${typeName(node.inputs[0].type)}`)
      if (!['signal', 'wait'].includes(node.attributes.side as string))
        fail(`side ${node.attributes.side} is not signal or wait`)
      return valueType('u32')
    },
  },
  signal: {
    ...synchronises,
    advances: 'signal',
    order: 'attribute',
    scope: 'attribute',
    summary: 'releases everything that this role did before, then signals the flag for this epoch',
    infer(node) {
      expectInputs(node, 1)
      expectFlag(node.inputs[0])
      expectOrderIn(node, ['release', 'relaxed'])
      return voidType
    },
  },
  wait: {
    ...synchronises,
    advances: 'wait',
    order: 'attribute',
    scope: 'attribute',
    waitsFor: 'programs',
    ahead: 'producer',
    summary:
      'blocks until the flag is signalled for this epoch (less `lag`), or has received the given number of signals; then acquires everything that the signallers released',
    infer(node) {
      expectAwaited(node)
      return voidType
    },
  },
  reached: {
    ...synchronises,
    order: 'attribute',
    scope: 'attribute',
    elements: 'other',
    numbers: 'other',
    looks: 'wait',
    ahead: 'one',
    summary: 'true if a `wait` would end at once, in which case it acquires like the `wait`; never blocks',
    infer(node) {
      expectAwaited(node)
      return valueType('bool')
    },
  },
  fence: {
    ...synchronises,
    order: 'attribute',
    scope: 'attribute',
    summary: 'orders the accesses before the fence and the accesses after it, at a scope',
    infer(node) {
      expectInputs(node, 0)
      expectOrderIn(node, ['acquire', 'release', 'acqRel', 'seqCst'])
      return voidType
    },
  },
  barrier: {
    ...synchronises,
    order: 'both',
    scope: 'program',
    waitsFor: 'roles',
    meets: 'barrier',
    summary: 'a barrier of all roles of the program',
    infer(node) {
      expectInputs(node, 0)
      return voidType
    },
  },
  barriers: {
    ...yieldsNothing,
    ...noMemory,
    ...straight,
    effect: 'declare',
    place: 'top',
    ahead: 'both',
    summary:
      'arrival barriers; a phase completes after `arrivals` arrivals and the copies attached to it. ' +
      'The barriers of a pipeline signal full buffer slots (`full`), or slots that may be filled again (`empty`)',
    infer(node) {
      const count = node.attributes.count as number
      const arrivals = node.attributes.arrivals as number
      if (!(count >= 1 && Number.isInteger(count))) fail(`${count} barriers`)
      if (!(arrivals >= 1 && Number.isInteger(arrivals))) fail(`a barrier of ${arrivals} arrivals`)
      return barriersType(count, arrivals)
    },
  },
  'barrier.arrive': {
    ...synchronises,
    needs: laterArrival,
    order: 'releases',
    scope: 'program',
    summary:
      'counts as an arrival at the current phase and releases everything that this role did before; with a second input, the arrival is held until `arrive.held`',
    infer(node) {
      expectInputs(node, 1, 2)
      const [barrier, held] = node.inputs as readonly [Node, Node?]
      expectBarrier(barrier)
      if (held) expectHeld(held, barrier)
      return voidType
    },
  },
  'barrier.wait': {
    ...synchronises,
    order: 'acquires',
    scope: 'program',
    waitsFor: 'roles',
    summary:
      'blocks until phase `phase` (0, 1, …; -1 has passed) completes; the hardware keeps only the parity of the phase',
    infer(node) {
      expectInputs(node, 2)
      expectBarrier(node.inputs[0])
      expectScalar(node.inputs[1], 'the phase', ['i32'])
      return voidType
    },
  },
} as const satisfies Record<string, Op>
