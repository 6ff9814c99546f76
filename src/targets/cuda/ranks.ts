// Virtual ranks: splits one device so that each rank has its own multiprocessors and streams. Contract: the
// multiprocessors of the ranks are disjoint, so kernels of all ranks run concurrently and may wait for each other.

import type { Share } from '../gpu/device.ts'
import { readHandle } from './driver.ts'
import type { Device } from './runtime.ts'
import { Stream } from './stream.ts'

const RESOURCE = { bytes: 144, smCountAt: 96, typeSm: 1 }
const GREEN_CONTEXT_DEFAULT_STREAM = 1
const STREAM_NON_BLOCKING = 1

/**
 * Splits the device into shares for `ranks` ranks. Throws a RangeError that names the possible number of ranks if the
 * shares do not fit on the device.
 */
export function shareDevice(device: Device, ranks: number, perRank?: number): Share[] {
  const { driver, index } = device
  device.makeCurrent(device.context)
  const whole = new Uint8Array(RESOURCE.bytes)
  driver.cuDeviceGetDevResource(index, whole, RESOURCE.typeSm)
  const wanted = perRank ?? roundDown(Math.floor(device.processors / ranks), 8)
  const parts = new Uint8Array(RESOURCE.bytes * ranks)
  const rest = new Uint8Array(RESOURCE.bytes)
  const count = Uint32Array.of(ranks)
  driver.cuDevSmResourceSplitByCount(parts, count, whole, rest, 0, wanted)
  if (count[0] < ranks) {
    throw new RangeError(
      `${device.name} has ${device.processors} multiprocessors: ${ranks} ranks with ${wanted} multiprocessors each do not fit ` +
        `(at most ${count[0]} ranks do)`,
    )
  }
  return Array.from({ length: ranks }, (_, rank) => {
    const part = parts.slice(rank * RESOURCE.bytes, (rank + 1) * RESOURCE.bytes)
    const processors = new DataView(part.buffer).getUint32(RESOURCE.smCountAt, true)
    const descriptor = readHandle((out) => driver.cuDevResourceGenerateDesc(out, part, 1))
    const green = readHandle((out) =>
      driver.cuGreenCtxCreate(out, descriptor, index, GREEN_CONTEXT_DEFAULT_STREAM),
    )
    const context = readHandle((out) => driver.cuCtxFromGreenCtx(out, green))
    return {
      processors,
      createStream() {
        const handle = readHandle((out) => driver.cuGreenCtxStreamCreate(out, green, STREAM_NON_BLOCKING, 0))
        return new Stream(device, handle, context, processors)
      },
      close() {
        device.makeCurrent(device.context)
        driver.cuGreenCtxDestroy(green)
      },
    }
  })
}

function roundDown(value: number, multiple: number): number {
  return Math.max(multiple, value - (value % multiple))
}
