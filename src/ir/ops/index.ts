/** Ops: their records, and what analyses ask them. */
export {
  accessesOf,
  atomicOf,
  isElementwise,
  isLoop,
  isOfThreads,
  isPassive,
  isRemote,
  isStrong,
  leadingInputs,
  mayWait,
  origin,
  paramName,
  readRefs,
  stateBlocks,
  stateCount,
  storedValues,
  writtenRefs,
} from './facts.ts'
export { bytesOf, orders, scopes, type Order, type Scope } from './memory.ts'
export { SpecError, type Ahead, type Atomic, type Datum, type Effect, type Facts, type Op } from './op.ts'
export { carriedBy, marksOf } from './stages.ts'
export {
  entryOf,
  opOf,
  ops,
  opsWith,
  type AtomicName,
  type ControlName,
  type ElementwiseName,
  type OpName,
  type OpWith,
  type ReductionName,
  type ViewName,
} from './table.ts'
