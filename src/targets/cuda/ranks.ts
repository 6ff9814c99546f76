// Virtual ranks: one device shared out so that each rank has multiprocessors, a stream and a heap of its own.
// Contract: ranks' multiprocessors are disjoint, so kernels of all ranks run at the same time and may wait for each other.
// All heaps lie in one allocation, rank r's at `heap + r * heapStride`.

import { readHandle, Stream } from './runtime.ts'
import type { Device } from './runtime.ts'

export interface VirtualRank {
  readonly rank: number
  readonly sms: number
  readonly stream: Stream
  readonly context: bigint
}

export interface VirtualRanks {
  readonly ranks: readonly VirtualRank[]
  /** Rank 0's heap; the address space of all heaps is one range. */
  readonly heap: bigint
  readonly heapStride: number
  heapOf(rank: number): bigint
  close(): void
}

const RESOURCE = { bytes: 144, smCountAt: 96, typeSm: 1 }
const GREEN_CONTEXT_DEFAULT_STREAM = 1
const STREAM_NON_BLOCKING = 1
const HEAP_ALIGNMENT = 2 * 1024 * 1024

export interface VirtualRanksOptions {
  world: number
  heapBytes: number
  /** Multiprocessors a rank; by default an equal share. The driver rounds it up to what it can separate. */
  smsPerRank?: number
}

/** Shares the device out to `world` ranks, or says how many multiprocessors a rank could have. */
export function createVirtualRanks(device: Device, options: VirtualRanksOptions): VirtualRanks {
  const { driver, index } = device
  const { world } = options
  device.makeCurrent(device.context)
  const whole = new Uint8Array(RESOURCE.bytes)
  driver.cuDeviceGetDevResource(index, whole, RESOURCE.typeSm)
  const wanted = options.smsPerRank ?? roundDown(Math.floor(device.sms / world), 8)
  const parts = new Uint8Array(RESOURCE.bytes * world)
  const rest = new Uint8Array(RESOURCE.bytes)
  const count = Uint32Array.of(world)
  driver.cuDevSmResourceSplitByCount(parts, count, whole, rest, 0, wanted)
  if (count[0] < world) {
    throw new RangeError(
      `${device.name} has ${device.sms} multiprocessors: ${wanted} for each of ${world} ranks do not fit ` +
        `(${count[0]} ranks do)`,
    )
  }

  const closers: (() => void)[] = []
  const ranks: VirtualRank[] = []
  for (let rank = 0; rank < world; rank++) {
    const part = parts.slice(rank * RESOURCE.bytes, (rank + 1) * RESOURCE.bytes)
    const sms = new DataView(part.buffer).getUint32(RESOURCE.smCountAt, true)
    const descriptor = readHandle((out) => driver.cuDevResourceGenerateDesc(out, part, 1))
    const green = readHandle((out) =>
      driver.cuGreenCtxCreate(out, descriptor, index, GREEN_CONTEXT_DEFAULT_STREAM),
    )
    const context = readHandle((out) => driver.cuCtxFromGreenCtx(out, green))
    const handle = readHandle((out) => driver.cuGreenCtxStreamCreate(out, green, STREAM_NON_BLOCKING, 0))
    const stream = new Stream(device, handle, context, sms)
    closers.push(() => {
      stream.close()
      device.makeCurrent(device.context)
      driver.cuGreenCtxDestroy(green)
    })
    ranks.push({ rank, sms, stream, context })
  }

  const heapStride = Math.ceil(options.heapBytes / HEAP_ALIGNMENT) * HEAP_ALIGNMENT
  const heap = device.allocate(heapStride * world)
  return {
    ranks,
    heap,
    heapStride,
    heapOf: (rank) => heap + BigInt(rank) * BigInt(heapStride),
    close() {
      while (closers.length > 0) closers.pop()!()
      device.free(heap)
    },
  }
}

function roundDown(value: number, multiple: number): number {
  return Math.max(multiple, value - (value % multiple))
}
