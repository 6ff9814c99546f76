/** The cases in which the variant `pull` uses outboxes by default, tested on a world that only allocates. */
import { expect, it } from 'vitest'
import { allGatherGemm, type AllGatherGemmOptions } from '../../../src/ops/allGatherGemm/index.ts'
import { oneEach } from '../../../src/world/machine.ts'
import { h200 } from '../../../src/targets/cuda/machines.ts'
import { cpuMachine } from '../../../src/world/machines.ts'
import type { World } from '../../../src/world/world.ts'

function allocatedBy(
  options: Partial<AllGatherGemmOptions>,
  { ranks = 8, multiprocessors = 16, isGpu = true } = {},
): string[] {
  const made: string[] = []
  const allocate = (_: string, shape: readonly number[], { name }: { name: string }) => {
    made.push(name)
    return { kind: 'tensor', dtype: 'bf16', shape }
  }
  const world = {
    ranks,
    machine: isGpu
      ? oneEach({ ...h200, name: 'some GPU', processors: multiprocessors }, ranks)
      : cpuMachine('wasm', ranks, { workers: multiprocessors }),
    ...{ zeros: allocate, empty: allocate },
    flags: (_: readonly number[], { name }: { name: string }) => void made.push(name),
  } as unknown as World
  const shape = { M: 64, N: 3584, K: 8192 }
  allGatherGemm(world, { shape, dtype: 'bf16', variant: 'pull', shard: 'K', ...options })
  return made
}
const tiles = { BM: 64, BN: 256, BK: 64, stages: 4 }
const isStaged = (...given: Parameters<typeof allocatedBy>): boolean =>
  allocatedBy({ tiles, ...given[0] }, given[1]).includes('outbox')

it('programs without a tile in the last round copy', () => {
  expect(isStaged({})).toBe(true)
  expect(isStaged({}, { multiprocessors: 132 })).toBe(true)
  expect(isStaged({ tiles: { ...tiles, BN: 128 } })).toBe(true) // With 28 tiles, four programs have one tile less.
})

it('no program copies if all have a tile, or if the remaining programs would copy too much', () => {
  expect(isStaged({}, { multiprocessors: 14 })).toBe(false)
  expect(isStaged({}, { multiprocessors: 7 })).toBe(false)
  expect(isStaged({ shape: { M: 512, N: 3584, K: 8192 } }, { multiprocessors: 19 })).toBe(false)
})

it('the number of programs of the launch decides', () => {
  expect(isStaged({ grid: 14 })).toBe(false)
  expect(isStaged({ grid: 1 })).toBe(false)
  expect(isStaged({ grid: () => 15 }, { multiprocessors: 14 })).toBe(true)
})

it('a single rank has no peers to copy for, and a CPU has no idle programs', () => {
  expect(isStaged({}, { ranks: 1 })).toBe(false)
  expect(isStaged({}, { isGpu: false })).toBe(false)
})

it('an explicit option is obeyed or rejected', () => {
  expect(isStaged({ staged: true }, { multiprocessors: 14 })).toBe(true)
  expect(isStaged({ staged: false })).toBe(false)
  expect(() => allocatedBy({ staged: true, variant: 'push' })).toThrow(
    'allGatherGemm: only pull along K can be staged, not push along K',
  )
  expect(() => allocatedBy({ staged: true, shard: 'M' })).toThrow(/not pull along M/)
})
