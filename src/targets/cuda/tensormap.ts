// Encodes tensor maps: the descriptors of tensors in global memory for the TMA (tensor memory accelerator). Contract:
// `encodeTensorMap` checks the rules of the TMA first and names the rule that a tensor breaks. A caller can then use
// another kind of copy. The result is 128 opaque bytes for a `__grid_constant__` kernel parameter.

import type { Driver } from './driver.ts'
import { NativeBlock } from './node.ts'

export type TensorMapType = 'bf16' | 'f16' | 'f32' | 'u8' | 'u16' | 'u32' | 'i32'
export type Swizzle = 'none' | '32B' | '64B' | '128B'

export interface TensorMapShape {
  dtype: TensorMapType
  /** The extent of each axis of the tensor in elements, innermost (contiguous) axis first. */
  dims: readonly number[]
  /** The stride in bytes of each axis of the tensor except the innermost. */
  strides: readonly number[]
  /** The number of elements that one TMA copy moves along each axis. */
  box: readonly number[]
  swizzle: Swizzle
}

const TYPES: Record<TensorMapType, { code: number; bytes: number }> = {
  u8: { code: 0, bytes: 1 },
  u16: { code: 1, bytes: 2 },
  u32: { code: 2, bytes: 4 },
  i32: { code: 3, bytes: 4 },
  f16: { code: 6, bytes: 2 },
  f32: { code: 7, bytes: 4 },
  bf16: { code: 9, bytes: 2 },
}
const SWIZZLES: Record<Swizzle, { code: number; bytes: number }> = {
  none: { code: 0, bytes: Infinity },
  '32B': { code: 1, bytes: 32 },
  '64B': { code: 2, bytes: 64 },
  '128B': { code: 3, bytes: 128 },
}
/**
 * The L2 promotion size: 128 bytes, the longest row of a swizzled box. With a promotion size of 256 bytes, two rows or
 * two boxes request the same 256 bytes, and each request fetches both 128-byte halves from the other partition of the
 * L2 cache. On an H200, a promotion size of 256 bytes caused 48 % more traffic between the two partitions of the L2
 * cache and 6 % less bandwidth.
 */
const L2_PROMOTION_128B = 2

/** Returns the reason why the TMA cannot access this tensor, or null if the TMA can access it. */
export function tensorMapProblem(address: bigint, shape: TensorMapShape): string | null {
  const { dims, strides, box } = shape
  const bytes = TYPES[shape.dtype].bytes
  if (dims.length < 1 || dims.length > 5) return `${dims.length} axes, where 1 to 5 are possible`
  if (strides.length !== dims.length - 1 || box.length !== dims.length)
    return 'dims, strides and box of inconsistent lengths'
  if (address % 16n !== 0n) return `an address 0x${address.toString(16)} that is not a multiple of 16 bytes`
  for (const size of dims) {
    if (!Number.isInteger(size) || size < 1 || size > 2 ** 32) return `an axis of ${size} elements`
  }
  for (const stride of strides) {
    if (stride % 16 !== 0 || stride >= 2 ** 40)
      return `a stride of ${stride} bytes, which is not a multiple of 16`
  }
  for (const size of box) {
    if (size < 1 || size > 256) return `a box of ${size} elements along one axis, where 1 to 256 are possible`
  }
  const inner = box[0] * bytes
  if (inner % 16 !== 0) return `a box row of ${inner} bytes, which is not a multiple of 16`
  if (inner > SWIZZLES[shape.swizzle].bytes)
    return `a box row of ${inner} bytes in the ${shape.swizzle} swizzle`
  return null
}

export function encodeTensorMap(driver: Driver, address: bigint, shape: TensorMapShape): Uint8Array {
  const problem = tensorMapProblem(address, shape)
  if (problem) throw new RangeError(`the TMA cannot access this tensor, which has ${problem}`)
  const block = new NativeBlock(128)
  try {
    driver.cuTensorMapEncodeTiled(
      block.address,
      TYPES[shape.dtype].code,
      shape.dims.length,
      address,
      BigUint64Array.from(shape.dims, BigInt),
      shape.strides.length > 0 ? BigUint64Array.from(shape.strides, BigInt) : null,
      Uint32Array.from(shape.box),
      new Uint32Array(shape.dims.length).fill(1),
      0,
      SWIZZLES[shape.swizzle].code,
      L2_PROMOTION_128B,
      0,
    )
    return new Uint8Array(block.view.slice(0, 128))
  } finally {
    block.free()
  }
}
