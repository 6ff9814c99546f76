/**
 * The inter-kernel data locality tax of a run of Arke's kernels: bytes that one kernel of an execution writes to its
 * rank's memory and a later kernel reads back. The number is exact as far as the IR determines it (src/ir/traffic.ts),
 * and uses only recorded launches.
 *
 * Bytes are counted per rank and per tensor allocation, over the rank's kernels in order of their start:
 *
 * - written: bytes that a launch stores in the rank's copy, by its own programs and by programs of peers. A put by a
 *   launch in which the rank does not take part is not counted.
 * - read back: bytes that the rank's own programs read, at most as many as earlier kernels have written and no kernel
 *   has read back yet. Loads by a peer are transfers and are not counted. Reads of a kernel's own writes are not
 *   counted.
 *
 * A written byte therefore counts once, however often it is read and by however many kernels. A byte that is written
 * again and read again counts again. Only amounts are compared, not addresses: if a tensor is only partly written and a
 * later kernel reads another part of it, that read counts as well. No count exceeds the size of the tensor.
 */
import type { RankTimeline } from '../timeline/timeline.ts'

/** The bytes that the kernels read back. `kernels` are events of the rank, ordered by start. */
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
