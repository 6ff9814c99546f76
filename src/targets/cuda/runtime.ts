// The CUDA runtime: a device with its memory, streams, events, modules and launches.
// Contract: objects own their driver handle until `close()`; closing a device closes what it handed out. Every failure is
// a CudaError. Copies and launches are asynchronous on their stream. It runs machine code and makes none.

import { CUDA_ERROR_NOT_READY, CudaError, findCuda } from './driver.ts'
import type { Driver } from './driver.ts'
import { NativeBlock, viewNative } from './node.ts'
import { encodeTensorMap } from './tensormap.ts'
import type { TensorMapShape } from './tensormap.ts'

const DEVICE_ATTRIBUTE = { sms: 16, l2Bytes: 38, major: 75, minor: 76, sharedBytesPerBlock: 97 } as const
const FUNCTION_ATTRIBUTE = { localBytes: 3, registers: 4, maxDynamicShared: 8 } as const
const STREAM_NON_BLOCKING = 1
/** Higher than any, which the driver takes for the highest that there is. */
const HIGHEST_PRIORITY = -100
const HOST_PORTABLE_AND_MAPPED = 3
/** Other calls, loading a module say, may be made meanwhile. */
const CAPTURE_RELAXED = 2

/** The calling thread's, whichever device it is of. */
let currentContext: bigint | null = null

export class Device {
  readonly name: string
  readonly sms: number
  readonly l2Bytes: number
  readonly sharedBytesPerBlock: number
  readonly computeCapability: number
  readonly totalBytes: number
  /** The primary context; virtual ranks have their own. */
  readonly context: bigint
  private readonly owned: (() => void)[] = []

  /** Opens a device of this machine, or says why there is none. */
  static open(index = 0): Device {
    const cuda = findCuda()
    if (!cuda.available) throw new Error(`no CUDA here: ${cuda.reason}`)
    if (index >= cuda.deviceCount) {
      throw new RangeError(`there is no device ${index}: this machine has ${cuda.deviceCount}`)
    }
    return new Device(cuda.driver, index)
  }

  constructor(
    readonly driver: Driver,
    readonly index: number,
  ) {
    const attribute = (code: number) => readInt((out) => driver.cuDeviceGetAttribute(out, code, index))
    const text = new Uint8Array(256)
    driver.cuDeviceGetName(text, text.length, index)
    this.name = new TextDecoder().decode(text.subarray(0, text.indexOf(0)))
    this.sms = attribute(DEVICE_ATTRIBUTE.sms)
    this.l2Bytes = attribute(DEVICE_ATTRIBUTE.l2Bytes)
    this.sharedBytesPerBlock = attribute(DEVICE_ATTRIBUTE.sharedBytesPerBlock)
    this.computeCapability = attribute(DEVICE_ATTRIBUTE.major) * 10 + attribute(DEVICE_ATTRIBUTE.minor)
    this.totalBytes = Number(readHandle((out) => driver.cuDeviceTotalMem_v2(out, index)))
    this.context = readHandle((out) => driver.cuDevicePrimaryCtxRetain(out, index))
    this.owned.push(() => driver.cuDevicePrimaryCtxRelease_v2(index))
    this.makeCurrent(this.context)
  }

  /** Makes a context the calling thread's; every operation on a stream does this itself. */
  makeCurrent(context: bigint): void {
    if (currentContext === context) return
    this.driver.cuCtxSetCurrent(context)
    currentContext = context
  }

  /** Closes something when the device closes, in reverse order. */
  own(close: () => void): void {
    this.owned.push(close)
  }

  allocate(bytes: number): bigint {
    this.makeCurrent(this.context)
    return readHandle((out) => this.driver.cuMemAlloc_v2(out, bytes))
  }

  /** Waits for the device: never call it while kernels wait for each other. */
  free(address: bigint): void {
    this.makeCurrent(this.context)
    this.driver.cuMemFree_v2(address)
  }

  /** Pinned host memory that kernels can read and write at the same address. */
  allocateHost(bytes: number): HostMemory {
    this.makeCurrent(this.context)
    const address = readHandle((out) => this.driver.cuMemHostAlloc(out, bytes, HOST_PORTABLE_AND_MAPPED))
    const view = viewNative(address, bytes)
    new Uint8Array(view).fill(0)
    return { address, view, free: () => this.driver.cuMemFreeHost(address) }
  }

  createStream(): Stream {
    this.makeCurrent(this.context)
    const handle = readHandle((out) => this.driver.cuStreamCreate(out, STREAM_NON_BLOCKING))
    return new Stream(this, handle, this.context, this.sms)
  }

  /** Of the highest priority: others, and what graphs are made of, should not share its hardware queue. (That alone lets no copy through.) */
  createUrgentStream(): Stream {
    this.makeCurrent(this.context)
    const handle = readHandle((out) =>
      this.driver.cuStreamCreateWithPriority(out, STREAM_NON_BLOCKING, HIGHEST_PRIORITY),
    )
    return new Stream(this, handle, this.context, this.sms)
  }

  loadModule(cubin: Uint8Array): Module {
    this.makeCurrent(this.context)
    const handle = readHandle((out) =>
      this.driver.cuLibraryLoadData(out, cubin, null, null, 0, null, null, 0),
    )
    return new Module(this, handle)
  }

  tensorMap(address: bigint, shape: TensorMapShape): Uint8Array {
    return encodeTensorMap(this.driver, address, shape)
  }

  synchronize(): void {
    this.makeCurrent(this.context)
    this.driver.cuCtxSynchronize()
  }

  close(): void {
    while (this.owned.length > 0) this.owned.pop()!()
  }
}

export interface HostMemory {
  readonly address: bigint
  readonly view: ArrayBuffer
  free(): void
}

/** A queue of work on the device, or on a virtual rank's share of it. */
export class Stream {
  constructor(
    readonly device: Device,
    readonly handle: bigint,
    readonly context: bigint,
    /** Multiprocessors that work on this stream may use. */
    readonly sms: number,
  ) {}

  private get driver(): Driver {
    this.device.makeCurrent(this.context)
    return this.device.driver
  }

  /** By the engine that reads the queue: no multiprocessor is needed, and none of those that copy. */
  writeWord(to: bigint, word: number): void {
    this.driver.cuStreamWriteValue32_v2(this.handle, to, word, 0)
  }

  /** Pageable memory: `from` has been read when this returns. */
  copyIn(to: bigint, from: ArrayBufferView): void {
    this.driver.cuMemcpyHtoDAsync_v2(to, from, from.byteLength, this.handle)
  }

  /** Pinned memory is filled when the stream has come so far, other memory when this returns. */
  startCopyOut(to: ArrayBufferView, from: bigint): void {
    this.driver.cuMemcpyDtoHAsync_v2(to, from, to.byteLength, this.handle)
  }

  /** Fills `to` and returns when it is filled. */
  copyOut(to: ArrayBufferView, from: bigint): void {
    this.startCopyOut(to, from)
    this.synchronize()
  }

  copy(to: bigint, from: bigint, bytes: number): void {
    this.driver.cuMemcpyDtoDAsync_v2(to, from, bytes, this.handle)
  }

  fillBytes(to: bigint, value: number, bytes: number): void {
    this.driver.cuMemsetD8Async(to, value, bytes, this.handle)
  }

  createEvent(): StreamEvent {
    const driver = this.driver
    return new StreamEvent(
      this,
      readHandle((out) => driver.cuEventCreate(out, 0)),
    )
  }

  waitFor(event: StreamEvent): void {
    this.driver.cuStreamWaitEvent(this.handle, event.handle, 0)
  }

  /** What is enqueued from now on, here and on streams that wait for this one, becomes a graph and does not run. */
  beginCapture(): void {
    this.driver.cuStreamBeginCapture_v2(this.handle, CAPTURE_RELAXED)
  }

  endCapture(): Graph {
    const { driver } = this
    const graph = readHandle((out) => driver.cuStreamEndCapture(this.handle, out))
    try {
      return new Graph(
        this,
        readHandle((out) => driver.cuGraphInstantiateWithFlags(out, graph, 0)),
      )
    } finally {
      driver.cuGraphDestroy(graph)
    }
  }

  /** Gives up what was captured, after a failure. */
  dropCapture(): void {
    const graph = readHandle((out) => this.driver.cuStreamEndCapture(this.handle, out))
    if (graph !== 0n) this.driver.cuGraphDestroy(graph)
  }

  /** Whether everything enqueued so far is done. */
  isIdle(): boolean {
    return isReady(() => this.driver.cuStreamQuery(this.handle))
  }

  synchronize(): void {
    this.driver.cuStreamSynchronize(this.handle)
  }

  close(): void {
    this.driver.cuStreamDestroy_v2(this.handle)
  }
}

/** A point in one stream, with the time it was reached. */
export class StreamEvent {
  constructor(
    readonly stream: Stream,
    readonly handle: bigint,
  ) {}

  private get driver(): Driver {
    this.stream.device.makeCurrent(this.stream.context)
    return this.stream.device.driver
  }

  record(): void {
    this.driver.cuEventRecord(this.handle, this.stream.handle)
  }

  isReached(): boolean {
    return isReady(() => this.driver.cuEventQuery(this.handle))
  }

  synchronize(): void {
    this.driver.cuEventSynchronize(this.handle)
  }

  millisecondsSince(earlier: StreamEvent): number {
    const out = new Float32Array(1)
    this.driver.cuEventElapsedTime(out, earlier.handle, this.handle)
    return out[0]
  }

  close(): void {
    this.driver.cuEventDestroy_v2(this.handle)
  }
}

/** Launches that were captured, to be enqueued by one call as often as one likes. */
export class Graph {
  constructor(
    /** The one it was captured on. */
    readonly stream: Stream,
    readonly handle: bigint,
  ) {}

  launch(): void {
    const { device, context, handle } = this.stream
    device.makeCurrent(context)
    device.driver.cuGraphLaunch(this.handle, handle)
  }

  close(): void {
    this.stream.device.driver.cuGraphExecDestroy(this.handle)
  }
}

/** Loaded machine code. Its kernels run on every stream of the device, virtual ranks' too. */
export class Module {
  constructor(
    readonly device: Device,
    readonly handle: bigint,
  ) {}

  kernel(name: string): Kernel {
    const { driver } = this.device
    return new Kernel(
      this.device,
      name,
      readHandle((out) => driver.cuLibraryGetKernel(out, this.handle, name)),
    )
  }

  close(): void {
    this.device.driver.cuLibraryUnload(this.handle)
  }
}

export interface LaunchShape {
  /** Programs (thread blocks). */
  grid: number
  /** Threads of one program. */
  block: number
  /** Dynamic shared memory of one program. */
  sharedBytes?: number
  /** Programs of one cluster; the grid is a multiple of it. */
  cluster?: number
  /** The driver refuses the launch unless all programs can run at once. */
  cooperative?: boolean
}

export class Kernel {
  readonly registers: number
  /** Bytes of local memory a thread: more than 0 means spills or arrays that are indexed at run time. */
  readonly localBytes: number
  private dynamicShared = 48 * 1024

  constructor(
    readonly device: Device,
    readonly name: string,
    readonly handle: bigint,
  ) {
    this.registers = this.attribute(FUNCTION_ATTRIBUTE.registers)
    this.localBytes = this.attribute(FUNCTION_ATTRIBUTE.localBytes)
  }

  /** In a context, for as long as that is there; the driver would look it up in every launch. */
  functionIn(context: bigint): bigint {
    this.device.makeCurrent(context)
    return readHandle((out) => this.device.driver.cuKernelGetFunction(out, this.handle))
  }

  private attribute(code: number): number {
    const { driver, index } = this.device
    return readInt((out) => driver.cuKernelGetAttribute(out, code, this.handle, index))
  }

  /** Programs that can run at the same time on one multiprocessor. */
  programsPerSm(shape: Pick<LaunchShape, 'block' | 'sharedBytes'>): number {
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

  /** Fixes shape and arguments, so that launching again costs one driver call. */
  prepare(shape: LaunchShape, args: readonly KernelArgument[]): Launch {
    if (shape.cluster && shape.grid % shape.cluster !== 0) {
      throw new RangeError(
        `${this.name}: a grid of ${shape.grid} is not a multiple of its cluster of ${shape.cluster}`,
      )
    }
    this.allowShared(shape.sharedBytes ?? 0)
    return new Launch(this, shape, args)
  }

  private allowShared(bytes: number): void {
    if (bytes <= this.dynamicShared) return
    if (bytes > this.device.sharedBytesPerBlock) {
      throw new RangeError(
        `${this.name} needs ${bytes} bytes of shared memory; a program here has ${this.device.sharedBytesPerBlock}`,
      )
    }
    const { driver, index } = this.device
    driver.cuKernelSetAttribute(FUNCTION_ATTRIBUTE.maxDynamicShared, bytes, this.handle, index)
    this.dynamicShared = bytes
  }
}

/** One kernel parameter, in the order of the signature. */
export type KernelArgument =
  | { type: 'u32' | 'i32' | 'f32'; value: number }
  | { type: 'u64'; value: bigint }
  | { type: 'bytes'; value: Uint8Array }

export const u32 = (value: number): KernelArgument => ({ type: 'u32', value })
export const i32 = (value: number): KernelArgument => ({ type: 'i32', value })
export const f32 = (value: number): KernelArgument => ({ type: 'f32', value })
/** A device pointer or a 64-bit integer. */
export const u64 = (value: bigint): KernelArgument => ({ type: 'u64', value })
/** A structure passed by value: a tensor map. */
export const bytes = (value: Uint8Array): KernelArgument => ({ type: 'bytes', value })

// Offsets in CUlaunchConfig and CUlaunchAttribute.
const CONFIG = {
  grid: 0,
  block: 12,
  sharedBytes: 24,
  stream: 32,
  attributes: 40,
  attributeCount: 48,
  bytes: 64,
}
const ATTRIBUTE = { id: 0, value: 8, bytes: 72, cooperative: 2, clusterDimension: 4, early: 6 }

/** A kernel with its shape and arguments laid out in native memory. */
export class Launch {
  private readonly memory: NativeBlock
  private readonly view: DataView
  private readonly config: number
  private readonly pointers: number
  private readonly offsets: number[] = []
  /** Attributes that every launch has. */
  private always = 0
  /** What the last launch was set up for; the next one is as a rule the same. */
  private stream: Stream | undefined
  private function = 0
  private early = false

  constructor(
    readonly kernel: Kernel,
    readonly shape: LaunchShape,
    args: readonly KernelArgument[],
  ) {
    const pointersAt = CONFIG.bytes + 2 * ATTRIBUTE.bytes
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
    if (shape.cluster && shape.cluster > 1)
      this.setAttribute(this.always++, ATTRIBUTE.clusterDimension, [shape.cluster, 1, 1])
    this.view.setBigUint64(CONFIG.attributes, this.memory.address + BigInt(CONFIG.bytes), true)
    args.forEach((arg, i) => {
      this.view.setBigUint64(pointersAt + 8 * i, this.memory.address + BigInt(this.offsets[i]), true)
      this.setArgument(i, arg)
    })
  }

  /** Replaces one argument for later launches; those already enqueued keep theirs. */
  setArgument(position: number, arg: KernelArgument): void {
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

  private setAttribute(position: number, id: number, values: readonly number[]): void {
    const at = CONFIG.bytes + position * ATTRIBUTE.bytes
    this.view.setUint32(at + ATTRIBUTE.id, id, true)
    values.forEach((value, i) => this.view.setUint32(at + ATTRIBUTE.value + 4 * i, value, true))
  }

  /**
   * Enqueues the kernel. `early`: its programs may start while the kernel before it on the stream ends, and wait for its end
   * themselves. They then start one by one, as those of the kernel before make room: not as a whole, as a cooperative launch does.
   */
  on(stream: Stream, early = false): void {
    const { device } = this.kernel
    if (stream !== this.stream || early !== this.early) this.setUp(stream, early)
    device.makeCurrent(stream.context)
    device.driver.cuLaunchKernelEx(this.config, this.function, this.pointers, 0)
  }

  private setUp(stream: Stream, early: boolean): void {
    const order = early ? ATTRIBUTE.early : this.shape.cooperative ? ATTRIBUTE.cooperative : undefined
    if (order !== undefined) this.setAttribute(this.always, order, [1])
    this.view.setUint32(CONFIG.attributeCount, this.always + Number(order !== undefined), true)
    this.view.setBigUint64(CONFIG.stream, stream.handle, true)
    if (stream !== this.stream) this.function = Number(this.kernel.functionIn(stream.context))
    this.stream = stream
    this.early = early
  }

  close(): void {
    this.memory.free()
  }
}

export function readHandle(call: (out: BigUint64Array) => void): bigint {
  const out = new BigUint64Array(1)
  call(out)
  return out[0]
}

function readInt(call: (out: Int32Array) => void): number {
  const out = new Int32Array(1)
  call(out)
  return out[0]
}

function isReady(query: () => void): boolean {
  try {
    query()
    return true
  } catch (error) {
    if (error instanceof CudaError && error.code === CUDA_ERROR_NOT_READY) return false
    throw error
  }
}
