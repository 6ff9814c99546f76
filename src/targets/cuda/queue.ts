/**
 * The launches of a stream on a rank. Knows which are under way: an event after every few launches tells how far the device has
 * come, so that launching costs one call of the driver and no more can be enqueued than the driver takes without blocking.
 */
import type { Part as WorldPart } from '../../world/backend.ts'
import type { Given } from '../../world/launchTraffic.ts'
import type { SymmetricFlags } from '../../world/world.ts'
import type { Control, Controls } from './control.ts'
import type { Executable } from './executables.ts'
import { u64, type Stream, type StreamEvent } from './device.ts'
import type { Accesses, Line } from './settled.ts'

/** A launch of a kernel on one rank, as it can be enqueued again and again. */
export interface Part extends WorldPart, Omit<Accesses, 'kernel'> {
  readonly queue: Queue
  readonly executable: Executable
  readonly programsPerProcessor: number
  readonly flags: Readonly<Record<string, SymmetricFlags>>
  /** Which kernel parameter is the control block; -1: none. */
  readonly controlAt: number
}

/** A part that is under way, its control block if it has one, and what it was launched with where the world records. */
export interface Step {
  readonly part: Part
  readonly control: Control | undefined
  readonly given: Given | undefined
}

/** What one call of the driver started: a step, or those of a graph, whose control blocks later launches of it use again. */
type Launched = Step | readonly Step[]

/** How many launches of a queue can be under way; the driver has room for a thousand, then it blocks. */
export const mostUnderWay = 256
const launchesAnEvent = 64

export class Queue implements Line {
  readonly rank: number
  readonly number: number
  readonly stream: Stream
  readonly #controls: Controls
  /** Under way, oldest first: launches `settled` to `launched`. */
  readonly #launched: Launched[] = []
  readonly #marks: { readonly event: StreamEvent; readonly launched: number }[] = []
  readonly #events: StreamEvent[] = []
  launched = 0
  settled = 0
  /** How many had been launched when the last event was recorded. */
  #marked = 0
  /** How many had been launched when a graph last waited for this queue. */
  joined = 0
  /** What was launched last polls, or something in that graph. */
  polls = false

  constructor(rank: number, number: number, stream: Stream, controls: Controls) {
    this.rank = rank
    this.number = number
    this.stream = stream
    this.#controls = controls
  }

  get isFull(): boolean {
    return this.launched - this.settled >= mostUnderWay
  }

  /** Not known to have ended, oldest first. */
  get underWay(): readonly Step[] {
    return this.#launched.flat()
  }

  /** `early`: see `Launch.on`. */
  enqueue(part: Part, early: boolean): Step {
    const step: Step = { part, control: controlFor(part, this.#controls), given: part.given }
    start(step, early)
    this.#push(step, part.executable.polls)
    return step
  }

  /** A graph with these steps was launched on this queue's stream. */
  enqueued(steps: readonly Step[]): void {
    this.#push(
      steps,
      steps.some(({ part }) => part.executable.polls),
    )
  }

  #push(launched: Launched, polls: boolean): void {
    this.#launched.push(launched)
    this.launched++
    this.polls = polls
    if (this.launched % launchesAnEvent === 0) this.mark()
  }

  /** Lets `settle` notice that the launches so far have ended. */
  mark(): void {
    if (this.settled === this.launched || this.#marks.at(-1)?.launched === this.launched) return
    const event = this.#events.pop() ?? this.stream.createEvent()
    event.record()
    this.#marks.push({ event, launched: this.launched })
    this.#marked = this.launched
  }

  markBehind(launched: number): void {
    if (this.#marked < launched) this.mark()
  }

  follow(other: Queue, launched: number): void {
    const mark = other.#marks.find((one) => one.launched >= launched)
    // Those whose mark is gone have ended.
    if (mark) this.stream.waitFor(mark.event)
  }

  /** Looks how far the device has come; gives how many launches have ended. */
  settle(): number {
    while (this.#marks.length > 0 && this.#marks[0].event.isReached()) {
      const { event, launched } = this.#marks.shift()!
      this.#events.push(event)
      for (const ended of this.#launched.splice(0, launched - this.settled))
        if ('control' in ended && ended.control) this.#controls.giveBack(ended.control)
      this.settled = launched
    }
    return this.settled
  }

  close(): void {
    for (const event of [...this.#events, ...this.#marks.map(({ event }) => event)]) event.close()
    this.stream.close()
  }
}

/** Kernels that cannot be stopped while they run have none. */
export const controlFor = ({ controlAt }: Part, controls: Controls): Control | undefined =>
  controlAt >= 0 ? controls.take() : undefined

/** Enqueues a part, or adds it to the graph that its stream is captured for. */
export function start({ part, control }: Step, early: boolean): void {
  if (control) part.launch.setArgument(part.controlAt, u64(control.address))
  part.launch.on(part.queue.stream, early)
}
