/**
 * Fills tensors of any size with random numbers without generating each element. One block of random numbers is written
 * once and repeated by device copies. Each rank's copy of each tensor starts at a different offset in the block, so the
 * value of every element is known without reading it.
 */
import type { Drawn, Elements } from '../../src/ops/drawn.ts'
import { readElements, writeElements } from '../../src/world/elements.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'

export type HalfDType = 'bf16' | 'f16'

/**
 * The number of rows of 128 elements in a block. The number of rows has no factor in common with usual extents, so that
 * rows of a tensor start at all offsets of the block.
 */
export const blockRows = 32_767
export const rowElements = 128
const blockElements = blockRows * rowElements
const tableSize = 4096

export class Pattern {
  readonly #bits: Uint16Array
  readonly #values: Float64Array

  constructor(
    readonly dtype: HalfDType,
    seed: number,
  ) {
    // The sum of four uniform random numbers, which has a bell-shaped distribution between -2 and 2.
    let state = Math.imul(seed, 0x9e3779b1) | 1
    const next = (): number => {
      state ^= state << 13
      state ^= state >>> 17
      state ^= state << 5
      return state >>> 0
    }
    const drawn = Float32Array.from({ length: tableSize }, () => {
      let sum = -2
      for (let i = 0; i < 4; i++) sum += next() / 2 ** 32
      return sum
    })
    const table = new Uint16Array(tableSize)
    writeElements(table.buffer, 0, dtype, drawn)
    this.#bits = new Uint16Array(blockElements)
    for (let i = 0; i < blockElements; i++) this.#bits[i] = table[next() & (tableSize - 1)]
    this.#values = readElements(this.#bits.buffer, 0, dtype, blockElements)
  }

  /**
   * The offset, in rows, of a tensor's contents in the block of random numbers. The argument `tensor` is a number that
   * differs between tensors.
   */
  #shift(tensor: number, rank: number): number {
    return ((tensor * 64 + rank) * 4099) % blockRows
  }

  /** The elements that the function `fill` writes into a tensor. */
  drawn(tensor: number, rank: number): Drawn {
    const rows = this.#shift(tensor, rank)
    const [values, shift] = [this.#values, rows * rowElements]
    return {
      element: (index) => values[(index + shift) % blockElements],
      values,
      place: (row) => ((row + rows) % blockRows) * rowElements,
      period: blockRows,
    }
  }

  elements(tensor: number, rank: number): Elements {
    return this.drawn(tensor, rank).element
  }

  /**
   * Fills one rank's copy of a tensor with the random numbers that belong to the rank `as`. No kernel may be running
   * during the fill.
   */
  fill(world: CudaWorld, tensor: SymmetricTensor, number: number, rank: number, as = rank): void {
    const stream = world.driverStream(rank)
    const to = world.addressOf(tensor, rank)
    const elements = tensor.shape.reduce((product, extent) => product * extent, 1)
    const shift = this.#shift(number, as) * rowElements
    const head = Math.min(elements, blockElements - shift)
    stream.copyIn(to, this.#bits.subarray(shift, shift + head))
    const tail = Math.min(elements - head, shift)
    if (tail > 0) stream.copyIn(to + BigInt(2 * head), this.#bits.subarray(0, tail))
    for (let done = head + tail; done < elements; done *= 2)
      stream.copy(to + BigInt(2 * done), to, 2 * Math.min(done, elements - done))
    stream.synchronize()
  }
}

/** Fills a tensor on one rank with NaN bits, so that elements that are not written can be detected. */
export function poison(world: CudaWorld, tensor: SymmetricTensor, rank: number): void {
  const stream = world.driverStream(rank)
  const elements = tensor.shape.reduce((product, extent) => product * extent, 1)
  stream.fillBytes(world.addressOf(tensor, rank), 0xff, 2 * elements)
  stream.synchronize()
}

function readBits(
  world: CudaWorld,
  tensor: SymmetricTensor,
  rank: number,
  from: number,
  count: number,
): Uint16Array<ArrayBuffer> {
  const bits = new Uint16Array(count)
  world.driverStream(rank).copyOut(bits, world.addressOf(tensor, rank) + BigInt(2 * from))
  return bits
}

/** Reads elements of a rank's copy of a tensor. No kernel may be running during the read. */
export const readSome = (...place: Parameters<typeof readBits>): Float64Array => {
  const bits = readBits(...place)
  return readElements(bits.buffer, 0, place[1].dtype, bits.length)
}

/** True if none of the first `count` elements is NaN, so that no poisoned element is left. */
export function isWritten(world: CudaWorld, tensor: SymmetricTensor, rank: number, count: number): boolean {
  const infinity = tensor.dtype === 'bf16' ? 0x7f80 : 0x7c00
  const bits = readBits(world, tensor, rank, 0, count)
  for (let n = 0; n < count; n++) if ((bits[n] & 0x7fff) > infinity) return false
  return true
}
