/**
 * Provides an operation's inputs at a measurement cell, and compares the operation's results with a reference. If the
 * operation's definition supports it, the device draws random inputs; if not, the host generates the inputs.
 */
import { dtypes, type StorageDType } from '../../src/ir/dtype.ts'
import type { Operation, OperationOptions } from '../../src/operation/definition.ts'
import type { AnyDefinition } from '../../src/ops/operations.ts'
import { sampleOf } from '../../src/runs/contest.ts'
import { sharedOut, type Machine } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import type { SymmetricTensor, World } from '../../src/world/world.ts'
import type { Drawing } from '../../src/ops/drawn.ts'
import { operationOf, setsFor, type Cell } from './cells.ts'
import { poison, type Pattern } from './pattern.ts'
import { productCheck } from './products.ts'
import { expectSimilar, stageOptions, Wrong, type Stage } from './stage.ts'

/** Fills a result with NaN, runs the kernels that write it, and compares it with the expected values. */
export type Check = (set: number, run: () => void) => Promise<void>

export interface Prepared {
  /** The input sets, which are used in rotation. */
  readonly inputs: readonly Operation['inputs'][]
  /** Returns the function that checks the results. A result with at most `mostRead` elements is read completely. */
  check(results: readonly SymmetricTensor[], mostRead?: number): Check
}

/** The functions that make the inputs of an operation and check its results. */
export interface Inputs {
  sets(cell: Cell): number
  prepare(stage: Stage, cell: Cell, pattern: Pattern): Prepared
  /** The bytes per rank that are allocated to fill the inputs, in addition to the inputs themselves. */
  extraBytes?(cell: Cell): number
}

export const optionsOf = (definition: AnyDefinition, cell: Cell, variant: string): OperationOptions => ({
  ...definition.defaults,
  ...cell.layout,
  ...{ shape: cell.shape, dtype: cell.dtype, variant },
})

/** Counts the bytes per rank that `allocate` allocates. The count uses a world that has no memory. */
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

/** The machine record (a description of the GPU) of the world that a measurement cell will open. */
export const expectedMachine = ({ ranks, multiprocessors }: Cell): Machine =>
  sharedOut(h200, ranks, multiprocessors)

/** The inputs of one rank, determined from the operation's definition without opening a world. */
function inputsOn(definition: AnyDefinition, cell: Cell): Operation['inputs'] {
  let inputs: Operation['inputs'] = {}
  bytesOn(expectedMachine(cell), cell.ranks, (world) => {
    inputs = definition.make(world, optionsOf(definition, cell, definition.variants[0])).inputs
  })
  return inputs
}

/** Random inputs that are drawn on the device. Samples of the results are compared with float64. */
const ofDevice = (definition: AnyDefinition, drawing: Drawing): Inputs => ({
  sets: (cell) => drawing.sets ?? setsFor(operationOf(cell)!.gpu.work(cell).bytes),
  prepare(stage, cell, pattern) {
    const { world } = stage
    const names = Object.keys(drawing.inputs)
    const constants = drawing.constants?.(cell.shape) ?? {}
    const inputs: Record<string, SymmetricTensor>[] = []
    for (let set = 0; set < this.sets(cell); set++) {
      const made: Record<string, SymmetricTensor> = {}
      for (const [name, { dtype, shape }] of Object.entries(inputsOn(definition, cell))) {
        const drawn = names.indexOf(name)
        if (drawn < 0) made[name] = world.full(dtype, shape, constants[name], { name })
        else if (set > 0 && drawing.inputs[name].isShared) made[name] = inputs[0][name]
        else {
          made[name] = world.empty(dtype, shape, { name })
          const { isEqual = false } = drawing.inputs[name]
          for (const rank of world.localRanks)
            pattern.fill(world, made[name], drawn, rank, isEqual ? 0 : rank)
        }
      }
      inputs.push(made)
    }
    const samples = drawing.samples(cell, (name, rank) => pattern.drawn(names.indexOf(name), rank))
    return { inputs, check: (results, mostRead) => productCheck(stage, results, samples, mostRead) }
  },
})

/** Random inputs that the host generates. Randomly chosen rows of the results are compared with the reference. */
const ofHost = (definition: AnyDefinition): Inputs => ({
  sets: (cell) => setsFor(operationOf(cell)!.gpu.work(cell).bytes),
  // To fill the inputs, the host makes one operation per input set, and each operation allocates its own buffers.
  extraBytes(cell) {
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
        // Other libraries may have enqueued work on the stream, too, so the host waits for the whole stream.
        for (const rank of world.localRanks) world.driverStream(rank, stage.stream.id).synchronize()
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

export const inputsOf = (definition: AnyDefinition): Inputs => {
  const drawing = definition.points.gpu?.drawing
  return drawing ? ofDevice(definition, drawing) : ofHost(definition)
}
