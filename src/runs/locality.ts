/**
 * Computes the inter-kernel data locality tax of a run of Arke's kernels: the bytes that one kernel of an execution
 * writes to its rank's memory and a later kernel reads back. The number of bytes is exact as far as the IR determines
 * it (src/ir/traffic.ts), and only recorded launches are used.
 *
 * Bytes are counted per rank and per tensor allocation, over the rank's kernels in order of their start:
 *
 * - written: bytes that a launch stores in the rank's copy, by its own programs and by programs of peers. A put by a
 *   launch in which the rank does not take part is not counted.
 * - read back: bytes that the rank's own programs read, at most as many as earlier kernels have written and no kernel
 *   has read back yet. Loads by a peer are transfers and are not counted. Reads of a kernel's own writes are not
 *   counted.
 *
 * A written byte therefore counts once, however often it is read and by however many kernels. If a byte is written
 * again and read again, it counts again. Only numbers of bytes are compared, not addresses. If a kernel writes only a
 * part of a tensor and a later kernel reads another part of it, that read counts as well. No count exceeds the size of
 * its tensor.
 */
import type { RankTimeline } from '../timeline/timeline.ts'

/**
 * The number of bytes that the kernels read back from memory. `kernels` are events of the rank, ordered by their start.
 */
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
