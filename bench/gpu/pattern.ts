/**
 * Random numbers for tensors of any size, without making them one by one: a block of them is written once and repeated by copies
 * on the device, from another place on for every tensor and rank. What any element is can be told without reading it back.
 */
import { readElements, writeElements } from '../../src/world/elements.ts'
import type { SymmetricTensor } from '../../src/world/world.ts'
import type { CudaWorld } from '../../src/targets/cuda/world.ts'

export type HalfDType = 'bf16' | 'f16'

/** Rows of 128 elements in a block. It has no factor in common with extents, so that rows of a tensor begin everywhere in it. */
export const blockRows = 32_767
export const rowElements = 128
const blockElements = blockRows * rowElements
const tableSize = 4096

/** A tensor's elements on a rank, in row-major order. */
export type Elements = (index: number) => number

export class Pattern {
  readonly #bits: Uint16Array
  readonly #values: Float64Array

  constructor(
    readonly dtype: HalfDType,
    seed: number,
  ) {
    // Bell-shaped, between -2 and 2.
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

  /** In rows; each tensor has a number of its own. */
  #shift(tensor: number, rank: number): number {
    return ((tensor * 64 + rank) * 4099) % blockRows
  }

  /** What `fill` writes. */
  elements(tensor: number, rank: number): Elements {
    const shift = this.#shift(tensor, rank) * rowElements
    return (index) => this.#values[(index + shift) % blockElements]
  }

  /** All that elements are drawn from, and where in it a row of 128 elements of a tensor lies. Rows in one place are equal. */
  rows(tensor: number, rank: number): { readonly values: Float64Array; place(row: number): number } {
    const shift = this.#shift(tensor, rank)
    return { values: this.#values, place: (row) => ((row + shift) % blockRows) * rowElements }
  }

  /** On one rank, as another one's if that is said; with nothing under way. */
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

/** Of one rank: bits that stand for no number, so that what is not written shows. */
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

/** Elements of a rank's copy of a tensor; with nothing under way. */
export const readSome = (...place: Parameters<typeof readBits>): Float64Array => {
  const bits = readBits(...place)
  return readElements(bits.buffer, 0, place[1].dtype, bits.length)
}

/** Whether every element of the first ones is a number: none that was poisoned is left. */
export function isWritten(world: CudaWorld, tensor: SymmetricTensor, rank: number, count: number): boolean {
  const infinity = tensor.dtype === 'bf16' ? 0x7f80 : 0x7c00
  const bits = readBits(world, tensor, rank, 0, count)
  for (let n = 0; n < count; n++) if ((bits[n] & 0x7fff) > infinity) return false
  return true
}
