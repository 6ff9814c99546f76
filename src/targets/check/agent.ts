/**
 * An agent is one role of a program. The instructions of an agent execute sequentially. The agent holds its vector
 * clock, its release fences, and the releases that its relaxed reads have observed but not yet acquired.
 */
import type { Node } from '../../ir/node.ts'
import type { Scope } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import { rankName, type Members } from '../../world/members.ts'
import { Clock, mix } from './clock.ts'
import type { Code } from './code.ts'
import type { Location, Message } from './atomics.ts'
import type { Launch, ProgramInstance } from './launch.ts'
import type { Accessor } from './memory.ts'

/**
 * The identity of the agent that performs an access, used for scopes and reports. An asynchronous copy has the rank,
 * program and role of the agent that issued it.
 */
export interface Identity {
  readonly component: number
  readonly rank: number
  /** The group on which the kernel was launched. */
  readonly members: Members
  readonly stream: number
  readonly program: number
  readonly role: string
  /** The team of the agent's program, or undefined if the kernel has no teams. */
  readonly team: string | undefined
}

/**
 * The state of a component (a role, or an asynchronous copy) that persists across launches. A component's logical time
 * never decreases.
 */
export interface ComponentRecord extends Identity {
  /**
   * A hash of the component's rank, stream, program and role. The hash excludes the number of the component, which
   * depends on the order in which components are created.
   */
  readonly key: number
  members: Members
  team: string | undefined
  time: number
  history: number
  history2: number
  messages: number
}

/** Adds a value to the digest (hash) of everything that the component has done and observed. */
export function noteIn(record: ComponentRecord, value: number): void {
  record.history = mix(record.history, value)
  record.history2 = mix(record.history2 + 0x51ed27, value ^ 0x2545f491)
}

export function describe(who: Identity): string {
  if (who.rank < 0) return 'the host'
  return [rankName(who.rank, who.members), `program ${who.program}`, who.team, who.role]
    .filter(Boolean)
    .join(', ')
}

/** True if the scope `scope` of an operation by the agent `by` includes the agent `other`. */
export function covers(scope: Scope, by: Identity, other: Identity): boolean {
  if (scope === 'system') return true
  if (by.rank !== other.rank) return false
  return scope === 'device' || (by.program === other.program && by.stream === other.stream)
}

/**
 * A release operation that an acquire can synchronise with: the releasing agent, the scope, and the agent's clock at
 * the release.
 */
export interface Release {
  readonly by: Identity
  readonly scope: Scope
  readonly clock: Clock
}

/**
 * One iteration of a `while` loop: whether it had effects, and which stores it read. An iteration without effects need
 * not be repeated until one of the locations that it read changes.
 */
export interface Spin {
  effects: boolean
  readonly reads: Map<Location, Message>
}

export class Agent implements Identity {
  readonly component: number
  readonly rank: number
  readonly stream: number
  readonly program: number
  readonly role: string
  readonly instance: ProgramInstance
  readonly launch: Launch
  readonly code: Code
  readonly registers: unknown[]
  readonly clock: Clock
  readonly parent: Agent | undefined
  pc = 0
  done = false
  /** The number of roles of the program that have not ended. */
  children = 0

  /** The latest release fence of this agent at each scope. */
  readonly releaseFences = new Map<Scope, Release>()
  /**
   * Releases that relaxed reads of this agent have observed. An acquire fence that the agent executes after relaxed
   * reads synchronises with the releases that these reads have observed.
   */
  pending: Release[] = []

  readonly spins = new Map<number, { state: readonly unknown[]; spin: Spin }>()
  /**
   * For a polling loop whose previous iteration had no effects: each location that the current iteration has not read
   * yet, with the store whose value the previous iteration read there. The map `stale` becomes empty once the current
   * iteration reads a changed value. A loop that reads only unchanged values would repeat forever.
   */
  readonly stale = new Map<Location, Message>()

  readonly record: ComponentRecord
  /**
   * The entries of vector clocks that this agent's asynchronous copies use, each with the unit that executes the copies
   * (`by`). A copy by the same unit can reuse the entry of a previous copy once this agent knows that the previous copy
   * is complete.
   */
  readonly engines: { readonly record: ComponentRecord; readonly by: unknown }[] = []
  /**
   * The reads and writes of asynchronous copies that no `quiet` or `drain` has completed, and the reads of matrix
   * products that no `dot.wait` has completed.
   */
  readonly inFlight = { reads: [] as Accessor[], writes: [] as Accessor[], products: [] as Accessor[] }
  /**
   * The flags for which this agent has already waited, for each `once` node (a block with a wait, which is skipped if
   * the agent has already waited for the flag).
   */
  readonly awaited = new Map<Node, Set<string>>()

  constructor(
    record: ComponentRecord,
    instance: ProgramInstance,
    registers: unknown[],
    clock: Clock,
    pc: number,
    parent?: Agent,
  ) {
    this.record = record
    this.component = record.component
    this.rank = record.rank
    this.stream = record.stream
    this.program = record.program
    this.role = record.role
    this.instance = instance
    this.launch = instance.launch
    this.code = instance.launch.code
    this.registers = registers
    this.clock = clock
    this.pc = pc
    this.parent = parent
    clock.set(record.component, ++record.time)
  }

  get members(): Members {
    return this.launch.members
  }

  get team(): string | undefined {
    return this.record.team
  }

  get time(): number {
    return this.clock.get(this.component)
  }

  /**
   * Returns a copy of the agent's clock and starts a new time step, so that other agents can synchronise with
   * everything up to now.
   */
  snapshot(): Clock {
    const copy = this.clock.copy()
    this.tick()
    return copy
  }

  /** Joins the agent's clock into the given clock and starts a new time step. */
  release(clock: Clock): void {
    clock.join(this.clock)
    this.tick()
  }

  tick(): void {
    this.clock.tick(this.component)
    this.record.time = this.time
  }

  /** Adds a value to the digest (hash) of everything that this agent has done and observed. */
  note(value: number): void {
    noteIn(this.record, value)
  }

  /**
   * Updates the map `stale` after a loop that polls memory has read a location. If the polled location has not changed,
   * the loop can end only after a change of another location in the map. If the location has a new value, the map
   * `stale` becomes empty.
   */
  noteFresh(location: Location, message: Message): void {
    const before = this.stale.get(location)
    if (before === undefined) return
    if (before.value === message.value) this.stale.delete(location)
    else this.stale.clear()
  }

  noteEffect(): void {
    for (const { spin } of this.spins.values()) spin.effects = true
  }

  get site(): Site | undefined {
    return this.code.instructions[this.pc]?.node.site
  }
}
