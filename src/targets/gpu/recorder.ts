/**
 * Manages the device side of a recording world: one event log per queue, in the memory of the queue's device, and the
 * clocks of the devices. The file recording.ts builds a timeline from the logs and the clocks.
 */
import { DeviceClock, hostNow } from './clock.ts'
import { logBytes, type LogMemory } from './log.ts'
import type { Platform } from './platform.ts'
import type { Queue, Step } from './queue.ts'
import { Recording } from './recording.ts'
import type { Device, Stream } from './device.ts'

/** The memory of a device, which the host accesses through a separate stream. */
class DeviceMemory implements LogMemory {
  readonly #device: Device
  readonly #stream: Stream
  readonly #allocated: bigint[] = []

  constructor(device: Device) {
    this.#device = device
    this.#stream = device.createStream()
  }

  allocate(bytes: number): bigint {
    const address = this.#device.allocate(bytes)
    this.#allocated.push(address)
    this.clear(address, bytes)
    return address
  }

  read(address: bigint, bytes: number): Uint8Array<ArrayBuffer> {
    const contents = new Uint8Array(bytes)
    if (bytes > 0) this.#stream.copyOut(contents, address)
    return contents
  }

  clear(address: bigint, bytes: number): void {
    if (bytes === 0) return
    this.#stream.fillBytes(address, 0, bytes)
    this.#stream.synchronize()
  }

  close(): void {
    this.#stream.close()
    for (const address of this.#allocated) this.#device.free(address)
  }
}

export class Recorder {
  readonly recording: Recording
  readonly #devices: readonly Device[]
  readonly #clocks: readonly DeviceClock[]
  readonly #memories: readonly DeviceMemory[]

  /** The parameter `devices` lists each device once, starting with the device of the first rank. */
  constructor(devices: readonly Device[], platform: Platform) {
    this.#devices = devices
    this.#clocks = devices.map((device) => new DeviceClock(device, platform))
    this.#memories = devices.map((device) => new DeviceMemory(device))
    this.recording = new Recording(devices.length, (device) => this.#clocks[device].moment())
  }

  /** Allocates the log of a new queue. */
  attach({ rank, number: stream }: Queue, onDevice: Device): void {
    const device = this.#devices.indexOf(onDevice)
    const memory = this.#memories[device]
    this.recording.attach({ rank, stream, address: memory.allocate(logBytes), memory, device })
  }

  /** The address of the log into which kernels on this queue write. */
  address({ rank, number }: Queue): bigint {
    return this.recording.address(rank, number)
  }

  /** Records that the host has just enqueued a launch, by a call that began at the host time `from`. */
  enqueued({ part, given }: Step, from: number): void {
    const { queue, kernel, executable, flags, members } = part
    const recorded = { name: kernel.name, sites: executable.emitted.recordedSites ?? [], flags, members }
    this.recording.launched({ rank: queue.rank, stream: queue.number }, recorded, given, from, hostNow())
  }

  close(): void {
    for (const clock of this.#clocks) clock.close()
    for (const memory of this.#memories) memory.close()
  }
}
