/**
 * Decides which tensors a launch may read early, and delays launches that write those tensors.
 *
 * After an early launch (`Launch.on`), a kernel (the reader) may start while the previous kernel on its stream is still
 * ending. The reader may copy from a tensor during that time if the tensor is settled: no launch on any rank has
 * written it since the world was last idle. Without this overlap the reader would run after the previous kernel, and
 * the previous kernel may wait, for a flag or in a loop, for a later launch:
 *
 *   rank 0    previous: waits for a flag    reader: copies x early
 *   rank 1                                           writer: writes x on rank 0   signaller: signals the flag
 *
 * In this example the reader must see the writer's x. The host cannot know in general which kernel signals which flag:
 * the signalling kernel may be launched after the writer, and the host itself may signal once the writer has ended.
 * Therefore a writer never runs concurrently with an early reader. The writer starts after the reader, and all work
 * enqueued behind the reader on its stream at that time, has ended. Launches that follow the writer start later still.
 * The device enforces this order: the writer's stream waits for an event recorded after the reader. The host does not
 * block, so it can enqueue a writer behind readers that wait for the host. If the previous kernel does wait for the
 * writer, no launch ends any more. The watchdog then aborts the world, and the message says that the writer has to be
 * launched before the reader. In all other cases the reader has read the correct data.
 *
 * Two kinds of previous kernel allow no early reads. A kernel that polls may wait for the host, which would write the
 * tensor first. After a kernel that only handles flags, such as a barrier or a start gate, the next kernel is meant to
 * begin when all ranks have reached it.
 *
 * A writer that is launched after the reader on the same queue needs no delay. Writes by the host take effect at once
 * and are not ordered with launches, so they wait until the world is idle. If other software enqueues work on the
 * world's streams, the tensors that it writes are unknown. From then on no tensor counts as settled, and the foreign
 * work runs after the early readers so far.
 */
import { u32, type Launch } from './device.ts'

/** A sequence of launches on one rank that run one after the other. */
export interface Line {
  readonly rank: number
  /** The number of launches, and the number of them that are known to have ended. */
  readonly launched: number
  readonly settled: number
  /** True if the last launch polls. */
  readonly polls: boolean
  /** Records an event after the launches so far, unless an event after the first `launched` launches exists. */
  markBehind(launched: number): void
  /**
   * Makes later work of this line start after the first `launched` launches of another line. `other` must have an event
   * after them.
   */
  follow(other: Line, launched: number): void
}

/** A per-rank launch, and the tensor memory that it accesses. */
export interface Accesses {
  readonly queue: Line
  readonly kernel: { readonly name: string }
  readonly launch: Launch
  /** Groups of tensors that the kernel can read early. A group is read early only if all of its tensors are settled. */
  readonly early: readonly (readonly object[])[]
  readonly writes: readonly object[]
  /** The value of the idle counter when `writes` was last added to the set of written tensors. */
  noted?: number
  /** The elements of `writes` that are written on other ranks. */
  readonly writesElsewhere: readonly object[]
  /** The index of the kernel parameter with one bit per settled group; -1 if there is none. */
  readonly settledAt: number
  /** The current value of that parameter. */
  settled: number
}

/** The last launch of a line that reads a tensor early. */
interface Reading {
  readonly line: Line
  kernel: string
  /** The number of launches of the line up to and including this one. */
  launched: number
  /** Lines whose later launches run after this launch. */
  readonly followedBy: Set<Line>
}

/** A writer that is held back until a reader has ended. */
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
  /** Counts how often the world was idle. */
  #times = 0
  /** Early readers by tensor memory, with at most one entry per line. */
  readonly #readings = new Map<object, Reading[]>()
  #isForeign = false

  /** Must be called when other software may enqueue work on the world's streams. */
  forgo(): void {
    this.#isForeign = true
  }

  /** Must be called when no kernel runs. */
  clear(): void {
    this.#times++
    this.#written.clear()
    this.#readings.clear()
  }

  /** True if a launch that may be in flight on this rank reads this memory early. */
  isReadEarly(memory: object, rank: number): boolean {
    const readings = this.#readings.get(memory) ?? []
    return readings.some((reading) => reading.line.rank === rank && !hasEnded(reading))
  }

  /**
   * Must be called before these launches are enqueued, each on its own line or all on the line `on`. Makes them run
   * after the launches that read early the tensors that they write. Returns a writer that is held back, or undefined if
   * there is none.
   */
  holdBack(parts: readonly Accesses[], on?: Line): Held | undefined {
    if (this.#readings.size === 0) return undefined
    // A graph may contain work of other software.
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

  /** Makes all later work of a line run after all early readers. */
  holdBackAll(line: Line): void {
    for (const readings of this.#readings.values())
      for (const reading of readings) this.#follow(line, reading)
  }

  /** Makes a line run after an early reader. Returns true if the line has to wait for the reader. */
  #follow(line: Line, reading: Reading): boolean {
    if (hasEnded(reading) || reading.followedBy.has(line)) return false
    this.#markAll()
    reading.followedBy.add(line)
    if (line === reading.line) return false
    line.follow(reading.line, reading.launched)
    return true
  }

  /**
   * Records an event after every early reader before the first writer is enqueued. An event recorded later, for the
   * next writer, would come after this writer in its stream, and this writer may wait for the next one.
   */
  #markAll(): void {
    for (const readings of this.#readings.values())
      for (const { line, launched } of readings) line.markBehind(launched)
  }

  /** Must be called for launched work. Adds the tensors that the launches write to the set of written tensors. */
  note(parts: readonly Pick<Accesses, 'writes' | 'noted'>[]): void {
    for (const part of parts) {
      if (part.noted === this.#times) continue
      part.noted = this.#times
      for (const memory of part.writes) this.#written.add(memory)
    }
  }

  /**
   * Must be called before these launches are enqueued together. Sets the kernel parameter that says which groups may be
   * read early.
   */
  tell(parts: readonly Accesses[], mayStartEarly: boolean): void {
    this.note(parts)
    for (const part of parts) {
      if (part.settledAt < 0) continue
      let settled = 0
      if (mayStartEarly && !this.#isForeign && !part.queue.polls)
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
