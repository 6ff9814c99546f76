/**
 * A world of ranks on NVIDIA GPUs: what it has beside what every world has (src/world/heapWorld.ts). With as many devices as ranks each
 * has one; with fewer, ranks share the first device, each with multiprocessors of its own.
 */
import { HeapWorld } from '../../world/heapWorld.ts'
import type { SymmetricTensor } from '../../world/world.ts'
import { CudaBackend } from './backend.ts'
import type { LaunchGraph } from './graphs.ts'
import type { CudaPlatform, CudaWorldOptions } from './machine.ts'
import type { Part } from './queue.ts'
import type { StreamEvent } from './device.ts'
import type { Stream } from './stream.ts'

export class CudaWorld extends HeapWorld<Part, StreamEvent, CudaBackend> {
  constructor(platform: CudaPlatform, options: CudaWorldOptions) {
    super(new CudaBackend(platform, options), options)
  }

  /** Multiprocessors of a rank. */
  multiprocessors(rank: number): number {
    this.expectRank(rank)
    return this.backend.place(rank).sms
  }

  /** The name of a rank's device. */
  device(rank: number): string {
    this.expectRank(rank)
    return this.backend.place(rank).device.name
  }

  /** Whether all ranks are parts of one. */
  get oneDevice(): boolean {
    return this.backend.facts.oneDevice
  }

  /** The launches that `body` makes, on all ranks and streams, as one graph: they run when it is launched. */
  graph(body: () => void): LaunchGraph {
    this.expectSymmetric()
    return this.backend.graphs.capture(body)
  }

  // For libraries that launch kernels of their own

  /** Where a rank's copy of a tensor lies. */
  addressOf(tensor: SymmetricTensor, rank: number): bigint {
    this.expectLocal(rank)
    this.expectHandle(tensor)
    return this.backend.memory.address(rank, this.stored(tensor).offset)
  }

  /** The driver's stream of a rank: what is enqueued on it comes after the launches so far, and before those that follow. */
  driverStream(rank: number, stream = 0): Stream {
    this.expectLocal(rank)
    const { backend } = this
    const { graphs, settled } = backend
    backend.expectRunning()
    const queue = backend.queue(rank, stream)
    settled.forgo()
    // A stream that is captured takes no events from outside: the graph is held back as a whole.
    if (!graphs.isCapturing) {
      graphs.catchUp()
      settled.holdBackAll(queue)
    }
    return queue.stream as Stream
  }
}
