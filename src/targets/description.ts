/**
 * Describes what the command line must know about a target before a world is opened: the options on which kernels of
 * the target depend, the machine for which operations choose tile sizes if there is no world, and the heap size of a
 * measurement. Each target has a folder in src/targets, which contains its description. The command line reads target
 * descriptions and never branches on the name of a target.
 */
import type { Machine } from '../world/machine.ts'

/** The options of `arke emit` and `arke check` that set facts for which some targets specialise kernels. */
export type FactOption =
  | 'extents'
  | 'packed'
  | 'group'
  | 'thisCpu'
  | 'oneDevice'
  | 'severalDevices'
  | 'hostSignals'
  | 'record'
  | 'sharedBytes'
  | 'registers'

/** The facts in which a described device may differ from the usual device of a target. */
export interface GivenDevice {
  /** The scratch memory of a program, in bytes. */
  readonly sharedBytes?: number
  /** The number of registers that the programs on a processor share. */
  readonly registers?: number
}

export interface TargetDescription {
  /**
   * The position of the target in the order of preference for measurements. By default, a measurement uses the usable
   * target with the lowest position. A target without a position is measured only if the user names it.
   */
  readonly preference?: number
  /** The options on which the target's kernels depend. */
  readonly options: readonly FactOption[]
  /**
   * The machine record that operations receive if there is no world. With `severalDevices`, each rank of the machine
   * has its own device. A target without the option `severalDevices` ignores this parameter.
   */
  machine(ranks: number, severalDevices: boolean, given?: GivenDevice): Machine
  /** The number of heap bytes per rank for a measurement that has the given number of worlds open at the same time. */
  measuredHeap(ranks: number, worlds: number): number
}
