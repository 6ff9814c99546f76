/**
 * The number of programs that fit one processor, compared with figures of NVIDIA's occupancy calculator, and with a
 * processor that takes warps one after another until none fits.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  type DeviceLimits,
  type ProcessorLimits,
  programsPerProcessor,
  residentPrograms,
  sharedOut,
} from '../../src/world/machine.ts'
import { processorUnits, h200 } from '../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../src/world/machines.ts'

/** Compute capabilities 8.0, 8.6 and 9.0, from the table of the CUDA C++ programming guide. */
const capability = (threads: number, programs: number, sharedKiB: number): DeviceLimits => ({
  warp: 32,
  sharedBytes: (sharedKiB - 1) * 1024,
  perProcessor: {
    ...{ threads, programs, registers: 65_536, sharedBytes: sharedKiB * 1024, reservedBytes: 1024 },
    ...processorUnits,
  },
})
const [a100, a10, hopper] = [capability(2048, 32, 164), capability(1536, 16, 100), capability(2048, 32, 228)]

it('knows the limits of an H200', () => {
  const { warp, sharedBytes, perProcessor } = h200
  expect({ warp, sharedBytes, perProcessor }).toEqual(hopper)
})

describe('the programs per processor', () => {
  it.each([
    // In this case, the number of threads limits the programs per processor.
    ['9.0', hopper, 256, 32, 0, 8],
    ['9.0', hopper, 1024, 32, 0, 2],
    ['8.6', a10, 256, 32, 0, 6],
    ['8.6', a10, 1024, 32, 0, 1],
    // In this case, the hardware's maximum number of programs per processor is the limit.
    ['9.0', hopper, 32, 32, 0, 32],
    ['9.0', hopper, 33, 32, 0, 32],
    ['8.6', a10, 32, 32, 0, 16],
    // In this case, the registers limit the programs per processor. Registers are allocated per warp, in units of 256, from four
    // partitions.
    ['9.0', hopper, 128, 64, 0, 8],
    ['9.0', hopper, 256, 96, 0, 2],
    ['9.0', hopper, 256, 128, 0, 2],
    ['9.0', hopper, 256, 129, 0, 1],
    ['9.0', hopper, 384, 168, 0, 1],
    ['9.0', hopper, 128, 255, 0, 2],
    ['9.0', hopper, 1024, 64, 0, 1],
    ['9.0', hopper, 1024, 65, 0, 0],
    // In this case, the scratch memory limits the programs per processor. The system reserves 1 KiB for each program.
    ['9.0', hopper, 128, 32, 48 * 1024, 4],
    ['8.0', a100, 128, 32, 48 * 1024, 3],
    ['8.6', a10, 128, 32, 48 * 1024, 2],
    ['9.0', hopper, 128, 32, 113 * 1024, 2],
    ['9.0', hopper, 128, 32, 113 * 1024 + 1, 1],
    ['9.0', hopper, 384, 168, 227 * 1024, 1],
    ['9.0', hopper, 384, 168, 227 * 1024 + 1, 0],
  ])('with compute capability %s', (_, limits, threads, registersPerThread, sharedBytes, expected) => {
    expect(programsPerProcessor(limits, { threads, registersPerThread, sharedBytes })).toBe(expected)
  })

  it('are as many as a processor takes one after another', () => {
    const limits = fc.record({
      warp: fc.constantFrom(32, 64),
      programs: fc.integer({ min: 1, max: 40 }),
      warps: fc.integer({ min: 1, max: 64 }),
      partitions: fc.constantFrom(1, 2, 4),
      registersPerPartition: fc.integer({ min: 1, max: 64 }),
      registerUnit: fc.constantFrom(64, 256, 512),
      sharedUnits: fc.integer({ min: 1, max: 400 }),
      reservedBytes: fc.constantFrom(0, 1024),
      sharedUnit: fc.constantFrom(1, 128, 256),
    })
    const needs = fc.record({
      threads: fc.integer({ min: 1, max: 1024 }),
      registersPerThread: fc.integer({ min: 0, max: 255 }),
      sharedBytes: fc.nat(60_000),
    })
    fc.assert(
      fc.property(limits, needs, (made, needed) => {
        const { warp, warps, partitions, registersPerPartition, sharedUnits, ...rest } = made
        const perProcessor: ProcessorLimits = {
          ...rest,
          partitions,
          threads: warps * warp,
          registers: 1024 * registersPerPartition * partitions,
          sharedBytes: made.sharedUnit * sharedUnits,
        }
        const limits = { warp, sharedBytes: perProcessor.sharedBytes, perProcessor }
        expect(programsPerProcessor(limits, needed)).toBe(programsTaken(limits, needed))
      }),
      { seed: 12, numRuns: 2000 },
    )
  })

  it('gives the resident programs of a rank without a device', () => {
    const needs = { threads: 256, registersPerThread: 96, sharedBytes: 40_000 }
    const machine = sharedOut(h200, 8)
    expect(residentPrograms(machine, 0, programsPerProcessor(machine, needs))).toBe(32)
    const cpu = cpuMachine('wasm', 2, { workers: 3 })
    expect(residentPrograms(cpu, 1, programsPerProcessor(cpu, needs))).toBe(3)
  })
})

/** Places program after program, warp by warp, on a processor with counters for everything that programs share. */
function programsTaken(
  { warp, sharedBytes: most, perProcessor }: DeviceLimits,
  { threads, registersPerThread, sharedBytes }: Parameters<typeof programsPerProcessor>[1],
): number {
  const { programs, registers, partitions, registerUnit, reservedBytes, sharedUnit } = perProcessor
  let units = 0
  while (units * registerUnit < registersPerThread * warp) units++
  const ofWarp = units * registerUnit
  let bytes = 0
  while (bytes < sharedBytes + reservedBytes) bytes += sharedUnit
  let warps = 0
  while (warps * warp < threads) warps++
  let padded = warps
  while (padded % partitions !== 0) padded++
  if (sharedBytes > most || padded * ofWarp > registers) return 0
  const free = Array.from({ length: partitions }, () => registers / partitions)
  let [freeWarps, freeBytes, taken] = [Math.floor(perProcessor.threads / warp), perProcessor.sharedBytes, 0]
  while (taken < programs && freeWarps >= warps && freeBytes >= bytes) {
    for (let placed = 0; placed < warps; placed++) {
      const partition = free.findIndex((left) => left >= ofWarp)
      if (partition < 0) return taken
      free[partition] -= ofWarp
    }
    freeWarps -= warps
    freeBytes -= bytes
    taken++
  }
  return taken
}
