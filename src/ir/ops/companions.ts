/**
 * Defines which ops must occur together, because engines such as a GPU's copy engine and matrix unit work
 * asynchronously. An op that starts an asynchronous access needs another op that waits for the access, and an op that
 * waits needs an access for which it can wait. The verifier reports an op if the op that must accompany it
 * (`Companion`) is missing.
 */
import type { Node } from '../node.ts'
import type { Companion } from './op.ts'
import { opOf } from './table.ts'

/**
 * The unit (an engine or the threads) that makes an access that continues until a `drain`; undefined for other
 * accesses.
 */
const unitInFlight = (node: Node): unknown =>
  ['at quiet', 'at drain'].includes(opOf(node).completes) ? node.attributes.by : undefined

/** The unit (the engine by default, or the threads) for whose accesses a `drain` waits. */
const drainedUnit = ({ attributes: { by = 'engine' } }: Node): unknown => by

/** Without an asynchronous store or copy, `drain` has nothing to wait for. */
export const storeInFlight: Companion = {
  where: 'role',
  what: 'an asynchronous store or copy for which the drain can wait',
  is: (drain, other) => unitInFlight(other) === drainedUnit(drain),
}

/**
 * An asynchronous store or copy is complete only after a `drain`, which waits for all asynchronous stores and copies of
 * the role.
 */
export const fullDrain: Companion = {
  where: 'role',
  what: 'a drain that waits for all asynchronous copies',
  is(node, other) {
    const unit = unitInFlight(node)
    if (unit === undefined) return true
    return other.op === 'drain' && drainedUnit(other) === unit && other.attributes.of === undefined
  },
}

/** True for a matrix product by the matrix unit, which executes while its role continues. */
const isByMatrixUnit = (node: Node): boolean =>
  opOf(node).completes === 'by unit' && node.attributes.by === 'engine'

export const startedProduct: Companion = {
  where: 'role',
  what: 'a matrix product that the matrix unit executes',
  is: (_, other) => isByMatrixUnit(other),
}

/**
 * The result of a matrix product by an engine is complete only after the role has waited for all its matrix products.
 */
export const productWait: Companion = {
  where: 'role',
  what: 'a dot.wait that leaves no product pending',
  is: (dot, { op, attributes }) =>
    !isByMatrixUnit(dot) || (op === 'dot.wait' && attributes.pending === undefined),
}

/** If a role holds back an arrival at a barrier and never arrives, the producer of the buffer ring waits forever. */
export const laterArrival: Companion = {
  where: 'role',
  what: 'an arrive.held that performs the arrival that is held back',
  is: ({ inputs: [, held] }, { op, inputs }) =>
    held === undefined || (op === 'arrive.held' && inputs[0] === held),
}
