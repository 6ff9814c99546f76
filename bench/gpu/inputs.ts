/**
 * The inputs of an operation at a cell, and the comparison of its results. Operations whose inputs are too large to
 * generate on the host have them in gather.ts and decode.ts; `ofHost` serves all other operations.
 */
import { dtypes, type StorageDType } from '../../src/ir/dtype.ts'
import { layoutOf } from '../../src/operation/choice.ts'
import type { Operation, OperationOptions } from '../../src/operation/definition.ts'
import type { AnyDefinition } from '../../src/ops/operations.ts'
import { sampleOf } from '../../src/runs/contest.ts'
import { sharedOut, type Machine } from '../../src/world/machine.ts'
import { h200 } from '../../src/world/machines.ts'
import type { SymmetricTensor, World } from '../../src/world/world.ts'
import { operationOf, setsFor, type Cell } from './cells.ts'
import { poison, type Pattern } from './pattern.ts'
import { expectSimilar, stageOptions, Wrong, type Stage } from './stage.ts'

/** Poisons a result, runs the kernels that write it, and compares it with the expected values. */
export type Check = (set: number, run: () => void) => Promise<void>

export interface Prepared {
  /** The input sets, which are used in rotation. */
  readonly inputs: readonly Operation['inputs'][]
  /** Returns the function that checks the results. A result with at most `mostRead` elements is read completely. */
  check(results: readonly SymmetricTensor[], mostRead?: number): Check
}

/** The parts of the benchmark that depend on the operation. */
export interface Inputs {
  sets(cell: Cell): number
  prepare(stage: Stage, cell: Cell, pattern: Pattern): Prepared
  /**
   * Adds contestants from other libraries. `tiles` are the tiles of `bsp`, and `peerBytes` is the memory per rank that
   * the contestants need.
   */
  enterPeers?(stage: Stage, cell: Cell, prepared: Prepared, tiles: Operation['tiles']): Promise<void>
  peerBytes?(cell: Cell): number
}

export const optionsOf = (definition: AnyDefinition, cell: Cell, variant: string): OperationOptions => ({
  ...definition.defaults,
  ...layoutOf(definition, { ...cell }),
  ...{ shape: cell.shape, dtype: cell.dtype, variant },
})

/** Counts the bytes per rank that `allocate` allocates. It uses a world that has no memory. */
export function bytesOn(machine: Machine, ranks: number, allocate: (world: World) => void): number {
  let bytes = 0
  const count = (elements: readonly number[], each: number): void => {
    // The number of bytes is rounded up to 64 KiB to allow for alignment.
    bytes += Math.ceil((each * elements.reduce((product, extent) => product * extent, 1)) / 65536) * 65536
  }
  const tensor = (dtype: StorageDType, shape: readonly number[]) => {
    count(shape, dtypes[dtype].bytes)
    return { kind: 'tensor', dtype, shape }
  }
  const flags = (shape: readonly number[] = []) => {
    count([...shape, 2], 4)
    return { kind: 'flags', shape }
  }
  const localRanks = Array.from({ length: ranks }, (_, rank) => rank)
  const paper = { target: machine.family, ranks, localRanks, machine }
  allocate({ ...paper, zeros: tensor, empty: tensor, full: tensor, flags } as unknown as World)
  return bytes
}

/** The description of the machine for a cell, before a world is open. */
export const expectedMachine = ({ ranks, multiprocessors }: Cell): Machine =>
  sharedOut(h200, ranks, multiprocessors)

/** Random inputs that the host generates. Randomly chosen rows of the results are compared with the reference. */
export const ofHost = (definition: AnyDefinition): Inputs => ({
  sets: (cell) => setsFor(operationOf(cell)!.gpu.work(cell).bytes),
  // The operations that fill the inputs have their own buffers.
  peerBytes(cell) {
    const options = optionsOf(definition, cell, definition.variants[0])
    return bytesOn(expectedMachine(cell), cell.ranks, (world) => {
      for (let set = 0; set < this.sets(cell); set++) definition.make(world, options)
    })
  },
  prepare(stage, cell) {
    const { world } = stage
    const options = optionsOf(definition, cell, definition.variants[0])
    const made = Array.from({ length: this.sets(cell) }, () => definition.make(world, options))
    const [first] = made
    // If no kernel runs, the inputs need no contents.
    const contents = stageOptions.isMeasuring ? first.random(1) : undefined
    if (contents !== undefined) for (const operation of made) operation.fill(contents)
    const rows = contents === undefined ? [] : sampleOf(first, 1, 1).rows
    const expected = new Map<number, Float64Array>()
    const referenceOf = (rank: number): Float64Array => {
      const known = expected.get(rank) ?? first.reference(contents, rank, rows)
      expected.set(rank, known)
      return known
    }
    return {
      inputs: made.map(({ inputs }) => inputs),
      check: (results) => async (set, run) => {
        const result = results[set]
        for (const rank of world.localRanks) poison(world, result, rank)
        run()
        await world.synchronize()
        if (contents === undefined) return
        const width = result.shape.at(-1)!
        for (const rank of world.localRanks) {
          const whole = await world.read(result, rank)
          if (whole.some(Number.isNaN)) throw new Wrong(`rank ${rank}: elements were not written`)
          const found = (rows ?? []).flatMap((row) => [...whole.subarray(row * width, (row + 1) * width)])
          expectSimilar(`rank ${rank}`, rows ? found : whole, referenceOf(rank))
        }
      },
    }
  },
})
