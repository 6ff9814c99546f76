/**
 * Defines the world of ranks on GPUs, with the members that such a world has in addition to the members of every world
 * (src/world/heapWorld.ts). If there are as many devices as ranks, each rank has its own device. If there are fewer
 * devices than ranks, the ranks share the first device, each with its own multiprocessors.
 */
import { HeapWorld } from '../../world/heapWorld.ts'
import type { SymmetricTensor } from '../../world/world.ts'
import { GpuBackend } from './backend.ts'
import type { LaunchGraph } from './graphs.ts'
import type { GpuWorldOptions } from './machine.ts'
import type { Platform } from './platform.ts'
import type { Part } from './queue.ts'
import type { Stream, StreamEvent } from './device.ts'

export class GpuWorld extends HeapWorld<Part, StreamEvent, GpuBackend> {
  constructor(platform: Platform, options: GpuWorldOptions) {
    super(new GpuBackend(platform, options), options)
  }

  /**
   * Captures the launches that `body` makes, on all ranks and streams, as one graph. The captured launches run when the
   * graph is launched.
   */
  graph(body: () => void): LaunchGraph {
    this.expectSymmetric()
    return this.backend.graphs.capture(body)
  }

  // Members for libraries that launch other kernels than Arke's

  /** The device address of a rank's copy of a tensor. */
  addressOf(tensor: SymmetricTensor, rank: number): bigint {
    this.expectLocal(rank)
    this.expectHandle(tensor)
    return this.backend.memory.address(rank, this.stored(tensor).offset)
  }

  /**
   * Returns the driver's stream of a rank. Work that other software enqueues on a rank's stream runs after the launches
   * so far and before later launches.
   */
  driverStream(rank: number, stream = 0): Stream {
    this.expectLocal(rank)
    const { backend } = this
    const { graphs, settled } = backend
    backend.expectRunning()
    const queue = backend.queue(rank, stream)
    settled.forgo()
    // A stream under capture cannot wait for events from outside the capture, so the whole graph is delayed.
    if (!graphs.isCapturing) {
      graphs.catchUp()
      settled.holdBackAll(queue)
    }
    return queue.stream
  }
}
