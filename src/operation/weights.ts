/** Packs inputs that stay constant, such as weights, once into the layout that the target reads fastest. */
import type { PackedTensor, SymmetricTensor, World } from '../world/world.ts'
import type { OperandDType } from './definition.ts'

/**
 * The packed form of each weight tensor, which exists only while the packed form and the tensor hold the same values.
 * Operations that share weights share the packed form.
 */
const packedOf = new WeakMap<SymmetricTensor, PackedTensor>()

/**
 * Returns the weights in the target's packed layout if `packWeights` has packed them, and otherwise the weights
 * themselves.
 */
export const weightsIn = <D extends OperandDType>(
  weights: SymmetricTensor<D>,
): SymmetricTensor<D> | PackedTensor<D> => (packedOf.get(weights) as PackedTensor<D> | undefined) ?? weights

export async function packWeights(world: World, weights: SymmetricTensor): Promise<void> {
  if (!packedOf.has(weights)) packedOf.set(weights, await world.pack(weights))
}

/** Discards the packed form of the weights. The packed form must be discarded before the weights are written again. */
export function unpackWeights(world: World, weights: SymmetricTensor): void {
  const packed = packedOf.get(weights)
  if (packed && packed.source !== weights) world.free(packed)
  packedOf.delete(weights)
}
