/**
 * Decides which tensors a launch may read before the previous kernel has ended (an early read), and delays launches
 * that write those tensors.
 *
 * With programmatic dependent launch (`Launch.on`), a kernel may start while the previous kernel on its stream is still
 * ending. An early reader is a kernel that copies from a tensor before the previous kernel has ended. A kernel is
 * allowed to read a tensor early only if the tensor is settled: no launch on any rank has written the tensor since the
 * world was last idle. The kernel before an early reader may wait, for a flag or in a loop, for a launch that is
 * enqueued later than the early reader. In the following diagram, for example, the previous kernel on rank 0 waits for
 * a flag that rank 1 signals.
 *
 *   rank 0    previous: waits for a flag    reader: copies x early
 *   rank 1                                           writer: writes x on rank 0   signaller: signals the flag
 *
 * An early reader must see the data that an earlier launch writes to the tensor. The host cannot know in general which
 * kernel signals which flag: the signalling kernel may be launched after the writing kernel, and the host itself may
 * signal after the writing kernel has ended. Therefore, a launch that writes a tensor never runs concurrently with an
 * early reader of that tensor. The writing launch starts when the early reader, and all work that is already enqueued
 * behind the early reader on its stream, have ended. Launches that follow the writing launch start only after it. The
 * device enforces the order of the reader and the writing launch: the stream of the writing launch waits for an event
 * recorded after the reader. The host does not block, so it can enqueue a writing launch behind readers that wait for
 * the host. If the kernel before the early reader waits for the writing launch, neither of these launches can end. If
 * launches block each other, the watchdog aborts the world, and the message says that the writing kernel must be
 * launched before the reading kernel. If no deadlock occurs, the early reader has read the data that earlier launches
 * wrote.
 *
 * Two kinds of kernels forbid early reads by the next kernel on the stream. A kernel that polls may wait for the host,
 * and the host may write a tensor before it ends the wait, so the next kernel must not read tensors early. After a
 * kernel that only handles flags, such as a barrier or a start gate, the next kernel must not begin before all ranks
 * have reached the barrier or the start gate.
 *
 * A launch that writes a tensor needs no delay if it follows the early reader on the same queue. Writes by the host
 * take effect at once and are not ordered with launches, so they wait until the world is idle. If other software
 * enqueues work on the world's streams, the tensors that it writes are unknown. After work of other software, no tensor
 * counts as settled, and the work of other software runs after all early readers that are already enqueued.
 */
import { u32, type Launch } from './device.ts'

/** A sequence of launches on one rank that run one after the other. */
export interface Line {
  readonly rank: number
  /** The number of launches in the sequence, and the number of these launches that are known to have ended. */
  readonly launched: number
  readonly settled: number
  /** True if the last launch polls or only handles flags, so that the next launch must not read tensors early. */
  readonly barsEarlyReads: boolean
  /**
   * Enqueues an event after the launches so far, unless there is already an event after the first `launched` launches.
   */
  markBehind(launched: number): void
  /**
   * Makes later launches of this sequence start after the first `launched` launches of another sequence. The sequence
   * `other` must have recorded an event after its first `launched` launches.
   */
  follow(other: Line, launched: number): void
}

/** A per-rank launch, and the tensor memory that it accesses. */
export interface Accesses {
  readonly queue: Line
  readonly kernel: { readonly name: string }
  readonly launch: Launch
  /**
   * Groups of tensors that the kernel can read before the previous kernel has ended. The kernel reads a group early
   * only if all tensors of the group are settled (not written since the world was last idle).
   */
  readonly early: readonly (readonly object[])[]
  readonly writes: readonly object[]
  /** The number of times that the world had been idle when `writes` was last added to the set of written tensors. */
  noted?: number
  /** The elements of `writes` that are written on other ranks. */
  readonly writesElsewhere: readonly object[]
  /**
   * The index of the kernel parameter that says, with one bit per group of tensors, which groups the kernel may read
   * early; -1 if the kernel has no such parameter.
   */
  readonly settledAt: number
  /** The current value of the kernel parameter that says which groups of tensors the kernel may read early. */
  settled: number
}

/** The last launch of a sequence of launches that reads a tensor before the previous kernel has ended. */
interface Reading {
  readonly line: Line
  kernel: string
  /** The number of launches of the sequence up to and including the early reader. */
  launched: number
  /** The sequences of launches in which all later launches must run after the early reader. */
  readonly followedBy: Set<Line>
}

/** A launch that writes a tensor and is delayed until a reader has ended. */
export interface Held {
  readonly writer: string
  readonly reader: string
  isOver(): boolean
}

const hasEnded = ({ line, launched }: Reading): boolean => line.settled >= launched

function heldBack(part: Accesses, { line, launched, kernel }: Reading): Held {
  return { writer: part.kernel.name, reader: kernel, isOver: () => line.settled >= launched }
}

export class Settled {
  readonly #written = new Set<object>()
  /** The number of times that the world has become idle. */
  #times = 0
  /** The early readers of each tensor memory, with at most one entry per sequence of launches. */
  readonly #readings = new Map<object, Reading[]>()
  #isForeign = false

  /** Records that other software may enqueue work on the streams of the world. */
  forgo(): void {
    this.#isForeign = true
  }

  /** Records that no kernel of the world runs any more. */
  clear(): void {
    this.#times++
    this.#written.clear()
    this.#readings.clear()
  }

  /**
   * True if a launch that may be running on the rank reads `memory` before the previous kernel on its stream has ended.
   */
  isReadEarly(memory: object, rank: number): boolean {
    const readings = this.#readings.get(memory) ?? []
    return readings.some((reading) => reading.line.rank === rank && !hasEnded(reading))
  }

  /**
   * Makes the given launches run after all early readers of the tensors that the given launches write. The world calls
   * `holdBack` before the given launches are enqueued, each on its own sequence or all on the sequence `on`. The result
   * is a delayed launch, or undefined if no launch is delayed.
   */
  holdBack(parts: readonly Accesses[], on?: Line): Held | undefined {
    if (this.#readings.size === 0) return undefined
    // The launches of a graph may include work of other software.
    if (on && this.#isForeign) this.holdBackAll(on)
    let held: Held | undefined
    for (const part of parts)
      for (const memory of part.writes) {
        const readings = this.#readings.get(memory)
        if (!readings) continue
        const isElsewhere = part.writesElsewhere.includes(memory)
        for (const reading of readings) {
          if (!isElsewhere && (reading.line === part.queue || reading.line.rank !== part.queue.rank)) continue
          if (this.#follow(on ?? part.queue, reading)) held = heldBack(part, reading)
        }
      }
    return held
  }

  /** Makes all later launches of a sequence run after all early readers. */
  holdBackAll(line: Line): void {
    for (const readings of this.#readings.values())
      for (const reading of readings) this.#follow(line, reading)
  }

  /**
   * Makes a sequence of launches run after an early reader. The result is true if the sequence has to wait for the
   * reader.
   */
  #follow(line: Line, reading: Reading): boolean {
    if (hasEnded(reading) || reading.followedBy.has(line)) return false
    this.#markAll()
    reading.followedBy.add(line)
    if (line === reading.line) return false
    line.follow(reading.line, reading.launched)
    return true
  }

  /**
   * Enqueues an event after every early reader, before the first writing launch is enqueued. If the event for a second
   * writing launch were recorded only when that launch is enqueued, the event could follow the first writing launch in
   * the stream of the reader. The second writing launch would then wait for the first, although the first may wait for
   * the second.
   */
  #markAll(): void {
    for (const readings of this.#readings.values())
      for (const { line, launched } of readings) line.markBehind(launched)
  }

  /**
   * Extends the set of written tensors by those that the given launches write. The world calls `note` for all launches.
   */
  note(parts: readonly Pick<Accesses, 'writes' | 'noted'>[]): void {
    for (const part of parts) {
      if (part.noted === this.#times) continue
      part.noted = this.#times
      for (const memory of part.writes) this.#written.add(memory)
    }
  }

  /**
   * Sets the kernel parameter that says which groups of tensors the given launches may read early. The world calls
   * `tell` before the given launches are enqueued together.
   */
  tell(parts: readonly Accesses[], mayStartEarly: boolean): void {
    this.note(parts)
    for (const part of parts) {
      if (part.settledAt < 0) continue
      let settled = 0
      if (mayStartEarly && !this.#isForeign && !part.queue.barsEarlyReads)
        part.early.forEach((group, i) => {
          if (group.some((memory) => this.#written.has(memory))) return
          for (const memory of group) this.#noteEarly(memory, part)
          settled |= 1 << i
        })
      if (settled === part.settled) continue
      part.launch.setArgument(part.settledAt, u32(settled))
      part.settled = settled
    }
  }

  #noteEarly(memory: object, { queue, kernel }: Accesses): void {
    let readings = this.#readings.get(memory)
    if (!readings) this.#readings.set(memory, (readings = []))
    const launched = queue.launched + 1
    const reading = readings.find(({ line }) => line === queue)
    if (!reading) {
      readings.push({ line: queue, kernel: kernel.name, launched, followedBy: new Set() })
      return
    }
    reading.kernel = kernel.name
    reading.launched = launched
    reading.followedBy.clear()
  }
}
