// Kernels of loaded machine code, and launches of them. The shape and the arguments of a launch are written to native
// memory once, in the format of the driver, so that each further launch costs one call.

import type * as gpu from '../gpu/device.ts'
import { readHandle, readInt } from './driver.ts'
import { NativeBlock } from './node.ts'
import type { Device } from './runtime.ts'
import type { Stream } from './stream.ts'

/** CU_FUNC_ATTRIBUTE_NUM_REGS and CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES. */
const REGISTERS = 4
const MAX_DYNAMIC_SHARED = 8

export class Kernel implements gpu.Kernel {
  private dynamicShared = 48 * 1024

  constructor(
    readonly device: Device,
    readonly name: string,
    readonly handle: bigint,
  ) {}

  /**
   * Returns the function handle in a context, valid for the life of the context. If a launch received the kernel handle
   * instead of the function handle, the driver would look up the function in every launch.
   */
  functionIn(context: bigint): bigint {
    this.device.makeCurrent(context)
    return readHandle((out) => this.device.driver.cuKernelGetFunction(out, this.handle))
  }

  get registersPerThread(): number {
    const { driver, index } = this.device
    return readInt((out) => driver.cuKernelGetAttribute(out, REGISTERS, this.handle, index))
  }

  programsPerProcessor(shape: Pick<gpu.LaunchShape, 'block' | 'sharedBytes'>): number {
    const { driver, context } = this.device
    this.device.makeCurrent(context)
    this.allowShared(shape.sharedBytes ?? 0)
    return readInt((out) =>
      driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        out,
        this.handle,
        shape.block,
        shape.sharedBytes ?? 0,
      ),
    )
  }

  prepare(shape: gpu.LaunchShape, args: readonly gpu.KernelArgument[]): Launch {
    this.allowShared(shape.sharedBytes ?? 0)
    return new Launch(this, shape, args)
  }

  private allowShared(bytes: number): void {
    if (bytes <= this.dynamicShared) return
    if (bytes > this.device.sharedBytes) {
      throw new RangeError(
        `${this.name} needs ${bytes} bytes of shared memory per program, but ${this.device.name} allows at most ${this.device.sharedBytes} bytes`,
      )
    }
    const { driver, index } = this.device
    driver.cuKernelSetAttribute(MAX_DYNAMIC_SHARED, bytes, this.handle, index)
    this.dynamicShared = bytes
  }
}

// Byte offsets in CUlaunchConfig and CUlaunchAttribute. `cooperative` and `early` (programmatic dependent launch) are
// attribute ids.
const CONFIG = {
  grid: 0,
  block: 12,
  sharedBytes: 24,
  stream: 32,
  attributes: 40,
  attributeCount: 48,
  bytes: 64,
}
const ATTRIBUTE = { id: 0, value: 8, bytes: 72, cooperative: 2, early: 6 }

/** A kernel with its shape and arguments, laid out in native memory. */
export class Launch implements gpu.Launch {
  private readonly memory: NativeBlock
  private readonly view: DataView
  private readonly config: number
  private readonly pointers: number
  private readonly offsets: number[] = []
  /**
   * The stream of the last launch. The fields `function` and `early` are set for the stream of the last launch, and are
   * set again only if a later launch uses another stream or another value of `early`.
   */
  private stream: Stream | undefined
  private function = 0
  private early = false

  constructor(
    readonly kernel: Kernel,
    readonly shape: gpu.LaunchShape,
    args: readonly gpu.KernelArgument[],
  ) {
    const pointersAt = CONFIG.bytes + ATTRIBUTE.bytes
    let end = pointersAt + 8 * Math.max(1, args.length)
    for (const arg of args) {
      end = (end + 63) & ~63
      this.offsets.push(end)
      end += arg.type === 'bytes' ? arg.value.byteLength : 8
    }
    this.memory = new NativeBlock(end)
    this.view = new DataView(this.memory.view)
    this.config = Number(this.memory.address)
    this.pointers = this.config + pointersAt
    new Uint8Array(this.memory.view).fill(0)
    const words = [shape.grid, 1, 1, shape.block, 1, 1, shape.sharedBytes ?? 0]
    words.forEach((word, i) => this.view.setUint32(CONFIG.grid + 4 * i, word, true))
    this.view.setBigUint64(CONFIG.attributes, this.memory.address + BigInt(CONFIG.bytes), true)
    args.forEach((arg, i) => {
      this.view.setBigUint64(pointersAt + 8 * i, this.memory.address + BigInt(this.offsets[i]), true)
      this.setArgument(i, arg)
    })
  }

  setArgument(position: number, arg: gpu.KernelArgument): void {
    const at = this.offsets[position]
    switch (arg.type) {
      case 'u32':
        return this.view.setUint32(at, arg.value, true)
      case 'i32':
        return this.view.setInt32(at, arg.value, true)
      case 'f32':
        return this.view.setFloat32(at, arg.value, true)
      case 'u64':
        return this.view.setBigUint64(at, arg.value, true)
      case 'bytes':
        return new Uint8Array(this.memory.view, at, arg.value.byteLength).set(arg.value)
      default:
        return arg satisfies never
    }
  }

  on(stream: Stream, early = false): void {
    const { device } = this.kernel
    if (stream !== this.stream || early !== this.early) this.setUp(stream, early)
    device.makeCurrent(stream.context)
    device.driver.cuLaunchKernelEx(this.config, this.function, this.pointers, 0)
  }

  private setUp(stream: Stream, early: boolean): void {
    const order = early ? ATTRIBUTE.early : this.shape.cooperative ? ATTRIBUTE.cooperative : undefined
    this.view.setUint32(CONFIG.attributeCount, Number(order !== undefined), true)
    this.view.setUint32(CONFIG.bytes + ATTRIBUTE.id, order ?? 0, true)
    this.view.setUint32(CONFIG.bytes + ATTRIBUTE.value, 1, true)
    this.view.setBigUint64(CONFIG.stream, stream.handle, true)
    if (stream !== this.stream) this.function = Number(this.kernel.functionIn(stream.context))
    this.stream = stream
    this.early = early
  }

  close(): void {
    this.memory.free()
  }
}
