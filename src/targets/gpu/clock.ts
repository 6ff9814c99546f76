/**
 * Reads the clock of a device together with the clock of the host. Contract: the host reads the clocks of devices only
 * while no kernel runs. A device's clock counts nanoseconds. All ranks on a device share its clock, which advances in
 * steps of `tick` nanoseconds. The host clock is `performance.now`, converted to nanoseconds.
 */
import { countBefore } from '../../timeline/search.ts'
import { u32, u64, type Device, type HostMemory, type Launch, type Stream } from './device.ts'
import { kernelOn } from './kernels.ts'
import type { Platform } from './platform.ts'

export const hostNow = (): number => performance.now() * 1e6

/** The readings of the host clock and of a device clock at the same moment, in nanoseconds. */
export interface Moment {
  readonly host: number
  readonly device: bigint
}

/**
 * The time in milliseconds for which the host polls for the result of the clock kernel before it synchronises the
 * stream.
 */
const patience = 5
const changes = 64

export class DeviceClock {
  readonly #stream: Stream
  readonly #told: HostMemory
  readonly #words: BigUint64Array
  readonly #launch: Launch

  constructor(device: Device, platform: Platform) {
    this.#stream = device.createStream()
    this.#told = device.allocateHost(16)
    this.#words = new BigUint64Array(this.#told.view)
    const kernel = kernelOn(device, platform.clock, platform, () => {})
    this.#launch = kernel.prepare({ grid: 1, block: 1 }, [u64(this.#told.address), u32(0)])
  }

  /** The shortest step of the device clock, in nanoseconds. */
  tick(): number {
    this.#launch.setArgument(1, u32(changes))
    this.#ask()
    this.#launch.setArgument(1, u32(0))
    return Number(this.#words[1])
  }

  /**
   * Reads the device clock and the host clock three times and returns the reading that reached the host soonest. The
   * host sees a device time about 1 us after the device has stored it.
   */
  moment(): Moment {
    const moments = [this.#ask(), this.#ask(), this.#ask()]
    const delay = ({ host, device }: Moment): number => host - Number(device - moments[0].device)
    return moments.reduce((best, one) => (delay(one) < delay(best) ? one : best))
  }

  #ask(): Moment {
    this.#words.fill(0n)
    this.#launch.on(this.#stream)
    const start = performance.now()
    for (;;) {
      const host = performance.now()
      if (host - start > patience) this.#stream.synchronize()
      if (this.#words[0] !== 0n || host - start > patience)
        return { host: host * 1e6, device: this.#words[0] }
    }
  }

  close(): void {
    this.#launch.close()
    this.#stream.close()
    this.#told.free()
  }
}

/**
 * Converts a host time to the device's clock, in nanoseconds after `base`. Between two readings of both clocks, the
 * time is interpolated, because the clocks drift apart by microseconds per second. Before the first and after the last
 * reading, the offset between the clocks in the nearest reading is used.
 */
export function onDevice(moments: readonly Moment[], host: number, base: bigint): number {
  const device = (moment: Moment): number => Number(moment.device - base)
  const next = countBefore(moments.length, (i) => moments[i].host < host)
  const [left, right] = [moments[Math.max(next - 1, 0)], moments[Math.min(next, moments.length - 1)]]
  const passed = host - left.host
  if (left === right) return device(left) + passed
  return device(left) + (passed * (device(right) - device(left))) / (right.host - left.host)
}
