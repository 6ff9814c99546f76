/** The description of the native target (../description.ts). */
import { cpuMachine } from '../../world/machines.ts'
import { cpuHeap } from '../cpu/description.ts'
import type { TargetDescription } from '../description.ts'

/**
 * The number of steps along K for which a panel of a matrix product's right operand fills half of the L1 cache
 * (src/world/machine.ts).
 */
export const panelSteps = 256

export const nativeDescription: TargetDescription = {
  preference: 1,
  options: ['packed', 'group', 'thisCpu', 'record'],
  machine: (ranks) => cpuMachine('native', ranks, { panelSteps }),
  measuredHeap: cpuHeap,
}
