/**
 * The inter-kernel data locality tax of a run of our own kernels: bytes that one kernel of an execution writes to its rank's
 * memory and a later one reads back. Exact as far as the IR tells (src/ir/traffic.ts), and from nothing but recorded launches.
 *
 * Counted for each rank and each tensor allocation, over the rank's kernels in order of their start:
 *
 * - written: what the launch stores in the rank's copy, its own programs and those of peers that put something there. A put by
 *   a launch in which the rank takes no part is not counted.
 * - read back: what the rank's own programs read of it, at most what earlier kernels have written and nobody has read back
 *   yet. What a peer loads from here is a transfer, and not counted; nor is what a kernel reads of its own writing.
 *
 * So a byte that was written counts once, however often it is read and by however many kernels; one that is written again
 * and read again counts again. Reads and writes are amounts, not places: of a tensor that is larger than what is written, a
 * later kernel that reads another part of it counts as if it read that one. Nothing exceeds the tensor's size.
 */
import type { RankTimeline } from '../timeline/timeline.ts'

/** Of the kernels, which are events of the rank in order of their start. */
export function bytesReadBack({ events }: RankTimeline, kernels: readonly number[]): number {
  const pending = new Map<number, number>()
  let bytes = 0
  for (const kernel of kernels)
    for (const { tensor, size, written, read } of events.traffic.get(kernel) ?? []) {
      const before = pending.get(tensor) ?? 0
      const back = Math.min(before, read)
      bytes += back
      pending.set(tensor, Math.min(size, before - back + written))
    }
  return bytes
}
