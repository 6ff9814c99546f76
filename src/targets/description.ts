/**
 * What the command line must know about a target before it opens a world: the options that its kernels depend on, the machine for which
 * operations choose tiles without a world, and the memory of a measurement. Each target states this in its own folder. The command line
 * reads these records and never branches on the name of a target.
 */
import type { Machine } from '../world/machine.ts'

/** Facts that specialise the kernels of some targets, as options of `arke emit` and `arke check`. */
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

/** What may differ from the usual device of a target: facts of a device that is only described. */
export interface GivenDevice {
  /** Scratch memory of a program, in bytes. */
  readonly sharedBytes?: number
  /** Registers that the programs on a processor share. */
  readonly registers?: number
}

export interface TargetDescription {
  /** The options that the target's kernels depend on. */
  readonly options: readonly FactOption[]
  /**
   * The machine that operations are given if there is no world. With `severalDevices`, each rank has its own device; a target without
   * that option ignores it.
   */
  machine(ranks: number, severalDevices: boolean, given?: GivenDevice): Machine
  /** Bytes of heap per rank for a measurement that has this many worlds open at the same time. */
  measuredHeap(ranks: number, worlds: number): number
}
