/**
 * CUDA graphs: a sequence of launches over all ranks, captured once and enqueued by one call as often as one likes. Contract: a
 * graph runs on the first rank's first stream; it starts after what its streams were given before, and what they are given after
 * it waits for it. Epochs lie in device memory, so that every replay is a launch of its own; numbers keep their values.
 */
import { WorldError } from '../../world/world.ts'
import { hostNow } from './clock.ts'
import type { Machine } from './machine.ts'
import { controlFor, start, type Part, type Queue, type Step } from './queue.ts'
import type { Graph, StreamEvent } from './device.ts'

/** Launches that were captured. */
export interface LaunchGraph {
  /** How many launches, on all ranks. */
  readonly nodes: number
  /** Enqueue them all. */
  launch(): void
  close(): void
}

interface Capture {
  readonly origin: Queue
  readonly fork: StreamEvent
  readonly queues: Set<Queue>
  readonly steps: Step[]
}

export class Graphs {
  readonly #machine: Machine
  #capture: Capture | undefined
  /** Queues that a graph has run on since they were given something by themselves. */
  readonly #behind = new Set<Queue>()
  readonly #events = new Map<Queue, StreamEvent>()
  readonly #open = new Set<LaunchGraph>()

  constructor(machine: Machine) {
    this.#machine = machine
    machine.beforeEnqueue = () => this.catchUp()
  }

  get isCapturing(): boolean {
    return this.#capture !== undefined
  }

  /** What `body` launches becomes a graph. */
  capture(body: () => void): LaunchGraph {
    const machine = this.#machine
    machine.expectRunning()
    if (this.#capture) throw new WorldError('a graph is being captured already')
    this.catchUp()
    const origin = machine.queue(0, 0)
    const fork = this.#eventOf(origin)
    origin.stream.beginCapture()
    const capture: Capture = { origin, fork, queues: new Set([origin]), steps: [] }
    try {
      fork.record()
      this.#capture = capture
      body()
      for (const queue of capture.queues) if (queue !== origin) this.#follow(origin, queue)
    } catch (error) {
      this.#capture = undefined
      origin.stream.dropCapture()
      throw error
    }
    this.#capture = undefined
    const graph = origin.stream.endCapture()
    const { steps, queues } = capture
    const made: LaunchGraph = {
      nodes: steps.length,
      launch: () => this.#launch(graph, origin, queues, steps),
      close: () => {
        if (!this.#open.delete(made)) return
        graph.close()
        for (const { part, control } of steps)
          if (control) machine.controls(part.queue.rank).giveBack(control)
      },
    }
    this.#open.add(made)
    return made
  }

  /** Adds a launch to the graph that is being captured. */
  add(parts: readonly Part[]): void {
    const { fork, queues, steps } = this.#capture!
    const machine = this.#machine
    const early = machine.mayStartEarly(parts)
    // What will be written when it is launched is not known yet.
    machine.settled.tell(parts, false)
    machine.started(parts, () => {
      for (const part of parts) {
        if (!queues.has(part.queue)) {
          part.queue.stream.waitFor(fork)
          queues.add(part.queue)
        }
        const control = controlFor(part, machine.controls(part.queue.rank))
        const step: Step = { part, control, given: part.given }
        start(step, early)
        steps.push(step)
      }
    })
  }

  #launch(graph: Graph, origin: Queue, queues: ReadonlySet<Queue>, steps: readonly Step[]): void {
    const machine = this.#machine
    machine.expectRunning()
    if (this.#capture) throw new WorldError('a graph is launched while another one is captured')
    machine.makeRoom(origin)
    const parts = steps.map(({ part }) => part)
    machine.started(parts, () => {
      machine.holdBack(parts, origin)
      machine.settled.note(parts)
      for (const queue of queues)
        if (queue !== origin) {
          if (queue.launched !== queue.joined) this.#follow(origin, queue)
          queue.joined = queue.launched
          this.#behind.add(queue)
        }
      const from = hostNow()
      graph.launch()
      origin.enqueued(steps)
      for (const queue of queues) queue.polls = origin.polls
      for (const step of steps) machine.recorder?.enqueued(step, from)
    })
  }

  /** What is enqueued from now on comes after the graphs so far, on all their streams. */
  catchUp(): void {
    if (this.#behind.size === 0) return
    const origin = this.#machine.queue(0, 0)
    const event = this.#eventOf(origin)
    event.record()
    for (const queue of this.#behind) queue.stream.waitFor(event)
    this.#behind.clear()
  }

  /** What is enqueued on a queue from now on comes after what another one was given so far. */
  #follow(queue: Queue, other: Queue): void {
    const event = this.#eventOf(other)
    event.record()
    queue.stream.waitFor(event)
  }

  /** One for each queue: who waits for an event waits for what it was recorded for when it began to. */
  #eventOf(queue: Queue): StreamEvent {
    let event = this.#events.get(queue)
    if (!event) this.#events.set(queue, (event = queue.stream.createEvent()))
    return event
  }

  close(): void {
    for (const graph of [...this.#open]) graph.close()
    for (const event of this.#events.values()) event.close()
  }
}
