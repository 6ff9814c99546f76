/**
 * Defines which ops of asynchronous engines need each other: an access that continues after its op needs an op that
 * waits for the access, and an op that waits for accesses needs such an access. The verifier reports a missing op
 * (`Companion`).
 */
import type { Node } from '../node.ts'
import type { Companion } from './op.ts'
import { opOf } from './table.ts'

/** The unit that makes an access that is in flight until a `drain`, and undefined for every other access. */
const unitInFlight = (node: Node): unknown =>
  ['at quiet', 'at drain'].includes(opOf(node).completes) ? node.attributes.by : undefined

/** The unit whose accesses a `drain` completes. */
const drainedUnit = ({ attributes: { by = 'engine' } }: Node): unknown => by

/** Without an asynchronous store or copy, `drain` has nothing to wait for. */
export const storeInFlight: Companion = {
  where: 'role',
  what: 'a store by an engine or a copy in flight',
  is: (drain, other) => unitInFlight(other) === drainedUnit(drain),
}

/** An asynchronous store or copy is complete only after a `drain` of all of them. */
export const fullDrain: Companion = {
  where: 'role',
  what: 'a drain of all copies in flight',
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
  what: 'a matrix product by an engine',
  is: (_, other) => isByMatrixUnit(other),
}

/** The result of a matrix product by an engine is complete only after a wait for all products of its role. */
export const productWait: Companion = {
  where: 'role',
  what: 'a dot.wait that leaves no product pending',
  is: (dot, { op, attributes }) =>
    !isByMatrixUnit(dot) || (op === 'dot.wait' && attributes.pending === undefined),
}

/** If a role holds an arrival and never makes it, the producer of the buffer ring waits forever. */
export const laterArrival: Companion = {
  where: 'role',
  what: 'an arrive.held that makes the held arrival',
  is: ({ inputs: [, held] }, { op, inputs }) =>
    held === undefined || (op === 'arrive.held' && inputs[0] === held),
}
