/** The description of the wasm target (../description.ts). */
import { cpuMachine } from '../../world/machines.ts'
import { cpuHeap } from '../cpu/description.ts'
import type { TargetDescription } from '../description.ts'

/**
 * The number of steps along K for which a panel of a matrix product's right operand fills half of the L1 cache
 * (src/world/machine.ts).
 */
export const panelSteps = 512

export const wasmDescription: TargetDescription = {
  preference: 2,
  options: ['packed', 'group', 'record'],
  machine: (ranks) => cpuMachine('wasm', ranks, { panelSteps }),
  measuredHeap: cpuHeap,
}
