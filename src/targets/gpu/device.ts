/**
 * The interface of a GPU: memory, streams, events, graphs, loaded code, launches and shares of the device. This
 * folder depends only on this interface and on platform.ts. ../cuda/runtime.ts implements it for NVIDIA's driver. Contract:
 *
 *   - Work on one stream executes in order. Only events order the work of two streams. Copies and launches return at
 *     once.
 *   - Addresses are device addresses as kernels use them. Host memory allocated here has the same address on the host
 *     and the device.
 *   - Objects own their driver resources until `close`. Every call that fails throws a `DeviceError`.
 *   - Allocating, freeing, loading code and creating streams may block until no kernel runs. Of the other calls only
 *     `synchronize` and `copyOut` block. A caller that has launched kernels that wait must not make a blocking call
 *     before these kernels have ended.
 */
/** A failed driver call. */
export class DeviceError extends Error {}

export interface Device {
  readonly name: string
  /** The number of multiprocessors (compute units). One multiprocessor can run several programs concurrently. */
  readonly processors: number
  /** The number of threads in a warp (wave). */
  readonly warp: number
  /** The number of 32-bit registers per multiprocessor. */
  readonly registers: number
  /** The most shared memory that one program can use, in bytes. */
  readonly sharedBytes: number
  /** The bytes of the cache that all multiprocessors share. */
  readonly cacheBytes: number

  allocate(bytes: number): bigint
  free(address: bigint): void
  /** Allocates host memory that kernels can read and write. */
  allocateHost(bytes: number): HostMemory
  /**
   * Creates a stream. An `urgent` stream shares no hardware queue with other streams, so that its work can execute
   * while kernels wait.
   */
  createStream(urgent?: boolean): Stream
  /**
   * Loads machine code and returns the kernel of this name. The kernel can run on every stream of the device and of its
   * shares.
   */
  loadKernel(code: Uint8Array, name: string): Kernel

  /**
   * Splits the device into `ranks` shares of `processors` multiprocessors each, by default equal shares. Throws a RangeError
   * if they do not fit.
   */
  share(ranks: number, processors?: number): Share[]
  /** True if kernels of this device can access the memory of the other device. */
  canReach(other: Device): boolean
  /**
   * Allocates a heap of `bytes` bytes on each device. The heaps are adjacent in one address range that all devices can
   * access.
   */
  mapHeaps(devices: readonly Device[], bytes: number): Heaps
}

export interface HostMemory {
  readonly address: bigint
  readonly view: ArrayBuffer
  free(): void
}

/** The heaps of all ranks. Rank r's heap starts at `heap + r * stride`. */
export interface Heaps {
  readonly heap: bigint
  readonly stride: number
  close(): void
}

/** A share of a device: some multiprocessors, and streams that use only these multiprocessors. */
export interface Share {
  /** The number of multiprocessors of the share. */
  readonly processors: number
  createStream(): Stream
  close(): void
}

export interface Stream {
  readonly device: Device
  /** Writes a 32-bit word in stream order, using neither a multiprocessor nor a DMA copy engine. */
  writeWord(to: bigint, word: number): void
  /** Copies host memory to the device. `from` has been read when the call returns. */
  copyIn(to: bigint, from: ArrayBufferView): void
  /**
   * Enqueues a copy to the host. `to` must be memory of `allocateHost` and is filled when the stream reaches the copy.
   */
  startCopyOut(to: ArrayBufferView, from: bigint): void
  /** Copies device memory to the host and returns when `to` is filled. */
  copyOut(to: ArrayBufferView, from: bigint): void
  copy(to: bigint, from: bigint, bytes: number): void
  fillBytes(to: bigint, value: number, bytes: number): void
  createEvent(): StreamEvent
  waitFor(event: StreamEvent): void
  /**
   * Starts a capture. Work enqueued from now on, here and on streams that wait for this stream, is added to a graph and
   * does not run.
   */
  beginCapture(): void
  endCapture(): Graph
  /** Discards the captured work after a failure. */
  dropCapture(): void
  /** True if all work enqueued so far has ended. */
  isIdle(): boolean
  synchronize(): void
  close(): void
}

/** A point in a stream that records the time at which the stream reached it. */
export interface StreamEvent {
  readonly stream: Stream
  record(): void
  isReached(): boolean
  millisecondsSince(earlier: StreamEvent): number
  close(): void
}

/** Captured launches that one driver call can enqueue any number of times. */
export interface Graph {
  launch(): void
  close(): void
}

export interface LaunchShape {
  /** The number of programs (thread blocks). */
  readonly grid: number
  /** The number of threads per program. */
  readonly block: number
  /** Dynamic shared memory per program, in bytes. */
  readonly sharedBytes?: number
  /** If true, the driver rejects the launch unless all programs can be resident at once. */
  readonly cooperative?: boolean
}

export interface Kernel {
  /** The number of programs that can be resident on one multiprocessor. */
  programsPerProcessor(shape: Pick<LaunchShape, 'block' | 'sharedBytes'>): number
  /** Lays out shape and arguments in native memory, so that each launch costs one driver call. */
  prepare(shape: LaunchShape, args: readonly KernelArgument[]): Launch
}

export interface Launch {
  /** Replaces one argument for later launches. Launches that are already enqueued keep their arguments. */
  setArgument(position: number, arg: KernelArgument): void
  /**
   * Enqueues the kernel. `early` allows its programs to start before the previous kernel on the stream has ended, one
   * at a time, as programs of that kernel free resources. The programs then wait for its end themselves, before they
   * access memory other than tensors that the parameter `settled` names. A device that cannot do this, or a kernel that
   * does not wait, starts after the previous kernel. An early launch does not have to be cooperative.
   */
  on(stream: Stream, early?: boolean): void
  close(): void
}

/** One kernel parameter, in the order of the signature. */
export type KernelArgument =
  | { readonly type: 'u32' | 'i32' | 'f32'; readonly value: number }
  | { readonly type: 'u64'; readonly value: bigint }
  | { readonly type: 'bytes'; readonly value: Uint8Array }

export const u32 = (value: number): KernelArgument => ({ type: 'u32', value })
export const i32 = (value: number): KernelArgument => ({ type: 'i32', value })
export const f32 = (value: number): KernelArgument => ({ type: 'f32', value })
/** A device pointer or a 64-bit integer. */
export const u64 = (value: bigint): KernelArgument => ({ type: 'u64', value })
/** A structure passed by value: a tensor map. */
export const bytes = (value: Uint8Array): KernelArgument => ({ type: 'bytes', value })
