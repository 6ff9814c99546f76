/** Defines the kernel with which gpu/clock.ts reads the clock of a device (%globaltimer, in nanoseconds). */
import type { EmittedKernel } from './emit/recipe.ts'

const source = `typedef unsigned int u32;
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
`

/**
 * A kernel that stores the device time. Before the kernel stores the time, it measures the shortest step of the clock
 * over `changes` changes of the clock.
 */
export const readClock: EmittedKernel = {
  name: 'read_clock',
  source,
  code: source,
  architecture: 'sm_90a',
  block: 1,
  sharedBytes: 0,
  params: [],
  writes: [],
  signals: [],
  waits: [],
  waitSites: [],
  notes: [],
}
