/**
 * Pins a process to one core, so that a single-threaded measurement uses a single core. Other cores of a virtual
 * machine may be slower, because they were idle or are shared with other work. Without pinning, a library that computes
 * in a separate thread would be measured on a different core.
 */
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/**
 * Pins this thread, and all threads that are started after this call, to one core. If pinning is impossible, the
 * function returns the reason.
 */
export function stayOnOneCore(): { readonly core: number } | { readonly absent: string } {
  if (process.platform !== 'linux')
    return { absent: `pinning to a core is not implemented for ${process.platform}` }
  const koffi = require('koffi') as typeof import('koffi')
  const system = koffi.load('libc.so.6')
  const core = system.func('int sched_getcpu()')() as number
  const mask = new Uint8Array(128)
  mask[core >> 3] = 1 << (core & 7)
  const set = system.func('int sched_setaffinity(int, size_t, void *)')
  return set(0, mask.length, mask) === 0 ? { core } : { absent: 'sched_setaffinity failed' }
}
