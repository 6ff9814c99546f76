/**
 * An agent is a role of a program: what executes sequentially. It carries its vector clock and what its fences and relaxed
 * reads have left pending.
 */
import type { Node } from '../../ir/node.ts'
import type { Scope } from '../../ir/ops/index.ts'
import type { Site } from '../../ir/site.ts'
import { Clock, mix } from './clock.ts'
import type { Code } from './code.ts'
import type { Location, Message } from './atomics.ts'
import type { Launch, ProgramInstance } from './machine.ts'
import type { Accessor } from './memory.ts'

/** Who, for scopes and for reports. A copy in flight has the identity of the role that issued it. */
export interface Identity {
  readonly component: number
  readonly rank: number
  readonly stream: number
  readonly program: number
  readonly role: string
  /** The team its program plays in, if the kernel has teams. */
  readonly team: string | undefined
}

/** What a component keeps from one launch to the next: its time never goes back. */
export interface ComponentRecord extends Identity {
  /** Tells components apart by who they are: numbers depend on who came first. */
  readonly key: number
  team: string | undefined
  time: number
  history: number
  history2: number
  messages: number
}

/** Add to the digest of what a component has done and seen. */
export function noteIn(record: ComponentRecord, value: number): void {
  record.history = mix(record.history, value)
  record.history2 = mix(record.history2 + 0x51ed27, value ^ 0x2545f491)
}

export function describe(who: Identity): string {
  if (who.rank < 0) return 'the host'
  return [`rank ${who.rank}`, `program ${who.program}`, who.team, who.role].filter(Boolean).join(', ')
}

/** Whether an operation of `by` at `scope` covers `other`. */
export function covers(scope: Scope, by: Identity, other: Identity): boolean {
  if (scope === 'system') return true
  if (by.rank !== other.rank) return false
  return scope === 'device' || (by.program === other.program && by.stream === other.stream)
}

/** Something an acquire can synchronise with: a release by an agent at a scope, with what it knew then. */
export interface Release {
  readonly by: Identity
  readonly scope: Scope
  readonly clock: Clock
}

/** An iteration of a `while` that changed nothing: what it read, to wait for news of. */
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
  /** Roles that have not ended. */
  children = 0

  /** The latest release fence at each scope. */
  readonly releaseFences = new Map<Scope, Release>()
  /** Releases seen by relaxed reads, for an acquire fence to come. */
  pending: Release[] = []

  readonly spins = new Map<number, { state: readonly unknown[]; spin: Spin }>()
  /**
   * In a loop that changed nothing: what the last iteration read and this one has not, as long as this one has read nothing else.
   * Reading all of it again would change nothing for ever.
   */
  readonly stale = new Map<Location, Message>()

  readonly record: ComponentRecord
  /** Components for copies in flight; one is free again when this agent knows that its copy is complete. */
  readonly engines: ComponentRecord[] = []
  /** Stores that an engine has under way. */
  readonly stores: Accessor[] = []
  /** Of waits in loops: the flags that were waited for. */
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

  get team(): string | undefined {
    return this.record.team
  }

  get time(): number {
    return this.clock.get(this.component)
  }

  /** What happened up to now becomes a past that others can learn of. */
  snapshot(): Clock {
    const copy = this.clock.copy()
    this.tick()
    return copy
  }

  /** Publish the past into `clock`. */
  release(clock: Clock): void {
    clock.join(this.clock)
    this.tick()
  }

  tick(): void {
    this.clock.tick(this.component)
    this.record.time = this.time
  }

  /** Add to the digest of what this agent has done and seen. */
  note(value: number): void {
    noteIn(this.record, value)
  }

  /** A read in a loop: of the places that are left, one must tell news if this one did not. */
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
