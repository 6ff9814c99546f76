/**
 * Reads the clock of a device together with the clock of the host. Contract: the clocks are read only while no kernel
 * runs. The device clock is %globaltimer, in nanoseconds. All ranks on a device share it, and it advances in steps of
 * `tick` nanoseconds. The host clock is `performance.now`, converted to nanoseconds.
 */
import { countBefore } from '../../timeline/search.ts'
import { kernelOn, type Compile } from './executables.ts'
import type { EmittedKernel } from './emit/recipe.ts'
import { u32, u64, type Device, type HostMemory, type Launch, type Stream } from './device.ts'

export const hostNow = (): number => performance.now() * 1e6

/**
 * A kernel that stores the device time. Before that, it measures the shortest step of the clock over `changes` clock
 * changes.
 */
export const readClock: EmittedKernel = {
  name: 'read_clock',
  source: `typedef unsigned int u32;
typedef unsigned long long u64;
__device__ __forceinline__ u64 time_now() { u64 now; asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now) :: "memory"); return now; }

extern "C" __global__ void read_clock(volatile u64* told, u32 changes) {
  u64 before = time_now(), least = ~0ull;
  for (u32 i = 0; i < changes; ++i) {
    u64 now = before;
    while (now == before) now = time_now();
    if (now - before < least) least = now - before;
    before = now;
  }
  told[1] = least;
  told[0] = time_now();
}
`,
  architecture: 'sm_90a',
  block: 1,
  sharedBytes: 0,
  params: [],
  writes: [],
  signals: [],
  waits: [],
  waitSites: [],
  assertions: [],
  notes: [],
}

/** The readings of both clocks at the same moment, in nanoseconds. */
export interface Moment {
  readonly host: number
  readonly device: bigint
}

/** How long the host polls for the kernel's result before it synchronises the stream, in milliseconds. */
const patience = 5
const changes = 64

export class DeviceClock {
  readonly #stream: Stream
  readonly #told: HostMemory
  readonly #words: BigUint64Array
  readonly #launch: Launch

  constructor(device: Device, compile: Compile) {
    this.#stream = device.createStream()
    this.#told = device.allocateHost(16)
    this.#words = new BigUint64Array(this.#told.view)
    const kernel = kernelOn(device, { emitted: readClock }, compile, () => {})
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
   * Reads both clocks three times and returns the reading that reached the host soonest. The host sees a device time
   * about 1 us after the device has stored it.
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
 * Converts a host time to the device's clock, in nanoseconds after `base`. Between two moments the time is
 * interpolated, since the clocks drift by microseconds per second. Outside of them the nearest moment's offset applies.
 */
export function onDevice(moments: readonly Moment[], host: number, base: bigint): number {
  const device = (moment: Moment): number => Number(moment.device - base)
  const next = countBefore(moments.length, (i) => moments[i].host < host)
  const [left, right] = [moments[Math.max(next - 1, 0)], moments[Math.min(next, moments.length - 1)]]
  const passed = host - left.host
  if (left === right) return device(left) + passed
  return device(left) + (passed * (device(right) - device(left))) / (right.host - left.host)
}
