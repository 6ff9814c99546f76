// Streams of a device, their events, and the graphs that are captured from them. Each method of a stream, an event or a
// graph makes one driver call.

import type * as gpu from '../gpu/device.ts'
import { isReady, readHandle, type Driver } from './driver.ts'
import type { Device } from './runtime.ts'

/** CU_STREAM_CAPTURE_MODE_RELAXED: other driver calls, such as loading a module, are allowed during the capture. */
const CAPTURE_RELAXED = 2

/** A stream on the device, or on a virtual rank's share of the device. */
export class Stream implements gpu.Stream {
  constructor(
    readonly device: Device,
    readonly handle: bigint,
    readonly context: bigint,
    /** The number of multiprocessors on which kernels of the stream can run. */
    readonly processors: number,
  ) {}

  private get driver(): Driver {
    this.device.makeCurrent(this.context)
    return this.device.driver
  }

  /**
   * Writes a 32-bit word with the engine that processes the stream's commands. The write needs neither a multiprocessor
   * nor a DMA copy engine.
   */
  writeWord(to: bigint, word: number): void {
    this.driver.cuStreamWriteValue32_v2(this.handle, to, word, 0)
  }

  /** Copies pageable host memory to the device. The host memory `from` has been read when the call returns. */
  copyIn(to: bigint, from: ArrayBufferView): void {
    this.driver.cuMemcpyHtoDAsync_v2(to, from, from.byteLength, this.handle)
  }

  /**
   * Copies to the host. Pinned host memory is filled when the stream reaches the copy, and pageable host memory when
   * the call returns.
   */
  startCopyOut(to: ArrayBufferView, from: bigint): void {
    this.driver.cuMemcpyDtoHAsync_v2(to, from, to.byteLength, this.handle)
  }

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

  dropCapture(): void {
    const graph = readHandle((out) => this.driver.cuStreamEndCapture(this.handle, out))
    if (graph !== 0n) this.driver.cuGraphDestroy(graph)
  }

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

export class StreamEvent implements gpu.StreamEvent {
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

export class Graph implements gpu.Graph {
  constructor(
    /** The stream on which the graph was captured. */
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
