/**
 * Defines, as plain data, how many warps each role of a program has and what each role is for. Compiler passes and
 * targets share the definitions of roles. A warp is the group of threads that run in lockstep (`Device.warp`).
 */
import type { Node } from './node.ts'

/**
 * The number of warps of each role that a compiler pass creates. The number of warps depends on the hardware, so each
 * target passes its own numbers to `lowerFor` and to the later passes.
 */
export interface RoleShape {
  /** The number of warps of a producer. */
  readonly producerWarps: number
  /** The number of the producer's warps that become a courier (a role that sends data to other ranks). */
  readonly courierWarps: number
  /**
   * The number of warps of a consumer is that of the last entry whose `fromRows` is at most the number of rows of the
   * consumer's largest matrix product.
   */
  readonly consumers: readonly { readonly fromRows: number; readonly warps: number }[]
  /** The maximum number of warps in one program. */
  readonly mostWarps: number
}

/**
 * The task of a role in a program that a compiler pass has divided into roles:
 *
 * producer  waits for flags and copies tiles
 * courier   sends data to other ranks, on some of the producer's warps
 * consumer  everything else
 */
export type Duty = 'producer' | 'courier' | 'consumer'

/**
 * The task of each role of a `roles` node, in order. The list of tasks is empty if the author of the kernel wrote the
 * roles.
 */
export const dutiesOf = ({ attributes }: Node): readonly Duty[] =>
  (attributes.duties as readonly Duty[] | undefined) ?? []
