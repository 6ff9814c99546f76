/**
 * Queues the launches of each stream on each rank in the checker, and records which launches the host program knows to
 * have ended.
 */
import { pendingOf, Signallers, type FlagSignals, type Launched } from '../../world/signallers.ts'
import type { Agent } from './agent.ts'
import { Clock } from './clock.ts'
import type { FlagSet } from './flags.ts'
import { flagSets, type Launch } from './launch.ts'
import { withPredecessors } from './order.ts'

/** A launch as the host program requests it, without the state of its execution. */
export type Requested = Omit<
  Launch,
  'hostClock' | 'lasts' | 'epochs' | 'programs' | 'remaining' | 'start' | 'end' | 'isOver'
>

/** The launches of a stream on a rank. */
interface Queue {
  readonly pending: Launch[]
  active: Launch | undefined
  last: Launch | undefined
}

const placeOf = ({ kernel, rank, stream }: Launch): Launched => ({ kernel, rank, stream })

export class Queues {
  readonly #queues = new Map<string, Queue>()
  readonly #signallers = new Signallers()
  /** Launches that are still running as far as the host program knows, whether or not they have ended. */
  #unknown: Launch[] = []

  /** True if a launch may still be running, as far as the host program knows. */
  get isBusy(): boolean {
    return this.#unknown.length > 0
  }

  add(launch: Requested, hostClock: Clock): void {
    const key = `${launch.rank}/${launch.stream}`
    let queue = this.#queues.get(key)
    if (!queue) this.#queues.set(key, (queue = { pending: [], active: undefined, last: undefined }))
    const added: Launch = {
      ...launch,
      hostClock,
      lasts: new Map(),
      epochs: new Map(),
      programs: [],
      remaining: launch.grid,
      start: hostClock,
      end: new Clock(),
      isOver: false,
    }
    queue.pending.push(added)
    this.#signallers.note(launch, launch.code.ir, flagSets(launch.args))
    queue.last = added
    this.#unknown.push(added)
  }

  /** The last launch of a stream on a rank, unless the host program knows that it has ended. */
  last(rank: number, stream: number): readonly Launch[] {
    const launch = this.#queues.get(`${rank}/${stream}`)?.last
    return launch ? [launch] : []
  }

  /** Launches on a rank that may run concurrently with a launch whose direct predecessors are `after`. */
  beside(rank: number, after: readonly Launch[]): Launch[] {
    const others = this.#unknown.filter((launch) => launch.rank === rank)
    if (others.length === 0) return others
    const before = withPredecessors(after)
    return others.filter((launch) => !before.has(launch))
  }

  /**
   * Calls `start` with each pending launch whose predecessors have ended. The result is true if one of the started
   * launches has already ended.
   */
  startReady(start: (launch: Launch) => void): boolean {
    let ended = false
    for (const queue of this.#queues.values()) {
      while (!queue.active && queue.pending.length > 0) {
        if (queue.pending[0].after.some((launch) => !launch.isOver)) break
        const launch = queue.pending.shift()!
        queue.active = launch
        start(launch)
        ended ||= launch.isOver
      }
    }
    return ended
  }

  /** Marks a launch as ended, so that the next launch of its stream may start. */
  end(launch: Launch): void {
    this.#queues.get(`${launch.rank}/${launch.stream}`)!.active = undefined
    launch.isOver = true
  }

  /**
   * Notes that the host program knows that the given launches, or all launches, have ended. Everything that the host
   * does next is ordered after the given launches and their predecessors.
   */
  noteEnded(until: readonly Launch[] | undefined, hostClock: Clock): void {
    const known = until && withPredecessors(until)
    for (const launch of known ?? this.#unknown) hostClock.join(launch.end)
    this.#unknown = known ? this.#unknown.filter((launch) => !known.has(launch)) : []
    // References to ended launches are dropped. If references to ended launches were kept, a long-lived world would
    // keep all memory of its past programs.
    for (const queue of this.#queues.values())
      if (queue.last && !this.#unknown.includes(queue.last)) queue.last = undefined
  }

  /** Lists the signals that could release the agents that are blocked in a wait for a flag. */
  couldSignal(blocked: readonly Agent[]): FlagSignals[] {
    const awaited = new Set<FlagSet>()
    const waits = blocked.flatMap((agent) => {
      const { awaited: flagsOf, node } = agent.code.instructions[agent.pc]
      const flag = flagsOf?.(agent)
      if (!flag) return []
      awaited.add(flag)
      return [{ ...placeOf(agent.launch), site: node.site?.toString(), flag }]
    })
    const launches = [...this.#queues.values()].flatMap(({ active, pending }) =>
      [...(active ? [active] : []), ...pending].map(placeOf),
    )
    const pending = pendingOf(launches, waits)
    return [...awaited].map((flags) => this.#signallers.couldSignal(flags, pending))
  }
}
