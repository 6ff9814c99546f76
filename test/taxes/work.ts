/** Timelines for tests of memory traffic: device work with its operator and the operator's shapes. */
import { partNames, type Part, type Partition, type ProcessorTime } from '../../src/taxes/ledger.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import type { Intervals } from '../../src/timeline/intervals.ts'
import { type Communication, Kind, type Timeline, unknownCommunication } from '../../src/timeline/timeline.ts'

export interface Work {
  readonly from: number
  readonly to: number
  readonly kind?: Kind
  readonly stream?: number
  /** The kernel's name. */
  readonly name?: string
  /** The operator. Device work with the same `call` belongs to one operator call. */
  readonly operator?: string
  readonly call?: number
  readonly shapes?: readonly (readonly number[])[]
  /** The type of all operands; bf16 by default. */
  readonly type?: string
  readonly communication?: Partial<Communication>
  /** The name of the host call that launched the work. */
  readonly launch?: string
}

/**
 * Builds a timeline with one rank per list. The events of a rank are numbered by stream and time, not by their position
 * in the list.
 */
export function timelineOf(
  ranks: readonly (readonly Work[])[],
  device: string | null = 'NVIDIA H100 80GB HBM3',
): Timeline {
  const builder = new TimelineBuilder()
  ranks.forEach((works, number) => {
    const rank = builder.rank(number)
    rank.device = device
    const calls = new Map<number, number>()
    for (const work of works) {
      const {
        from,
        to,
        kind = Kind.kernel,
        stream = 7,
        name = 'kernel',
        operator,
        type = 'c10::BFloat16',
      } = work
      const track = rank.track('stream', 0, stream)
      const event = rank.add(kind, track, builder.intern(name), from, to - from)
      if (operator !== undefined) {
        let call = work.call === undefined ? undefined : calls.get(work.call)
        if (call === undefined) {
          call = rank.add(Kind.operator, rank.track('thread', 1, 1), builder.intern(operator), from, 1)
          if (work.shapes)
            rank.setOperands(
              call,
              rank.addOperands({ shapes: work.shapes, types: work.shapes.map(() => type) }),
            )
          if (work.call !== undefined) calls.set(work.call, call)
        }
        rank.linkOperator(event, call)
      }
      if (work.launch !== undefined)
        rank.linkLaunch(
          event,
          rank.add(Kind.launch, rank.track('thread', 1, 1), builder.intern(work.launch), from, 1),
        )
      if (work.communication)
        rank.setCommunication(
          event,
          rank.communication({ ...unknownCommunication, ...work.communication }),
          0,
        )
    }
  })
  return builder.freeze()
}

/** A partition of a rank's time with the given intervals per category, instead of computed intervals. */
export function partitionWith(
  from: number,
  to: number,
  given: Partial<Record<Part, readonly number[] | Intervals>>,
): Partition {
  const none = new Float64Array(0)
  const parts = Object.fromEntries(
    partNames.map((part) => [part, Float64Array.from(given[part] ?? [])]),
  ) as unknown as ProcessorTime['parts']
  return {
    from,
    to,
    processors: [{ parts, waiting: none, transferring: none }],
    communicating: none,
    copying: none,
  }
}
