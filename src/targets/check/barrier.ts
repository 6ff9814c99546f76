/**
 * An arrival barrier between the roles of a program, with the semantics of an `mbarrier` in hardware. A phase of an
 * arrival barrier completes after all its arrivals and the copies attached to the phase. A wait on an arrival barrier
 * sees only the parity of the phase. The checker reports waits that confuse two phases of equal parity.
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
  /**
   * The number of copies by programs of the cluster (parts of a multicast) that the current phase still waits for. The
   * number of outstanding copies is negative while copies have arrived that this program does not expect yet.
   */
  #underWay = 0
  /**
   * The joined clocks of the arrivals and copies of the current phase, and the joined clocks of the last completed
   * phase.
   */
  #gathered = new Clock()
  #published = new Clock()
  /** The latest wait of each role on this barrier. */
  readonly #waits = new Map<Agent, { readonly phase: number; readonly time: number; readonly node: Node }>()

  readonly #arrivers = new Set<number>()
  /** A unique name for the barrier, which is the same in every run. */
  readonly key: string
  /**
   * Whether the threads of the program may use the barrier. In the last stage for a GPU, one thread initialises the
   * barriers of a program, and then all threads synchronise. In other stages, a barrier is ready where it is declared.
   */
  state: 'declared' | 'initialised' | 'ready'

  constructor(arrivals: number, key: string, state: ArrivalBarrier['state'] = 'ready') {
    this.#arrivals = arrivals
    this.key = key
    this.state = state
  }

  /**
   * Describes the state of the barrier as a relative clause, for example "that has completed 2 phases and counts 0 of 1
   * arrivals".
   */
  describe(): string {
    return `that has completed ${this.#completed} phases and counts ${this.#arrived} of ${this.#arrivals} arrivals`
  }

  isReady(phase: number): boolean {
    return ((this.#completed - (phase + 1)) & 1) === 0
  }

  arrive(agent: Agent, node: Node, machine: Machine): void {
    agent.noteEffect()
    agent.note(mix(this.#completed, this.#arrived))
    // Arrivals of a single role are ordered by the sequential execution of the role. Arrivals of several roles are not
    // ordered with each other.
    this.#arrivers.add(agent.component)
    if (this.#arrivers.size > 1) machine.strong.sharePlace(this.key)
    agent.release(this.#gathered)
    this.#arrived++
    this.#complete(agent, node, machine)
  }

  /** Completes the phase if all arrivals and all expected copies have been made. */
  #complete(agent: Agent, node: Node, machine: Machine): void {
    if (this.#arrived < this.#arrivals || this.#underWay > 0) return
    this.#expectPassed(agent, node, machine)
    this.#arrived = 0
    this.#completed++
    const spent = this.#published
    this.#published = this.#gathered
    this.#gathered = spent
    spent.clear()
  }

  /** Makes the current phase of the barrier wait for a number of copies, which any programs of the cluster may make. */
  expectParts(parts: number): void {
    this.#underWay += parts
  }

  /** Notes that a program of the cluster has copied its section of a tile into this program's shared memory. */
  attachPart(copy: Accessor, agent: Agent, node: Node, machine: Machine): void {
    agent.noteEffect()
    machine.strong.sharePlace(this.key)
    this.attach(copy)
    this.#underWay--
    this.#complete(agent, node, machine)
  }

  /** Attaches a copy to the barrier: the current phase completes only after the copy. */
  attach(copy: Accessor): void {
    this.#gathered.set(copy.identity.component, copy.time)
  }

  wait(agent: Agent, node: Node, phase: number, machine: Machine): void {
    if (this.#completed !== phase + 1)
      machine.report({
        kind: 'phase',
        kernel: agent.launch.kernel,
        message: `a wait for phase ${phase} passes although ${this.#completed} phases are complete: a barrier distinguishes only odd and even phases`,
        parties: [{ who: describe(agent), what: `waits for phase ${phase}`, site: node.site }],
      })
    this.#waits.set(agent, { phase, time: agent.time, node })
    agent.clock.join(this.#published)
    machine.strong.noteClock(agent)
  }

  /**
   * Reports a wait for phase p that may not have returned when phase p + 1 completes. Once phase p + 1 is complete, the
   * parity of the barrier is the same as before phase p, so the wait would block again.
   */
  #expectPassed(agent: Agent, node: Node, machine: Machine): void {
    const completing = this.#completed
    for (const [waiter, wait] of this.#waits) {
      if (wait.phase !== completing - 1 || this.#gathered.get(waiter.component) >= wait.time) continue
      machine.report({
        kind: 'phase',
        kernel: agent.launch.kernel,
        message: `phase ${completing} of a barrier may complete before a wait for phase ${wait.phase} has returned, and that wait then blocks on a phase that is already over`,
        parties: [
          { who: describe(waiter), what: `waits for phase ${wait.phase}`, site: wait.node.site },
          { who: describe(agent), what: `completes phase ${completing}`, site: node.site },
        ],
      })
    }
  }
}
