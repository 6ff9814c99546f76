/**
 * Launching emitted kernels: ranks with a symmetric heap each, tensors and flags on it, and kernel parameters made from
 * an emitted kernel's recipe. Contract: an allocation lies at the same offset of every rank's heap; nothing is freed before
 * `close`; `prepare` refuses a grid that cannot run at once, and memory given twice where the kernel writes it. Launches
 * are asynchronous on their rank's stream, one after the other.
 */
import { dtypes, type StorageDType } from '../../ir/dtype.ts'
import {
  expectKind,
  kernelArgument,
  type HeapFlags,
  type HeapTensor,
  type LaunchArgument,
} from './arguments.ts'
import type { EmittedKernel } from './emit/recipe.ts'
import { compileCuda } from './nvrtc.ts'
import { createVirtualRanks } from './ranks.ts'
import type { Device, HostMemory, Kernel, Launch, Stream } from './runtime.ts'

export type { HeapFlags, HeapTensor, LaunchArgument } from './arguments.ts'

interface HeapRank {
  readonly stream: Stream
  readonly heap: bigint
}

/** A kernel on a device. */
export interface LoadedKernel {
  readonly emitted: EmittedKernel
  readonly kernel: Kernel
  /** Where its counters lie on every rank's heap; a rank's launches run one after the other and leave them at zero. */
  readonly countersOffset: number
}

/** What a program waited for when it was stopped. */
export interface WaitRecord {
  readonly rank: number
  readonly program: number
  /** The author's line. */
  readonly site: string
  /** The rank whose flag it was. */
  readonly owner: number
  readonly value: number
  readonly wanted: number
}

const ALIGNMENT = 256
const WAIT_RECORD_WORDS = 4
const MOST_PROGRAMS = 4096
/** A rank's abort word, how many records follow, two unused words, and a record for each of its programs. */
const CONTROL_WORDS = 4 + WAIT_RECORD_WORDS * MOST_PROGRAMS

export class LaunchWorld {
  readonly device: Device
  readonly ranks: readonly HeapRank[]
  readonly heapStride: number
  readonly heapBytes: number
  readonly #control: HostMemory
  readonly #close: () => void
  #used = 0

  /** One rank has the whole device; several share it out. */
  constructor(device: Device, options: { readonly ranks: number; readonly heapBytes: number }) {
    this.device = device
    this.heapBytes = options.heapBytes
    this.#control = device.allocateHost(4 * CONTROL_WORDS * options.ranks)
    const words = new Uint32Array(this.#control.view)
    for (let rank = 0; rank < options.ranks; rank++) words[rank * CONTROL_WORDS + 1] = MOST_PROGRAMS
    if (options.ranks === 1) {
      const heap = device.allocate(options.heapBytes)
      const stream = device.createStream()
      this.ranks = [{ stream, heap }]
      this.heapStride = options.heapBytes
      this.#close = () => {
        stream.close()
        device.free(heap)
      }
    } else {
      const shared = createVirtualRanks(device, { world: options.ranks, heapBytes: options.heapBytes })
      this.ranks = shared.ranks.map(({ stream }, rank) => ({ stream, heap: shared.heapOf(rank) }))
      this.heapStride = shared.heapStride
      this.#close = () => shared.close()
    }
  }

  #allocate(size: number): number {
    const offset = this.#used
    this.#used = Math.ceil((offset + size) / ALIGNMENT) * ALIGNMENT
    if (this.#used > this.heapBytes)
      throw new RangeError(
        `the heap of ${this.heapBytes} bytes has no room for ${size} more: ask for a larger one`,
      )
    return offset
  }

  tensor(dtype: StorageDType, shape: readonly number[]): HeapTensor {
    const elements = shape.reduce((product, extent) => product * extent, 1)
    return { kind: 'tensor', dtype, shape, offset: this.#allocate(elements * dtypes[dtype].bytes) }
  }

  flags(shape: readonly number[] = []): HeapFlags {
    const count = shape.reduce((product, extent) => product * extent, 1)
    return { kind: 'flags', shape, offset: this.#zeroed(4 * count), epochsOffset: this.#zeroed(8) }
  }

  #zeroed(size: number): number {
    const offset = this.#allocate(size)
    for (const { stream, heap } of this.ranks) {
      stream.fillBytes(heap + BigInt(offset), 0, size)
      stream.synchronize()
    }
    return offset
  }

  addressOf(tensor: HeapTensor, rank: number): bigint {
    return this.ranks[rank].heap + BigInt(tensor.offset)
  }

  write(tensor: HeapTensor, rank: number, contents: ArrayBufferView): void {
    const { stream } = this.ranks[rank]
    stream.copyIn(this.addressOf(tensor, rank), contents)
    stream.synchronize()
  }

  read(tensor: HeapTensor, rank: number, into: ArrayBufferView): void {
    this.ranks[rank].stream.copyOut(into, this.addressOf(tensor, rank))
  }

  /** Sets every byte, so that what a kernel does not write shows. */
  poison(tensor: HeapTensor, rank: number): void {
    const elements = tensor.shape.reduce((product, extent) => product * extent, 1)
    const { stream } = this.ranks[rank]
    stream.fillBytes(this.addressOf(tensor, rank), 0xff, elements * dtypes[tensor.dtype].bytes)
    stream.synchronize()
  }

  load(emitted: EmittedKernel): LoadedKernel {
    const cubin = compileCuda(emitted.source, {
      name: `${emitted.name}.cu`,
      architecture: emitted.architecture,
      lineInfo: true,
    })
    const words = emitted.params.reduce(
      (sum, param) => sum + (param.kind === 'counters' ? param.words : 0),
      0,
    )
    const kernel = this.device.loadModule(cubin.bytes).kernel(emitted.name)
    return { emitted, kernel, countersOffset: words > 0 ? this.#zeroed(4 * words) : 0 }
  }

  /** Programs of a kernel that run at once on a rank; no more than can record what they wait for. */
  residency(loaded: LoadedKernel, rank: number): number {
    const { block, sharedBytes } = loaded.emitted
    const programs = loaded.kernel.programsPerSm({ block, sharedBytes }) * this.ranks[rank].stream.sms
    return Math.min(programs, MOST_PROGRAMS)
  }

  /** A launch on one rank; by default with as many programs as run at once. */
  prepare(
    loaded: LoadedKernel,
    args: Readonly<Record<string, LaunchArgument>>,
    rank: number,
    grid = this.residency(loaded, rank),
  ): Launch {
    const { emitted, kernel } = loaded
    const most = this.residency(loaded, rank)
    if (grid > most)
      throw new RangeError(`${emitted.name}: ${grid} programs on rank ${rank}, where ${most} can run at once`)
    expectDistinct(emitted, args)
    const { block, sharedBytes } = emitted
    const { heap } = this.ranks[rank]
    const memory = {
      device: this.device,
      rank,
      ranks: this.ranks.length,
      heap: this.ranks[0].heap,
      stride: this.heapStride,
      counters: heap + BigInt(loaded.countersOffset),
      control: this.#control.address + BigInt(4 * CONTROL_WORDS * rank),
    }
    const values = emitted.params.map((param) => kernelArgument(param, args, memory))
    return kernel.prepare({ grid, block, sharedBytes }, values)
  }

  synchronize(): void {
    for (const { stream } of this.ranks) stream.synchronize()
  }

  /** Tells every program that waits to stop waiting; what they compute is void. */
  abort(): void {
    const words = new Uint32Array(this.#control.view)
    for (let rank = 0; rank < this.ranks.length; rank++) words[rank * CONTROL_WORDS] = 1
  }

  /** What programs of a kernel waited for when they were stopped. */
  waitRecords(emitted: EmittedKernel): WaitRecord[] {
    const words = new Uint32Array(this.#control.view)
    return this.ranks.flatMap((_, rank) =>
      Array.from({ length: MOST_PROGRAMS }, (_, program): WaitRecord[] => {
        const at = rank * CONTROL_WORDS + 4 + program * WAIT_RECORD_WORDS
        const [site, owner, value, wanted] = words.subarray(at, at + WAIT_RECORD_WORDS)
        return site > 0 ? [{ rank, program, site: emitted.waitSites[site - 1], owner, value, wanted }] : []
      }).flat(),
    )
  }

  close(): void {
    this.#close()
    this.#control.free()
  }
}

/** A kernel takes its tensors to be different memory: none that it writes may overlap another. */
export function expectDistinct(emitted: EmittedKernel, args: Readonly<Record<string, LaunchArgument>>): void {
  const tensors = new Map<string, HeapTensor>()
  for (const param of emitted.params)
    if ('tensor' in param) tensors.set(param.tensor, expectKind(args[param.tensor], 'tensor', param.tensor))
  const end = ({ dtype, shape, offset }: HeapTensor): number =>
    offset + shape.reduce((product, extent) => product * extent, dtypes[dtype].bytes)
  for (const written of emitted.writes)
    for (const [name, other] of tensors) {
      const own = tensors.get(written)
      if (!own || name === written || own.offset >= end(other) || other.offset >= end(own)) continue
      throw new TypeError(
        `${emitted.name}: ${written} and ${name} are the same memory, and the kernel writes ${written}: give it a tensor of its own`,
      )
    }
}
