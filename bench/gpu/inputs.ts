/**
 * What an operation is given at a cell and how its results are compared: as it is for those whose inputs a host should not make
 * (gather.ts, decode.ts), and what does for all others.
 */
import { dtypes, type StorageDType } from '../../src/ir/dtype.ts'
import { layoutOf } from '../../src/ops/choice.ts'
import type { Operation, OperationOptions } from '../../src/ops/operation.ts'
import type { AnyDefinition } from '../../src/ops/operations.ts'
import { sampleOf } from '../../src/runs/contest.ts'
import { sharedOut, type Machine } from '../../src/world/machine.ts'
import { h200 } from '../../src/world/machines.ts'
import type { SymmetricTensor, World } from '../../src/world/world.ts'
import { operationOf, setsFor, type Cell } from './cells.ts'
import { poison, type Pattern } from './pattern.ts'
import { expectSimilar, stageOptions, Wrong, type Stage } from './stage.ts'

/** Runs what writes one of the results, which were poisoned, and compares it. */
export type Check = (set: number, run: () => void) => Promise<void>

export interface Prepared {
  /** As many sets as it takes; they take turns. */
  readonly inputs: readonly Operation['inputs'][]
  /** `mostRead`: elements of a result that is read as a whole. */
  check(results: readonly SymmetricTensor[], mostRead?: number): Check
}

/** What is special about an operation here. */
export interface Inputs {
  sets(cell: Cell): number
  prepare(stage: Stage, cell: Cell, pattern: Pattern): Prepared
  /** Contestants of others, beside `bsp` with such tiles, and the bytes on each rank that they need. */
  enterPeers?(stage: Stage, cell: Cell, prepared: Prepared, tiles: Operation['tiles']): Promise<void>
  peerBytes?(cell: Cell): number
}

export const optionsOf = (definition: AnyDefinition, cell: Cell, variant: string): OperationOptions => ({
  ...definition.defaults,
  ...layoutOf(definition, { ...cell }),
  ...{ shape: cell.shape, dtype: cell.dtype, variant },
})

/** Bytes on each rank of what is allocated, on a world that has no memory. */
export function bytesOn(machine: Machine, ranks: number, allocate: (world: World) => void): number {
  let bytes = 0
  const count = (elements: readonly number[], each: number): void => {
    // Wherever it begins.
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

/** Of a cell, before there is a world. */
export const expectedMachine = ({ ranks, multiprocessors }: Cell): Machine =>
  sharedOut(h200, ranks, multiprocessors)

/** Random contents, which the host makes, and rows of the reference, chosen at random. */
export const ofHost = (definition: AnyDefinition): Inputs => ({
  sets: (cell) => setsFor(operationOf(cell)!.gpu.work(cell).bytes),
  // What it makes to fill inputs has buffers of its own.
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
    // Where nothing runs, contents are of no interest.
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
