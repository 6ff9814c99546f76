/**
 * Keeps a process on one core of the machine. What is measured on one thread is then measured on one core too: the other ones of
 * a virtual machine may be slower, because they were idle or because somebody else's work shares them, and whoever
 * computes in a thread of its own would be compared with the others at their expense.
 */
import { createRequire } from 'node:module'

const require = createRequire(import.meta.url)

/** This thread and all that are started from now on. Says why where that cannot be. */
export function stayOnOneCore(): { readonly core: number } | { readonly absent: string } {
  if (process.platform !== 'linux')
    return { absent: `no way to do that on ${process.platform} is known here` }
  const koffi = require('koffi') as typeof import('koffi')
  const system = koffi.load('libc.so.6')
  const core = system.func('int sched_getcpu()')() as number
  const mask = new Uint8Array(128)
  mask[core >> 3] = 1 << (core & 7)
  const set = system.func('int sched_setaffinity(int, size_t, void *)')
  return set(0, mask.length, mask) === 0 ? { core } : { absent: 'the system refuses' }
}
