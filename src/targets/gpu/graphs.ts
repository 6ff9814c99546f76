/**
 * Implements graphs: a sequence of launches on all ranks that is captured once and then enqueued any number of times by
 * one driver call. Contract: a graph is launched on stream 0 of rank 0. A graph starts after all work that was enqueued
 * on the streams of the graph before it. Work that is enqueued after a graph on the streams of the graph waits for the
 * graph. Flag epochs are stored in device memory, so each replay counts as a separate launch. In a graph, scalar
 * arguments keep the values that they had during the capture.
 */
import { WorldError } from '../../world/world.ts'
import { hostNow } from './clock.ts'
import type { Machine } from './machine.ts'
import { controlFor, start, type Part, type Queue, type Step } from './queue.ts'
import type { Graph, StreamEvent } from './device.ts'

/** A captured graph of launches. */
export interface LaunchGraph {
  /** The number of launches of the graph on all ranks. */
  readonly nodes: number
  /** Enqueues all launches of the graph. */
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
  /**
   * Launch queues whose last work was a graph or belonged to a graph. If the last work of a queue was a graph, its next
   * launch has to wait for that graph.
   */
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

  /** Captures the launches that `body` makes as a graph. */
  capture(body: () => void): LaunchGraph {
    const machine = this.#machine
    machine.expectRunning()
    if (this.#capture)
      throw new WorldError('a graph capture is already in progress: captures cannot be nested')
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

  /** Adds a launch to the graph under capture. */
  add(parts: readonly Part[]): void {
    const { fork, queues, steps } = this.#capture!
    const machine = this.#machine
    const early = machine.mayStartEarly(parts)
    // While a graph is being captured, it is unknown which tensors concurrent launches will write. The kernels of a
    // graph therefore read no tensor before the previous kernel has ended.
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
    if (this.#capture) throw new WorldError('a graph cannot be launched during the capture of another graph')
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
      for (const queue of queues) queue.barsEarlyReads = origin.barsEarlyReads
      for (const step of steps) machine.recorder?.enqueued(step, from)
    })
  }

  /** Makes all streams that graphs have used wait for the graphs before they run further work. */
  catchUp(): void {
    if (this.#behind.size === 0) return
    const origin = this.#machine.queue(0, 0)
    const event = this.#eventOf(origin)
    event.record()
    for (const queue of this.#behind) queue.stream.waitFor(event)
    this.#behind.clear()
  }

  /** Makes `queue` wait for all work that has been enqueued on `other` so far. */
  #follow(queue: Queue, other: Queue): void {
    const event = this.#eventOf(other)
    event.record()
    queue.stream.waitFor(event)
  }

  /**
   * Returns the event of a queue. One event per queue is enough: a stream that waits for an event waits for its most
   * recent recording.
   */
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
