/**
 * The checking machine executes one run: the programs of all ranks, their roles, and the launches queued on streams. At
 * every scheduling point, the checking machine asks a scheduler which agent runs next. The checking machine stops when
 * all launches have ended or when no agent can continue.
 */
import { ArithmeticError } from '../../ir/dtype.ts'
import type { Node } from '../../ir/node.ts'
import { KernelError } from '../../ir/site.ts'
import type { Printed } from '../../world/prints.ts'
import { Memory } from './access.ts'
import { describe, Agent, type ComponentRecord } from './agent.ts'
import type { Location, Message } from './atomics.ts'
import { Clock, mix } from './clock.ts'
import { completeAtEnd, Engines } from './engines.ts'
import { findingKey, StopRun, type Cut, type Finding, type FindingKind } from './findings.ts'
import { FlagMemory, type FlagView } from './flags.ts'
import { expectArrived } from './lasts.ts'
import { flagArguments, type Launch, type ProgramInstance } from './launch.ts'
import type { Accessor, Buffer } from './memory.ts'
import { Multicasts } from './multicast.ts'
import { Queues, type Requested } from './queues.ts'
import { StrongMemory, type Choices } from './strong.ts'
import { deadlock, endAtLimit } from './stuck.ts'

export interface Scheduler extends Choices {
  /**
   * Chooses one of the agents that can continue, which are in `enabled`. The agent `current` ran last; it may or may
   * not be able to continue.
   */
  next(enabled: readonly Agent[], current: Agent | undefined, machine: Machine): Agent
}

export interface MachineOptions {
  readonly ranks: number
  /** The number of scheduling points after which a run is cut. */
  readonly stepLimit?: number
  /** The number of instructions after which a run is considered too long to check. */
  readonly instructionLimit?: number
}

const HOST = 0
/**
 * The number of consecutive host reads without a step of any agent after which the checker reports that the host polls
 * forever.
 */
const mostFruitless = 1000

export class Machine {
  readonly ranks: number
  readonly memory: Memory
  readonly strong: StrongMemory
  readonly flags: FlagMemory
  readonly engines = new Engines()
  readonly multicasts = new Multicasts()
  readonly findings = new Map<string, Finding>()
  /**
   * The lines that programs have printed since the host last waited. The list of printed lines is undefined if printing
   * is disabled.
   */
  prints: Printed[] | undefined
  /** The reasons why the exploration does not cover everything that this run could have done. */
  readonly cuts = new Set<Cut>()
  readonly #scheduler: Scheduler
  readonly #components: ComponentRecord[] = []
  readonly #componentOf = new Map<string, number>()
  readonly #queues = new Queues()
  #current: Agent | undefined
  readonly #agents: Agent[] = []
  readonly #scratch: Agent[] = []
  readonly #stepLimit: number
  readonly #instructionLimit: number
  #instructions = 0
  readonly hostClock = new Clock()
  steps = 0

  constructor(scheduler: Scheduler, options: MachineOptions) {
    this.ranks = options.ranks
    this.#scheduler = scheduler
    this.#stepLimit = options.stepLimit ?? 200_000
    this.#instructionLimit = options.instructionLimit ?? 50_000_000
    const identify = (component: number): ComponentRecord => this.#components[component]
    this.memory = new Memory((finding) => this.report(finding), identify)
    this.strong = new StrongMemory(this.memory, scheduler, identify)
    this.flags = new FlagMemory(this.memory, this.strong)
    this.#component(-1, -1, -1, 'host', 0)
    this.hostClock.set(HOST, 1)
  }

  // Accesses by the host

  /** The record of an access by the host. */
  get host(): Accessor {
    return {
      identity: this.#components[HOST],
      clock: this.hostClock,
      time: this.hostClock.get(HOST),
      kernel: 'the host program',
      node: undefined,
    }
  }

  /** Models a write by the host of a word that running kernels may poll. */
  writeWord(buffer: Buffer, i: number, value: number): void {
    this.strong.storeFromHost(this.host, this.#components[HOST], buffer, i, value)
    this.hostClock.tick(HOST)
    this.#fruitless = 0
  }

  /** For each word that the host polls, the store whose value the host read last. */
  readonly #polled = new Map<Location, Message>()
  /** How often in a row the host has read memory while no agent made a step. */
  #fruitless = 0

  /**
   * Models a host read that does not wait for launches. Before a host read, all agents run as far as they can. The host
   * may then read any store that the memory model permits, including every store that it could have read before the
   * agents ran.
   */
  look(what: string): void {
    const { steps } = this
    this.#runEnabled(() => false)
    this.#fruitless = this.steps === steps ? this.#fruitless + 1 : 0
    if (this.#fruitless < mostFruitless) return
    if (this.#agents.length > 0) deadlock(this.#agents, this, this.#queues)
    throw new StopRun({
      kind: 'livelock',
      kernel: 'the host program',
      message: `the host reads ${what} again and again, and no agent can change it any more`,
      parties: [],
    })
  }

  /** Models a read by the host of a word that running kernels may store. */
  readWord(buffer: Buffer, i: number): number {
    const record = this.#components[HOST]
    const { location, message } = this.strong.loadIntoHost(this.host, record, buffer, i, this.#polled)
    if (this.#polled.get(location) !== message) this.#fruitless = 0
    this.#polled.set(location, message)
    return message.value
  }

  /** True if a launch may still be running, as far as the host program knows. */
  get isBusy(): boolean {
    return this.#queues.isBusy
  }

  enqueue(launch: Requested): void {
    this.#queues.add(launch, this.hostClock.copy())
    this.hostClock.tick(HOST)
  }

  /** The last launch of a stream on a rank, unless the host program knows that it has ended. */
  last(rank: number, stream: number): readonly Launch[] {
    return this.#queues.last(rank, stream)
  }

  /** Launches on a rank that may run concurrently with a launch whose direct predecessors are `after`. */
  beside(rank: number, after: readonly Launch[]): Launch[] {
    return this.#queues.beside(rank, after)
  }

  /**
   * Executes all enqueued launches, or only until the given launches have ended. Everything that the host does next is
   * ordered after the awaited launches and their predecessors.
   */
  run(until?: readonly Launch[]): void {
    const isOver = (): boolean => until?.every((launch) => launch.isOver) ?? false
    if (!this.#runEnabled(isOver) && this.#agents.length > 0) deadlock(this.#agents, this, this.#queues)
    this.#queues.noteEnded(until, this.hostClock)
    // A reference to a finished agent would keep the memory of the agent's program from being freed.
    if (this.#current?.done) this.#current = undefined
  }

  /**
   * Executes agents until `isOver` returns true or until no agent can continue. The result is true if `isOver` returned
   * true.
   */
  #runEnabled(isOver: () => boolean): boolean {
    for (;;) {
      this.#startLaunches()
      if (isOver()) return true
      const enabled = this.#enabled()
      if (enabled.length === 0) return false
      if (++this.steps > this.#stepLimit) endAtLimit(enabled, this.#stepLimit)
      const free = this.#scheduler.sharing && enabled.find((agent) => this.#runsAtOnce(agent))
      if (free) {
        this.#advance(free, true)
        continue
      }
      const current = this.#current?.done ? undefined : this.#current
      this.#current = this.#scheduler.next(enabled, current, this)
      this.#advance(this.#current, true)
    }
  }

  report(finding: Finding): void {
    const key = findingKey(finding)
    if (!this.findings.has(key)) this.findings.set(key, finding)
  }

  /** Ends the run because of a mistake of the agent after which its program cannot continue. */
  stop(agent: Agent, node: Node, kind: FindingKind, message: string): never {
    throw new StopRun({
      kind,
      kernel: agent.launch.kernel,
      message,
      parties: [{ who: describe(agent), what: `executes ${node.op}`, site: node.site }],
    })
  }

  /** A digest (hash) of the partial order of the run so far. Equal digests mean equal states of the run. */
  digest(): string {
    let a = 1
    let b = 2
    for (const { key, history, history2 } of this.#components) {
      a = (a + mix(key, history)) | 0
      b = (b + mix(history2, key)) | 0
    }
    for (const agent of this.#agents) {
      a = (a + mix(agent.record.key, agent.pc)) | 0
      b = (b + mix(agent.pc, agent.record.key)) | 0
    }
    return `${a},${b}`
  }

  // Execution of agents

  /** The agents that can continue. This function runs at every step, so it allocates no memory. */
  #enabled(): readonly Agent[] {
    const found = this.#scratch
    found.length = 0
    for (const agent of this.#agents) {
      const { ready } = agent.code.instructions[agent.pc]
      if (ready === undefined || ready(agent, this)) found.push(agent)
    }
    return found
  }

  /** True if, in a search, the agent can continue and its next step commutes with all other agents' steps. */
  #runsAtOnce(agent: Agent): boolean {
    if (!this.#scheduler.sharing) return false
    const { commutes, ready } = agent.code.instructions[agent.pc]
    return (commutes?.(agent, this) ?? false) && (ready?.(agent, this) ?? true)
  }

  /**
   * Executes the agent up to its next scheduling point. If `granted` is true, the function also executes the scheduling
   * point that is the agent's next instruction.
   */
  #advance(agent: Agent, granted: boolean): void {
    let go = granted
    const { instructions } = agent.code
    while (!agent.done) {
      const at = agent.pc
      const instruction = instructions[at]
      if (instruction.sync) {
        if (!go && !this.#runsAtOnce(agent)) return
        go = false
        agent.note(at)
      }
      agent.pc = at + 1
      if (++this.#instructions > this.#instructionLimit) this.#tooLong(agent, instruction.node)
      try {
        instruction.run(agent, this)
      } catch (error) {
        if (error instanceof ArithmeticError) this.stop(agent, instruction.node, 'error', error.message)
        throw error
      }
    }
  }

  /**
   * Ends the check of a kernel that executes too many instructions, for example in a loop with billions of iterations.
   */
  #tooLong(agent: Agent, node: Node): never {
    throw new KernelError(
      `${describe(agent)} of ${agent.launch.kernel} is still running after ${this.#instructionLimit / 1e6} million instructions of this schedule, which is too long to check: use smaller extents or fewer iterations in the scenario`,
      node.site,
    )
  }

  #component(rank: number, stream: number, program: number, role: string, slot: number): ComponentRecord {
    const key = `${rank}/${stream}/${program}/${role}/${slot}`
    const known = this.#componentOf.get(key)
    if (known !== undefined) return this.#components[known]
    const record: ComponentRecord = {
      component: this.#components.length,
      key: [...key].reduce((hash, letter) => mix(hash, letter.charCodeAt(0)), 7),
      rank,
      stream,
      program,
      role,
      members: undefined,
      team: undefined,
      time: 0,
      history: 0,
      history2: 0,
      messages: 0,
    }
    this.#componentOf.set(key, record.component)
    this.#components.push(record)
    return record
  }

  #startLaunches(): void {
    // A launch without programs, or whose programs need no other agent, ends at once, so that the launches after it may
    // start.
    while (this.#queues.startReady(this.#startLaunch));
  }

  readonly #startLaunch = (launch: Launch): void => {
    for (const other of launch.after) launch.end.join(other.end)
    launch.end.join(launch.hostClock)
    for (const { flags } of flagArguments(launch)) {
      const [signalled, waited] = [flags.signalled[launch.rank], flags.waited[launch.rank]]
      launch.epochs.set(flags, { signal: signalled + 1, wait: waited + 1 })
    }
    const start = launch.end.copy()
    launch.start = start
    for (let program = 0; program < launch.grid; program++) this.#startProgram(launch, program, start)
    if (launch.grid === 0) this.#endLaunch(launch)
  }

  #startProgram(launch: Launch, program: number, start: Clock): void {
    const registers = new Array<unknown>(launch.code.registers)
    for (const { register, name } of launch.code.params) registers[register] = launch.args[name]
    const instance: ProgramInstance = {
      ...{ launch, program, roles: [], released: new Set() },
      ...{ main: undefined, started: 0, tiles: [], barriers: [] },
    }
    launch.programs.push(instance)
    const record = this.#component(launch.rank, launch.stream, program, '', 0)
    record.team = undefined
    record.members = launch.members
    const agent = new Agent(record, instance, registers, start.copy(), 0)
    instance.main = agent
    instance.started = agent.time
    this.#agents.push(agent)
    this.#advance(agent, false)
  }

  endProgram(agent: Agent): void {
    completeAtEnd(agent)
    this.#retire(agent)
    const { launch } = agent
    launch.end.join(agent.clock)
    if (--launch.remaining === 0) this.#endLaunch(launch)
  }

  #endLaunch(launch: Launch): void {
    this.#queues.end(launch)
    launch.programs.length = 0
    expectArrived(this, launch)
    // The end of a launch on a rank advances the epochs of the flag sets that the kernel signals or waits for.
    const flagsOf = (names: ReadonlySet<string>): FlagView['flags'][] =>
      [...names].map((name) => (launch.args[name] as FlagView).flags)
    for (const flags of new Set(flagsOf(launch.code.signals))) flags.signalled[launch.rank]++
    for (const flags of new Set(flagsOf(launch.code.waits))) flags.waited[launch.rank]++
  }

  #retire(agent: Agent): void {
    agent.done = true
    agent.record.time = agent.time
    this.#agents.splice(this.#agents.indexOf(agent), 1)
  }

  // Roles of a program

  /**
   * Starts the roles of a program with the program's clock. When all roles have ended, their clocks are joined into the
   * program's clock.
   */
  startRoles(parent: Agent, names: readonly string[], starts: readonly number[]): void {
    const { instance } = parent
    const start = parent.snapshot()
    const roles = names.map((name, slot) => {
      const record = this.#component(parent.rank, parent.stream, parent.program, name, slot + 1)
      record.team = parent.team
      record.members = parent.members
      return new Agent(record, instance, parent.registers, start.copy(), starts[slot], parent)
    })
    parent.children = roles.length
    instance.roles = roles
    // The agent of the program does not run until its roles have ended.
    this.#agents.splice(this.#agents.indexOf(parent), 1, ...roles)
    for (const role of roles) this.#advance(role, false)
  }

  endRole(role: Agent): void {
    completeAtEnd(role)
    this.#retire(role)
    const parent = role.parent!
    if (--parent.children === 0) this.#agents.push(parent)
  }

  joinRoles(parent: Agent): void {
    for (const role of parent.instance.roles) parent.clock.join(role.clock)
    parent.instance.roles = []
    this.strong.noteClock(parent)
  }

  // Asynchronous copies in flight

  /**
   * Begins an asynchronous copy. An asynchronous copy is a separate component until its issuer knows that the copy is
   * complete.
   */
  beginCopy(agent: Agent, node: Node): Accessor {
    const { by } = node.attributes
    let engine = agent.engines.find(
      ({ record, by: own }) => own === by && agent.clock.get(record.component) >= record.time,
    )?.record
    if (!engine) {
      const role = `${agent.role || 'main'} (asynchronous copy)`
      engine = this.#component(agent.rank, agent.stream, agent.program, role, 1000 + agent.engines.length)
      engine.team = agent.team
      engine.members = agent.members
      agent.engines.push({ record: engine, by })
    }
    return { identity: engine, clock: agent.clock, time: ++engine.time, kernel: agent.launch.kernel, node }
  }
}
