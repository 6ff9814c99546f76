/** Handles matrices on the host. It packs weights once, and copies windows of a matrix that become shards. */
import type { PackedTensor, SymmetricTensor, World } from '../world/world.ts'
import type { OperandDType } from './operation.ts'

type Weights = SymmetricTensor<OperandDType>

/**
 * The packed form of each weight tensor. It is present as long as the packed form and the weights hold the same values.
 * Operations that share weights share the packed form.
 */
const packedOf = new WeakMap<SymmetricTensor, PackedTensor<OperandDType>>()

/** The packed form of the weights if `packWeights` has made one, otherwise the weights themselves. */
export const weightsIn = (weights: Weights): Weights | PackedTensor<OperandDType> =>
  packedOf.get(weights) ?? weights

export async function packWeights(world: World, weights: Weights): Promise<void> {
  if (!packedOf.has(weights)) packedOf.set(weights, await world.pack(weights))
}

/** Discards the packed form of the weights. This function must be called before the weights are written again. */
export function unpackWeights(world: World, weights: Weights): void {
  const packed = packedOf.get(weights)
  if (packed && packed.source !== weights) world.free(packed)
  packedOf.delete(weights)
}

/**
 * Copies a window of `height` x `width` elements whose first element is at row `top` and column `left`. Elements of the
 * window outside the matrix are 0.
 */
export function windowOf(
  matrix: ArrayLike<number>,
  [rows, columns]: readonly [number, number],
  [top, left]: readonly [number, number],
  [height, width]: readonly [number, number],
): ArrayLike<number> {
  if (height === rows && width === columns) return matrix
  const window = new (matrix instanceof Float32Array ? Float32Array : Float64Array)(height * width)
  for (let i = 0; i < height && top + i < rows; i++)
    for (let j = 0; j < width && left + j < columns; j++)
      window[i * width + j] = matrix[(top + i) * columns + left + j]
  return window
}
