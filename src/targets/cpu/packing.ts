/** Tensors in the order in which products read them: what can be packed, and which parameters were given packed ones. */
import type { StorageDType } from '../../ir/dtype.ts'
import type { Kernel } from '../../lang/kernel.ts'
import { argumentOf, type Handle } from '../../world/arguments.ts'
import { WorldError } from '../../world/world.ts'

/** What a product multiplies, by the arrays that hold its bits. */
export const packable = {
  f32: Float32Array,
  f16: Uint16Array,
  bf16: Uint16Array,
  f8e4m3: Uint8Array,
  f8e5m2: Uint8Array,
  i8: Int8Array,
} as const
export type PackableArray = new (
  buffer: ArrayBufferLike,
  offset: number,
  length: number,
) => Float32Array | Uint16Array | Uint8Array | Int8Array
export const isPackable = (dtype: StorageDType): dtype is keyof typeof packable =>
  Object.hasOwn(packable, dtype)

/** The parameters that were given packed tensors, on every rank or on none. */
export function packedParams(
  kernel: Kernel,
  args: Readonly<Record<string, unknown>>,
  ranks: readonly number[],
): readonly string[] {
  let packed: string[] | undefined
  for (const [name, { kind }] of Object.entries(kernel.params)) {
    if (kind !== 'tensor') continue
    const given = args[name]
    const kinds = (typeof given === 'function' ? ranks : ranks.slice(0, 1)).map(
      (rank) => (argumentOf(given, rank) as Handle).kind,
    )
    if (kinds.every((one) => one !== 'packed')) continue
    if (kinds.some((one) => one !== 'packed'))
      throw new WorldError(`${kernel.name}: ${name} is packed on some ranks only`)
    ;(packed ??= []).push(name)
  }
  return packed ?? nonePacked
}
const nonePacked: readonly string[] = []
