/**
 * The launch queue of one stream on one rank. To notice which launches have ended, a queue records an event only after
 * every 64 launches, so most launches cost one driver call. A queue holds at most 256 launches in flight, since the
 * driver blocks when its own queue is full.
 */
import type { Part as WorldPart } from '../../world/backend.ts'
import type { Given } from '../../world/launchTraffic.ts'
import type { Members } from '../../world/members.ts'
import type { SymmetricFlags } from '../../world/world.ts'
import { failureOf, type Control, type Controls, type Failure } from './control.ts'
import { u64, type Stream, type StreamEvent } from './device.ts'
import type { Executable } from './executables.ts'
import type { Accesses, Line } from './settled.ts'

/** A per-rank launch of a kernel, which can be enqueued repeatedly. */
export interface Part extends WorldPart, Omit<Accesses, 'kernel'> {
  readonly queue: Queue
  readonly executable: Executable
  readonly programsPerProcessor: number
  readonly flags: Readonly<Record<string, SymmetricFlags>>
  /** The group on which the kernel was launched. The programs of the kernel report rank numbers within this group. */
  readonly members: Members
  /** The index of the kernel parameter for the control block; -1 if the kernel has none. */
  readonly controlAt: number
}

/** A per-rank launch in flight, its control block if it has one, and its arguments if the world records events. */
export interface Step {
  readonly part: Part
  readonly control: Control | undefined
  readonly given: Given | undefined
}

/**
 * The work that one driver call started: one launch, or all launches of a graph. A graph's launches keep their control
 * blocks for replays.
 */
type Launched = Step | readonly Step[]

/**
 * The maximum number of launches of a queue that can be in flight. The driver's own queue has room for about a thousand
 * launches, and the driver blocks when it is full.
 */
export const mostUnderWay = 256
const launchesAnEvent = 64

export class Queue implements Line {
  readonly rank: number
  readonly number: number
  readonly stream: Stream
  readonly #controls: Controls
  /** The launches in flight, oldest first: those with numbers from `settled` to `launched`. */
  readonly #launched: Launched[] = []
  readonly #marks: { readonly event: StreamEvent; readonly launched: number }[] = []
  readonly #events: StreamEvent[] = []
  launched = 0
  settled = 0
  /** The number of launches of the queue (`launched`) when its last event was enqueued. */
  #marked = 0
  /** The number of launches of the queue (`launched`) when a graph last waited for it. */
  joined = 0
  /** A callback for a launch that has ended with a failed assertion. */
  onFailure: (step: Step, failure: Failure) => void = () => {}
  /**
   * True if the next launch must not read tensors before the last launch has ended (emit/decide.ts). If the last work
   * is a graph, `barsEarlyReads` is true if any launch of the graph forbids early reads.
   */
  barsEarlyReads = false

  constructor(rank: number, number: number, stream: Stream, controls: Controls) {
    this.rank = rank
    this.number = number
    this.stream = stream
    this.#controls = controls
  }

  get isFull(): boolean {
    return this.launched - this.settled >= mostUnderWay
  }

  /** The launches that are not known to have ended, oldest first. */
  get underWay(): readonly Step[] {
    return this.#launched.flat()
  }

  /** Enqueues a prepared launch. `Launch.on` describes the argument `early`. */
  enqueue(part: Part, early: boolean): Step {
    const step: Step = { part, control: controlFor(part, this.#controls), given: part.given }
    start(step, early)
    this.#push(step, part.executable.barsEarlyReads)
    return step
  }

  /** Registers a graph with the given launches, which was launched on this queue's stream. */
  enqueued(steps: readonly Step[]): void {
    this.#push(
      steps,
      steps.some(({ part }) => part.executable.barsEarlyReads),
    )
  }

  #push(launched: Launched, barsEarlyReads: boolean): void {
    this.#launched.push(launched)
    this.launched++
    this.barsEarlyReads = barsEarlyReads
    if (this.launched % launchesAnEvent === 0) this.mark()
  }

  /** Enqueues an event after all launches so far, so that `settle` can detect when these launches have ended. */
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
    // If no recorded event is left, all launches of the queue have ended.
    if (mark) this.stream.waitFor(mark.event)
  }

  /** Polls the device's progress and returns the number of launches that have ended. */
  settle(): number {
    while (this.#marks.length > 0 && this.#marks[0].event.isReached()) {
      const { event, launched } = this.#marks.shift()!
      this.#events.push(event)
      const ended = this.#launched.splice(0, launched - this.settled)
      this.settled = launched
      for (const step of ended.flat()) this.#expectHeld(step)
      for (const one of ended) if ('control' in one && one.control) this.#controls.giveBack(one.control)
    }
    return this.settled
  }

  #expectHeld(step: Step): void {
    const { control, part } = step
    if (!control || !part.executable.emitted.assertions) return
    const failure = failureOf(control)
    if (failure) this.onFailure(step, failure)
  }

  close(): void {
    for (const event of [...this.#events, ...this.#marks.map(({ event }) => event)]) event.close()
    this.stream.close()
  }
}

/** Takes a control block for a launch, or returns undefined if the kernel cannot be aborted while it runs. */
export const controlFor = ({ controlAt }: Part, controls: Controls): Control | undefined =>
  controlAt >= 0 ? controls.take() : undefined

/** Enqueues a per-rank launch, or adds it to the graph if its stream is being captured. */
export function start({ part, control }: Step, early: boolean): void {
  if (control) part.launch.setArgument(part.controlAt, u64(control.address))
  part.launch.on(part.queue.stream, early)
}
