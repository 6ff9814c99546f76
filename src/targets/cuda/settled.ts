/**
 * What launches under way may write, and read early. A kernel may copy from a tensor while the launch ahead of it still ends if no
 * launch since the world last idled writes that tensor, on any rank: it is settled. In the order of the program that kernel, the reader,
 * comes after the launch ahead, and that one may wait, for a flag or in a loop, for what is launched later:
 *
 *   rank 0    ahead: waits for a flag    reader: copies x early
 *   rank 1                                                         writer: writes x on rank 0    teller: signals the flag
 *
 * Here the reader would have to see the writer's x. Who is told what by whom cannot be known: what tells may be launched after the
 * writer, by whatever kernel, and the host may tell as well, once it knows that the writer has ended. So a writer never runs beside an
 * early reader: it starts when the reader has ended, and whatever was launched behind that one on its stream by then; what follows the
 * writer starts later still. The device sees to that, by an event behind the reader that the writer's stream waits for; the host waits for
 * nothing, and enqueues a writer behind readers that wait for the host.
 * If there is such a chain, then nothing ends any more, and the world stops and says so: the writer has to be launched before the reader.
 * Otherwise the reader has read what it should.
 *
 * Directly behind a kernel that polls nothing is read early: it may wait for the host, which would write first. Nor behind a kernel that
 * has only flags, a barrier or a gate: what follows is meant to begin when all ranks have got there.
 *
 * Nothing has to be done where the writer's launch comes after the reader's anyway, on one queue. A write of the host comes at once, not in
 * any order with launches; it waits until the world idles. Where somebody else enqueues work on the world's streams nothing is known, and
 * nothing is settled from then on; that work comes after the early readers so far.
 */
import { u32, type Launch } from './device.ts'

/** Where launches of a rank follow each other. */
export interface Line {
  readonly rank: number
  /** How many were launched, and how many of them are known to have ended. */
  readonly launched: number
  readonly settled: number
  /** What was launched last polls. */
  readonly polls: boolean
  /** Makes an event behind what was launched so far, if there is none behind the first `launched`. */
  markBehind(launched: number): void
  /** What is enqueued here from now on starts after the first `launched` of another line, which a mark is behind. */
  follow(other: Line, launched: number): void
}

/** A launch on one rank, and the memory of tensors that it accesses. */
export interface Accesses {
  readonly queue: Line
  readonly kernel: { readonly name: string }
  readonly launch: Launch
  /** Groups that are read while the launch ahead ends, each where all of it is settled. */
  readonly early: readonly (readonly object[])[]
  readonly writes: readonly object[]
  /** When these were last noted. */
  noted?: number
  /** Of these, what is written on other ranks. */
  readonly writesElsewhere: readonly object[]
  /** Which kernel parameter says which are, a bit for each; -1: none. */
  readonly settledAt: number
  /** What that parameter says now. */
  settled: number
}

/** A launch that reads something early, the last one of its line to do so. */
interface Reading {
  readonly line: Line
  kernel: string
  /** It is among the first so many of its line. */
  launched: number
  /** Lines whose launches from now on come after it. */
  readonly followedBy: Set<Line>
}

/** A launch that starts when another one has ended. */
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
  /** How often nothing ran. */
  #times = 0
  /** By memory; at most one for each line. */
  readonly #readings = new Map<object, Reading[]>()
  #isForeign = false

  /** Work of others may be on the streams from now on. */
  forgo(): void {
    this.#isForeign = true
  }

  /** Nothing runs. */
  clear(): void {
    this.#times++
    this.#written.clear()
    this.#readings.clear()
  }

  /** Whether a launch that may be under way reads this on a rank early. */
  isReadEarly(memory: object, rank: number): boolean {
    const readings = this.#readings.get(memory) ?? []
    return readings.some((reading) => reading.line.rank === rank && !hasEnded(reading))
  }

  /**
   * Before these are enqueued, each on its own line or all on one: they come after those that read early what they write. Gives one
   * that does not start before another one has ended.
   */
  holdBack(parts: readonly Accesses[], on?: Line): Held | undefined {
    if (this.#readings.size === 0) return undefined
    // A graph may hold work of others.
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

  /** What comes on a line from now on comes after all that reads anything early. */
  holdBackAll(line: Line): void {
    for (const readings of this.#readings.values())
      for (const reading of readings) this.#follow(line, reading)
  }

  /** Whether something has to wait for that. */
  #follow(line: Line, reading: Reading): boolean {
    if (hasEnded(reading) || reading.followedBy.has(line)) return false
    this.#markAll()
    reading.followedBy.add(line)
    if (line === reading.line) return false
    line.follow(reading.line, reading.launched)
    return true
  }

  /**
   * An event behind every reader, before the first writer is enqueued: one that is made for the next writer would be behind this
   * one, which may wait for that one.
   */
  #markAll(): void {
    for (const readings of this.#readings.values())
      for (const { line, launched } of readings) line.markBehind(launched)
  }

  /** These are launched. */
  note(parts: readonly Pick<Accesses, 'writes' | 'noted'>[]): void {
    for (const part of parts) {
      if (part.noted === this.#times) continue
      part.noted = this.#times
      for (const memory of part.writes) this.#written.add(memory)
    }
  }

  /** Before these are launched together; they may start while what is ahead of them ends, or not. */
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
