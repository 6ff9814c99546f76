/**
 * A GPU, as worlds on GPUs see it: memory, streams, events, graphs, loaded code, launches, shares of the device. Everything above this
 * file (machine.ts, backend.ts and what they use) is written against it; a second vendor's driver implements it, as runtime.ts does for
 * NVIDIA's. Contract:
 *
 *   - What is enqueued on a stream happens in order; two streams are in no order but by events. Copies and launches return at once.
 *   - Addresses are those that kernels use. Host memory that is allocated here has the same address for both sides.
 *   - Objects own what the driver gave them until `close`. Every call that fails throws a `DeviceError`.
 *   - Allocating, freeing, loading code and creating streams may wait until no kernel runs; nothing else waits, but `synchronize` and
 *     `copyOut`. Whoever has launched kernels that wait calls none of these before they have ended.
 */
import type { TensorMapShape } from './tensormap.ts'

/** A call of the driver that failed. */
export class DeviceError extends Error {}

export interface Device {
  readonly name: string
  /** Multiprocessors: each runs some programs at once. */
  readonly sms: number
  /** Threads that execute together. */
  readonly warp: number
  /** Of a multiprocessor. */
  readonly registers: number
  /** That a program may have. */
  readonly sharedBytesPerBlock: number
  readonly l2Bytes: number

  allocate(bytes: number): bigint
  free(address: bigint): void
  /** Memory of the host that kernels can read and write. */
  allocateHost(bytes: number): HostMemory
  /** `urgent`: it shares no hardware queue with others, for what must get through while kernels wait. */
  createStream(urgent?: boolean): Stream
  /** A kernel of machine code, by name. It runs on every stream of the device, shares' too. */
  loadKernel(code: Uint8Array, name: string): Kernel
  /** What the copy engine must know of a tensor, where kernels of this vendor are passed that. */
  tensorMap(address: bigint, shape: TensorMapShape): Uint8Array

  /** So many parts of the device, with `sms` multiprocessors each, or an equal part; a RangeError if they do not fit. */
  share(ranks: number, sms?: number): Share[]
  /** Whether its kernels can access the memory of another device. */
  canReach(other: Device): boolean
  /** A heap of so many bytes on each device, one behind the other in one range of addresses that all of them can access. */
  mapHeaps(devices: readonly Device[], bytes: number): Heaps
}

export interface HostMemory {
  readonly address: bigint
  readonly view: ArrayBuffer
  free(): void
}

/** Rank r's heap is at `heap + r * stride`. */
export interface Heaps {
  readonly heap: bigint
  readonly stride: number
  close(): void
}

/** Multiprocessors of a device, and streams that use no others. */
export interface Share {
  readonly sms: number
  createStream(): Stream
  close(): void
}

export interface Stream {
  readonly device: Device
  /** Writes a word without a multiprocessor and without an engine that copies. */
  writeWord(to: bigint, word: number): void
  /** `from` has been read when this returns. */
  copyIn(to: bigint, from: ArrayBufferView): void
  /** Fills `to`, which lies in memory of `allocateHost`, when the stream has come so far. */
  startCopyOut(to: ArrayBufferView, from: bigint): void
  /** Returns when `to` is filled. */
  copyOut(to: ArrayBufferView, from: bigint): void
  copy(to: bigint, from: bigint, bytes: number): void
  fillBytes(to: bigint, value: number, bytes: number): void
  createEvent(): StreamEvent
  waitFor(event: StreamEvent): void
  /** What is enqueued from now on, here and on streams that wait for this one, becomes a graph and does not run. */
  beginCapture(): void
  endCapture(): Graph
  /** Gives up what was captured, after a failure. */
  dropCapture(): void
  /** Whether everything enqueued so far is done. */
  isIdle(): boolean
  synchronize(): void
  close(): void
}

/** A point in one stream, with the time it was reached. */
export interface StreamEvent {
  readonly stream: Stream
  record(): void
  isReached(): boolean
  millisecondsSince(earlier: StreamEvent): number
  close(): void
}

/** Launches that were captured, to be enqueued by one call as often as one likes. */
export interface Graph {
  launch(): void
  close(): void
}

export interface LaunchShape {
  /** Programs (thread blocks). */
  readonly grid: number
  /** Threads of one program. */
  readonly block: number
  /** Dynamic shared memory of one program. */
  readonly sharedBytes?: number
  /** The driver refuses the launch unless all programs can run at once. */
  readonly cooperative?: boolean
}

export interface Kernel {
  /** Programs that can run at the same time on one multiprocessor. */
  programsPerSm(shape: Pick<LaunchShape, 'block' | 'sharedBytes'>): number
  /** Fixes shape and arguments, so that launching again costs one call. */
  prepare(shape: LaunchShape, args: readonly KernelArgument[]): Launch
}

export interface Launch {
  /** Replaces one argument for later launches; those already enqueued keep theirs. */
  setArgument(position: number, arg: KernelArgument): void
  /**
   * Enqueues the kernel. `early`: its programs may start while the kernel before it on the stream ends, and wait for its end
   * themselves. They then start one by one, as those of the kernel before make room: not as a whole, as a cooperative launch does.
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
