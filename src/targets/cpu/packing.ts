/** The dtypes that `world.pack` accepts. A packed tensor is stored in the order in which matrix products read it. */
import type { StorageDType } from '../../ir/dtype.ts'

/** The dtypes that a matrix product can multiply, with the typed array that holds their bits. */
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
