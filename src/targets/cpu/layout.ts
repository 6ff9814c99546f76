/** Computes where each region of a CPU world's memory begins. The file abi.ts defines the contents of the regions. */
import { bytesText } from '../../world/heap.ts'
import { WorldError } from '../../world/world.ts'
import { control, executable, mostExecutables, queue, slot } from './abi.ts'

/** The maximum numbers of workers and of queues in one world. */
export const mostSlots = 4096
export const mostQueues = 1024

const page = 65536
const mebibyte = 2 ** 20
/** The number of 64 KiB pages that 32-bit addresses can reach. */
const mostPages = 65535
const leastPrivate = 64 * mebibyte
const mostPrivate = 768 * mebibyte

const roundUp = (n: number, to: number): number => Math.ceil(n / to) * to

export interface Layout {
  readonly slots: number
  readonly queues: number
  readonly executables: number
  readonly private: number
  readonly privateBytes: number
  readonly heaps: number
  /** The size of one rank's heap in bytes, which is also the distance between consecutive heaps. */
  readonly heapBytes: number
  readonly pages: number
}

/**
 * `heap` is the requested heap size per rank, in bytes. By default, the heap takes the memory that is available, at
 * most 1 GiB per rank.
 */
export function layoutOf(ranks: number, heap?: number): Layout {
  const slots = control.bytes
  const queues = slots + mostSlots * slot.bytes
  const executables = queues + mostQueues * queue.bytes
  const start = roundUp(executables + mostExecutables * executable.bytes, page)
  const most = Math.floor((mostPages * page - start - leastPrivate) / ranks / page) * page
  const fallback = Math.min(1024 * mebibyte, Math.floor((3 * 1024 * mebibyte) / ranks / page) * page)
  const heapBytes = heap === undefined ? fallback : roundUp(heap, page)
  if (!(heapBytes > 0) || !Number.isFinite(heapBytes))
    throw new WorldError(`the heap option must be a positive number of bytes; got ${heap}`)
  if (heapBytes > most)
    throw new WorldError(
      `${ranks} heaps of ${bytesText(heapBytes)} do not fit 32-bit addresses: use at most ${bytesText(most)} per rank`,
    )
  const privateBytes = Math.min(mostPrivate, mostPages * page - start - ranks * heapBytes)
  const heaps = roundUp(start + privateBytes - page + 1, page)
  return {
    slots,
    queues,
    executables,
    private: start,
    privateBytes: heaps - start,
    heaps,
    heapBytes,
    pages: (heaps + ranks * heapBytes) / page,
  }
}
