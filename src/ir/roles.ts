/**
 * What passes and targets agree on about the roles that passes make: how many warps they have, and what they are for.
 * A warp is the group of threads that run in lockstep (`Device.warp`). All of this is data.
 */
import type { Node } from './node.ts'

/**
 * The sizes of the roles that passes make. They follow from the machine's hardware, so each target passes its own to
 * `lowerFor` and to the passes behind it.
 */
export interface RoleShape {
  /** The warps of a producer. */
  readonly producerWarps: number
  /** Those of the producer's warps that become a courier. */
  readonly courierWarps: number
  /** The warps of a consumer, by the rows of its largest product: of the entries that apply, the last. */
  readonly consumers: readonly { readonly fromRows: number; readonly warps: number }[]
  /** The most warps in one program. */
  readonly mostWarps: number
}

/**
 * What a role does in a program that a pass has divided into roles:
 *
 * producer  waits for flags and copies tiles
 * courier   sends data to other ranks, on some of the producer's warps
 * consumer  everything else
 */
export type Duty = 'producer' | 'courier' | 'consumer'

/** The duty of each role of a `roles` node, in order. Empty if the author of the kernel wrote the roles. */
export const dutiesOf = ({ attributes }: Node): readonly Duty[] =>
  (attributes.duties as readonly Duty[] | undefined) ?? []
