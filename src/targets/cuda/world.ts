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
import type { Machine } from '../../world/machine.ts'
import { describeMachine } from './describe.ts'

export class CudaWorld extends HeapWorld<Part, StreamEvent, CudaBackend> {
  override readonly machine: Machine

  constructor(platform: CudaPlatform, options: CudaWorldOptions) {
    super(new CudaBackend(platform, options), options)
    this.machine = describeMachine(this.target, this.backend.placement.ranks)
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
