/** Ops: their records, and what analyses ask them. */
export {
  accessesOf,
  isElementwise,
  isLoop,
  isOfThreads,
  isPassive,
  isRemote,
  isStrong,
  mayWait,
  origin,
  paramName,
  readRefs,
  writtenRefs,
} from './facts.ts'
export { atomicMeaning, bytesOf, orders, scopes, type Order, type Scope } from './memory.ts'
export { SpecError, type Datum, type Effect, type Facts, type Op } from './op.ts'
export { opOf, ops, type OpName } from './table.ts'
