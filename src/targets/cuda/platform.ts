/** The platform of NVIDIA GPUs (../gpu/platform.ts): emitted CUDA C++, and tensor maps for the TMA. */
import { dtypes } from '../../ir/dtype.ts'
import type { HeapTensor } from '../../world/backend.ts'
import type { RankMemory } from '../gpu/arguments.ts'
import type { Platform } from '../gpu/platform.ts'
import type { EmittedKernel, MapRecipe } from './emit/recipe.ts'
import { asEmitted, emittedFor, type CudaEmitted, type MapParam } from './executables.ts'
import { capabilities, measuredOn, products } from './machines.ts'
import { readClock } from './readClock.ts'
import type { Device } from './runtime.ts'
import type { TensorMapShape, TensorMapType } from './tensormap.ts'

/** Compiles an emitted kernel to machine code for a device. */
export type Compile = (emitted: EmittedKernel, device: Device) => Uint8Array

/** The devices, and the compiler that generates machine code for them. */
export interface CudaDevices {
  readonly devices: readonly Device[]
  readonly compile: Compile
}

export class CudaPlatform implements Platform {
  readonly target = 'cuda'
  readonly capabilities = capabilities
  readonly products = products
  readonly measuredOn = measuredOn
  readonly clock = asEmitted(readClock)
  readonly emit = emittedFor
  readonly devices: readonly Device[]
  readonly #compile: Compile

  constructor({ devices, compile }: CudaDevices) {
    this.devices = devices
    this.#compile = compile
  }

  compile({ kernel }: CudaEmitted, device: Device): Uint8Array {
    return this.#compile(kernel, device)
  }

  /** A tensor map does not depend on the device that the kernel runs on. */
  encode({ map }: MapParam, tensor: HeapTensor, memory: RankMemory): Uint8Array {
    const { address, shape } = tensorMap(map, tensor, memory)
    return this.devices[0].tensorMap(address, shape)
  }
}

function tensorMap(
  param: MapRecipe,
  { dtype, shape, offset }: HeapTensor,
  { rank, heap, stride, heaps, places }: RankMemory,
): { readonly address: bigint; readonly shape: TensorMapShape } {
  const size = dtypes[dtype].bytes
  // The driver rejects tensor maps with an extent of 0, so an empty tensor gets the extents of the box. No kernel
  // copies from or to it.
  const dims = shape.includes(0) ? param.box : [...shape].reverse()
  const strides = dims.map((_, axis) =>
    dims.slice(0, axis + 1).reduce((product, extent) => product * extent, size),
  )
  const map: TensorMapShape = {
    dtype: dtype as TensorMapType,
    dims: param.ranked ? [...dims, heaps] : dims,
    strides: param.ranked ? [...strides.slice(0, -1), stride] : strides.slice(0, -1),
    box: param.ranked ? [...param.box, 1] : param.box,
    swizzle: param.swizzle,
  }
  const from = param.ranked ? 0 : places[rank]
  return { address: heap + BigInt(from) * BigInt(stride) + BigInt(offset), shape: map }
}
