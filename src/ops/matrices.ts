/** Matrices of operations on the host's side: weights that are packed once, and shards of a whole. */
import type { PackedTensor, SymmetricTensor, World } from '../world/world.ts'
import type { OperandDType } from './operation.ts'

type Weights = SymmetricTensor<OperandDType>

/** What weights were packed into, while it holds what they hold. Operations that share weights share it. */
const packedOf = new WeakMap<SymmetricTensor, PackedTensor<OperandDType>>()

/** As they are, or packed since. */
export const weightsIn = (weights: Weights): Weights | PackedTensor<OperandDType> =>
  packedOf.get(weights) ?? weights

export async function packWeights(world: World, weights: Weights): Promise<void> {
  if (!packedOf.has(weights)) packedOf.set(weights, await world.pack(weights))
}

/** Before they are written anew. */
export function unpackWeights(world: World, weights: Weights): void {
  const packed = packedOf.get(weights)
  if (packed && packed.source !== weights) world.free(packed)
  packedOf.delete(weights)
}

/** Rows and columns from (top, left) of a matrix; 0 where it has ended. */
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
