/**
 * The interface of a GPU: memory, streams, events, graphs, loaded code, launches and shares of the device. The folder
 * src/targets/gpu depends only on the interfaces in device.ts and platform.ts. The file ../cuda/runtime.ts implements
 * the device interface for NVIDIA's driver. The contract of a device:
 *
 *   - Work on one stream executes in order. Only events order the work of two streams. Calls that start copies or
 *     launches return immediately.
 *   - Addresses are device addresses as kernels use them. Host memory from `allocateHost` has the same address on the
 *     host and the device.
 *   - Objects own their driver resources until `close`. Every call that fails throws a `DeviceError`.
 * - Allocating, freeing, loading code and creating streams may block until no kernel runs. Apart from allocating,
 *   freeing, loading code and creating streams, only `synchronize` and `copyOut` block. A caller that has launched
 *   kernels that wait must not make a blocking call
 *     before these kernels have ended.
 */
import type { ProcessorLimits } from '../../world/machine.ts'

/** The error for a failed driver call. */
export class DeviceError extends Error {}

export interface Device {
  readonly name: string
  /** The number of multiprocessors (compute units). One multiprocessor can run several programs concurrently. */
  readonly processors: number
  /** The number of threads in a warp (wave). */
  readonly warp: number
  /** The resources that the programs on one multiprocessor share. */
  readonly perProcessor: ProcessorLimits
  /** The maximum shared memory that one program can use, in bytes. */
  readonly sharedBytes: number
  /** The size in bytes of the cache that all multiprocessors share (the L2 cache). */
  readonly cacheBytes: number

  allocate(bytes: number): bigint
  free(address: bigint): void
  /** Allocates host memory that kernels can read and write. */
  allocateHost(bytes: number): HostMemory
  /**
   * Creates a stream on the device. An `urgent` stream shares no hardware queue with other streams, so that its work
   * can execute while kernels wait.
   */
  createStream(urgent?: boolean): Stream
  /**
   * Loads machine code and returns the kernel with the given name. A loaded kernel can run on every stream of the
   * device and of its shares.
   */
  loadKernel(code: Uint8Array, name: string): Kernel

  /**
   * Splits the device into `ranks` shares of `processors` multiprocessors each, by default equal shares. A RangeError
   * is thrown if the device has too few multiprocessors.
   */
  share(ranks: number, processors?: number): Share[]
  /** True if kernels of the device can access the memory of the device `other`. */
  canReach(other: Device): boolean
  /**
   * Allocates a heap of `bytes` bytes on each device. The heaps of all devices are adjacent in one address range that
   * all devices can access.
   */
  mapHeaps(devices: readonly Device[], bytes: number): Heaps
}

export interface HostMemory {
  readonly address: bigint
  readonly view: ArrayBuffer
  free(): void
}

/** The heaps of all ranks in device memory. Rank r's heap starts at `heap + r * stride`. */
export interface Heaps {
  readonly heap: bigint
  readonly stride: number
  close(): void
}

/** A share of a device: some multiprocessors, and streams whose work runs only on them. */
export interface Share {
  /** The number of multiprocessors of the share. */
  readonly processors: number
  createStream(): Stream
  close(): void
}

export interface Stream {
  readonly device: Device
  /** Writes a 32-bit word in stream order, using neither a multiprocessor nor a DMA engine. */
  writeWord(to: bigint, word: number): void
  /** Copies host memory to the device. The host memory `from` has been read when the call returns. */
  copyIn(to: bigint, from: ArrayBufferView): void
  /**
   * Enqueues a copy to the host. The target `to` must be memory that `allocateHost` returned. The host memory is filled
   * when the stream reaches the copy.
   */
  startCopyOut(to: ArrayBufferView, from: bigint): void
  /** Copies device memory to the host and returns when the host memory is filled. */
  copyOut(to: ArrayBufferView, from: bigint): void
  copy(to: bigint, from: bigint, bytes: number): void
  fillBytes(to: bigint, value: number, bytes: number): void
  createEvent(): StreamEvent
  waitFor(event: StreamEvent): void
  /**
   * Starts the capture of a graph. Work that is enqueued after this call, on the stream or on streams that wait for it,
   * is added to a graph and does not run.
   */
  beginCapture(): void
  endCapture(): Graph
  /** Discards the captured work of a graph after a failure. */
  dropCapture(): void
  /** True if all work enqueued so far on the stream has ended. */
  isIdle(): boolean
  synchronize(): void
  close(): void
}

/** An event: a point in a stream that records the time at which the stream reached it. */
export interface StreamEvent {
  readonly stream: Stream
  record(): void
  isReached(): boolean
  millisecondsSince(earlier: StreamEvent): number
  close(): void
}

/** A graph: captured launches that one driver call can enqueue any number of times. */
export interface Graph {
  launch(): void
  close(): void
}

export interface LaunchShape {
  /** The number of programs (thread blocks) of the launch. */
  readonly grid: number
  /** The number of threads per program. */
  readonly block: number
  /** The dynamic shared memory of each program, in bytes. */
  readonly sharedBytes?: number
  /** If true, the driver rejects the launch unless all programs can be resident at once. */
  readonly cooperative?: boolean
}

export interface Kernel {
  /** The number of programs that can be resident on one multiprocessor. */
  programsPerProcessor(shape: Pick<LaunchShape, 'block' | 'sharedBytes'>): number
  readonly registersPerThread: number
  /** Prepares the launch shape and the arguments in native memory, so that each launch costs one driver call. */
  prepare(shape: LaunchShape, args: readonly KernelArgument[]): Launch
}

export interface Launch {
  /**
   * Replaces one argument of a prepared launch for later launches. Launches that are already enqueued keep their
   * arguments.
   */
  setArgument(position: number, arg: KernelArgument): void
  /**
   * Enqueues the kernel on a stream. The option `early` allows programs to start before the previous kernel on the
   * stream has ended, one at a time, as programs of that kernel free resources. Programs that start early wait for the
   * end of the previous kernel themselves, before they access memory other than the tensors that the parameter
   * `settled` names. If the device cannot start programs early, or if the kernel does not contain a wait for the
   * previous kernel, the kernel starts after the previous kernel. A launch with the option `early` does not have to be
   * cooperative.
   */
  on(stream: Stream, early?: boolean): void
  close(): void
}

/** The value of one kernel parameter. The arguments of a launch are in the order of the kernel's signature. */
export type KernelArgument =
  | { readonly type: 'u32' | 'i32' | 'f32'; readonly value: number }
  | { readonly type: 'u64'; readonly value: bigint }
  | { readonly type: 'bytes'; readonly value: Uint8Array }

export const u32 = (value: number): KernelArgument => ({ type: 'u32', value })
export const i32 = (value: number): KernelArgument => ({ type: 'i32', value })
export const f32 = (value: number): KernelArgument => ({ type: 'f32', value })
/** A device pointer or a 64-bit integer. */
export const u64 = (value: bigint): KernelArgument => ({ type: 'u64', value })
/** A structure that is passed by value, such as a tensor map. */
export const bytes = (value: Uint8Array): KernelArgument => ({ type: 'bytes', value })
