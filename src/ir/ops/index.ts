/** The records of all ops, and queries about them. */
export {
  accessesOf,
  acquires,
  atomicOf,
  bytesAccessed,
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
  releases,
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
  type MemoryName,
  type OpName,
  type OpWith,
  type ReductionName,
  type SyncName,
  type ViewName,
} from './table.ts'
