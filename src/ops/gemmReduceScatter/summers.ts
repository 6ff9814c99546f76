/** Chooses how many programs of the variant `fused` only sum. */
import { dtypes } from '../../ir/dtype.ts'
import type { OperandDType } from '../../operation/definition.ts'
import { fewestProcessors, isOneMemory, type Machine } from '../../world/machine.ts'
import type { LaunchOptions } from '../../world/world.ts'

/** The sizes that determine how long a rank multiplies, and how long it sums. */
export interface Amounts {
  readonly shape: { readonly M: number; readonly N: number; readonly K: number }
  /** The extents of a shard of C. */
  readonly extents: readonly [rows: number, columns: number]
  readonly wire: OperandDType
}

/**
 * The number of summers with which both teams of a rank take equally long, from the measured rates of the machine. The
 * number is 0 if the rates are unknown, if a rank has no program to spare, or if there is nothing to sum. With 0
 * summers, all programs first multiply and then sum. The rule for this number has not been tried on a GPU.
 */
export function summersFor(
  machine: Machine,
  ranks: number,
  { shape: { M, N, K }, extents, wire }: Amounts,
  grid: LaunchOptions['grid'],
): number {
  const { flops, programBandwidth } = machine
  if (!flops || !programBandwidth || ranks === 1 || typeof grid === 'function') return 0
  const programs = typeof grid === 'number' ? grid : fewestProcessors(machine)
  const flopsPerProgram = flops / (isOneMemory(machine) ? ranks : 1) / fewestProcessors(machine)
  const multiplying = (2 * M * N * Math.ceil(K / ranks)) / flopsPerProgram
  const summing = (ranks * extents[0] * extents[1] * dtypes[wire].bytes) / programBandwidth
  const share = summing / (summing + multiplying)
  return Math.max(0, Math.min(programs - 1, Math.max(1, Math.round(programs * share))))
}
