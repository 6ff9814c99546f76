/** Where the parts of a CPU world's memory begin (abi.ts says what lies in them), and the memory itself. */
import { bytesText } from '../../world/heap.ts'
import { WorldError } from '../../world/world.ts'
import { control, executable, mostExecutables, queue, slot } from './abi.ts'

/** Workers and queues that a world can have. */
export const mostSlots = 4096
export const mostQueues = 1024

const page = 65536
const mebibyte = 2 ** 20
/** What 32-bit addresses reach. */
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
  /** Of a rank's heap; also from one rank's to the next. */
  readonly heapBytes: number
  readonly pages: number
}

/** `heap` is what was asked for; by default as much as leaves room for the rest, a gibibyte at most. */
export function layoutOf(ranks: number, heap?: number): Layout {
  const slots = control.bytes
  const queues = slots + mostSlots * slot.bytes
  const executables = queues + mostQueues * queue.bytes
  const start = roundUp(executables + mostExecutables * executable.bytes, page)
  const most = Math.floor((mostPages * page - start - leastPrivate) / ranks / page) * page
  const fallback = Math.min(1024 * mebibyte, Math.floor((3 * 1024 * mebibyte) / ranks / page) * page)
  const heapBytes = heap === undefined ? fallback : roundUp(heap, page)
  if (!(heapBytes > 0) || !Number.isFinite(heapBytes)) throw new WorldError(`a heap of ${heap} bytes`)
  if (heapBytes > most)
    throw new WorldError(
      `${ranks} heaps of ${bytesText(heapBytes)} do not fit 32-bit addresses: at most ${bytesText(most)} a rank`,
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
