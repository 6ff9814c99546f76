// Virtual ranks: one device shared out so that each rank has multiprocessors and streams of its own.
// Contract: ranks' multiprocessors are disjoint, so kernels of all ranks run at the same time and may wait for each other.

import type { Share } from './device.ts'
import { readHandle } from './driver.ts'
import type { Device } from './runtime.ts'
import { Stream } from './stream.ts'

const RESOURCE = { bytes: 144, smCountAt: 96, typeSm: 1 }
const GREEN_CONTEXT_DEFAULT_STREAM = 1
const STREAM_NON_BLOCKING = 1

/** Shares the device out to so many ranks, or says how many there could be. */
export function shareDevice(device: Device, ranks: number, smsPerRank?: number): Share[] {
  const { driver, index } = device
  device.makeCurrent(device.context)
  const whole = new Uint8Array(RESOURCE.bytes)
  driver.cuDeviceGetDevResource(index, whole, RESOURCE.typeSm)
  const wanted = smsPerRank ?? roundDown(Math.floor(device.sms / ranks), 8)
  const parts = new Uint8Array(RESOURCE.bytes * ranks)
  const rest = new Uint8Array(RESOURCE.bytes)
  const count = Uint32Array.of(ranks)
  driver.cuDevSmResourceSplitByCount(parts, count, whole, rest, 0, wanted)
  if (count[0] < ranks) {
    throw new RangeError(
      `${device.name} has ${device.sms} multiprocessors: ${wanted} for each of ${ranks} ranks do not fit ` +
        `(${count[0]} ranks do)`,
    )
  }
  return Array.from({ length: ranks }, (_, rank) => {
    const part = parts.slice(rank * RESOURCE.bytes, (rank + 1) * RESOURCE.bytes)
    const sms = new DataView(part.buffer).getUint32(RESOURCE.smCountAt, true)
    const descriptor = readHandle((out) => driver.cuDevResourceGenerateDesc(out, part, 1))
    const green = readHandle((out) =>
      driver.cuGreenCtxCreate(out, descriptor, index, GREEN_CONTEXT_DEFAULT_STREAM),
    )
    const context = readHandle((out) => driver.cuCtxFromGreenCtx(out, green))
    return {
      sms,
      createStream() {
        const handle = readHandle((out) => driver.cuGreenCtxStreamCreate(out, green, STREAM_NON_BLOCKING, 0))
        return new Stream(device, handle, context, sms)
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
