/**
 * Computes the inter-kernel data locality tax of a run of Arke's kernels: the bytes that one kernel of an execution
 * writes to its rank's memory and a later kernel reads back. The number of bytes is exact as far as the IR determines
 * it (src/ir/traffic.ts), and only recorded launches are used.
 *
 * Bytes are counted per rank and per tensor allocation, over the rank's kernels in order of their start:
 *
 * - Written bytes: bytes that a launch stores in the rank's copy of the tensor, by programs of any rank. A put by
 *   another rank into the rank's copy counts only if the rank takes part in the launch.
 * - Bytes read back: bytes that the rank's own programs read, at most as many as earlier kernels have written and no
 *   kernel has read back yet. Loads by another rank are transfers and do not count as bytes read back. A kernel's reads
 *   of its own writes do not count as bytes read back.
 *
 * A written byte therefore counts once, however often it is read and by however many kernels. If a byte is written
 * again and read again, the second read counts as well. The analysis compares only numbers of bytes, not addresses. If
 * a kernel writes only some elements of a tensor and a later kernel reads other elements, the read counts nevertheless.
 * For each tensor, the number of bytes read back is at most the size of the tensor.
 */
import type { RankTimeline } from '../timeline/timeline.ts'

/**
 * The number of bytes of an execution that kernels write and later kernels read back from memory. The argument
 * `kernels` holds the events of the rank's kernels, ordered by their start.
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
