/**
 * An arrival barrier between the roles of a program, as the hardware has it: a phase completes after its arrivals and the copies
 * attached to it, and a wait is told the parity of the phase only. That a parity is mistaken is found here.
 */
import type { Node } from '../../ir/node.ts'
import { describe, type Agent } from './agent.ts'
import { Clock, mix } from './clock.ts'
import type { Machine } from './machine.ts'
import type { Accessor } from './memory.ts'

export class ArrivalBarrier {
  readonly #arrivals: number
  #arrived = 0
  #completed = 0
  /** What arrivals and copies of the running phase publish, and what the last complete phase published. */
  #gathered = new Clock()
  #published = new Clock()
  /** The latest wait of each role. */
  readonly #waits = new Map<Agent, { readonly phase: number; readonly time: number; readonly node: Node }>()

  readonly #arrivers = new Set<number>()
  /** The same in every run, and unlike any other barrier's. */
  readonly key: string

  constructor(arrivals: number, key: string) {
    this.#arrivals = arrivals
    this.key = key
  }

  /** "that has completed 2 phases and counts 0 of 1 arrivals" */
  describe(): string {
    return `that has completed ${this.#completed} phases and counts ${this.#arrived} of ${this.#arrivals} arrivals`
  }

  isReady(phase: number): boolean {
    return ((this.#completed - (phase + 1)) & 1) === 0
  }

  arrive(agent: Agent, node: Node, machine: Machine): void {
    agent.noteEffect()
    agent.note(mix(this.#completed, this.#arrived))
    // Arrivals of one role come in its order; those of several in any.
    this.#arrivers.add(agent.component)
    if (this.#arrivers.size > 1) machine.strong.sharePlace(this.key)
    agent.release(this.#gathered)
    if (++this.#arrived < this.#arrivals) return
    this.#expectPassed(agent, node, machine)
    this.#arrived = 0
    this.#completed++
    const spent = this.#published
    this.#published = this.#gathered
    this.#gathered = spent
    spent.clear()
  }

  /** The running phase is not complete before the copy is. */
  attach(copy: Accessor): void {
    this.#gathered.set(copy.identity.component, copy.time)
  }

  wait(agent: Agent, node: Node, phase: number, machine: Machine): void {
    if (this.#completed !== phase + 1)
      machine.report({
        kind: 'phase',
        kernel: agent.launch.kernel,
        message: `a wait for phase ${phase} passes though ${this.#completed} phases are complete: a barrier tells only odd phases from even ones`,
        parties: [{ who: describe(agent), what: `waits for phase ${phase}`, site: node.site }],
      })
    this.#waits.set(agent, { phase, time: agent.time, node })
    agent.clock.join(this.#published)
    machine.strong.noteClock(agent)
  }

  /** Whoever waits for a phase must have passed before the next one completes: the parity would tell it to wait on. */
  #expectPassed(agent: Agent, node: Node, machine: Machine): void {
    const completing = this.#completed
    for (const [waiter, wait] of this.#waits) {
      if (wait.phase !== completing - 1 || this.#gathered.get(waiter.component) >= wait.time) continue
      machine.report({
        kind: 'phase',
        kernel: agent.launch.kernel,
        message: `phase ${completing} of a barrier may complete before a wait for phase ${wait.phase} has passed, which then waits for a phase that is over`,
        parties: [
          { who: describe(waiter), what: `waits for phase ${wait.phase}`, site: wait.node.site },
          { who: describe(agent), what: `completes phase ${completing}`, site: node.site },
        ],
      })
    }
  }
}
