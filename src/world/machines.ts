/** Builds the machine record of ranks on a CPU, which rules and benchmarks can use without opening a world. */
import type { Capabilities, Machine } from './machine.ts'

const cpuCapabilities: Capabilities = {
  matrixUnit: false,
  copyEngine: false,
  nearPeers: true,
  sharedProcessors: false,
  deviceQueues: false,
}

/**
 * The machine record of ranks that are threads of one CPU. The argument `family` is the target that generates the code.
 * The vectors of wasm are narrower than those of native code.
 */
export function cpuMachine(
  family: string,
  ranks: number,
  {
    workers = 1,
    panelSteps = 256,
    caches = [],
    model,
  }: {
    readonly workers?: number
    readonly panelSteps?: number
    readonly caches?: Machine['caches']
    readonly model?: string
  } = {},
): Machine {
  return {
    name: family,
    family,
    ...(model !== undefined && { model }),
    processors: Array.from({ length: ranks }, () => workers),
    memories: [Array.from({ length: ranks }, (_, rank) => rank)],
    caches,
    warp: 1,
    panelSteps,
    capabilities: cpuCapabilities,
  }
}
