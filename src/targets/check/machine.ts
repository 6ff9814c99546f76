/**
 * The checking machine executes one run: the programs of all ranks, their roles, and the launches queued on streams.
 * At every scheduling point it asks a scheduler which agent runs next. It stops when everything is done or when no
 * agent can continue.
 */
import { ArithmeticError } from '../../ir/dtype.ts'
import type { Node } from '../../ir/node.ts'
import { meetsRoles } from '../../ir/ops/index.ts'
import { KernelError } from '../../ir/site.ts'
import { rankNames } from '../../timeline/ranges.ts'
import type { Members } from '../../world/members.ts'
import type { Printed } from '../../world/prints.ts'
import {
  pendingOf,
  signalLines,
  Signallers,
  type FlagSignals,
  type Launched,
} from '../../world/signallers.ts'
import { describe, Agent, type ComponentRecord } from './agent.ts'
import { Memory } from './access.ts'
import type { Location, Message } from './atomics.ts'
import type { ArrivalBarrier } from './barrier.ts'
import { Clock, mix } from './clock.ts'
import type { Code } from './code.ts'
import { completeAtEnd, Engines } from './engines.ts'
import { FlagMemory, type FlagSet, type FlagView } from './flags.ts'
import {
  CutRun,
  findingKey,
  StopRun,
  type Cut,
  type Finding,
  type FindingKind,
  type Party,
} from './findings.ts'
import type { Accessor, Buffer } from './memory.ts'
import { Multicasts } from './multicast.ts'
import { withPredecessors } from './order.ts'
import { StrongMemory, type Choices } from './strong.ts'

export interface Scheduler extends Choices {
  /** Chooses one of the enabled agents. `current` ran last and may be among them. */
  next(enabled: readonly Agent[], current: Agent | undefined, machine: Machine): Agent
}

/** A kernel launched on one rank. */
export interface Launch {
  readonly kernel: string
  readonly code: Code
  /** The rank in the world, and the group of the launch, whose ranks the kernel sees. */
  readonly rank: number
  readonly members: Members
  readonly stream: number
  readonly grid: number
  /** The values of the kernel's parameters on this rank. */
  readonly args: Readonly<Record<string, unknown>>
  /**
   * Launches on this rank that end before this launch starts: the previous launch on its stream, and launches of
   * other streams that its stream waits for.
   */
  readonly after: readonly Launch[]
  /** The host's clock at the time of the launch. */
  readonly hostClock: Clock
  /** The counts of each `last`, by index. */
  readonly lasts: Map<Node, Map<number, Count>>
  /** The epochs of this launch's flag sets, read when the launch starts. */
  readonly epochs: Map<FlagSet, { readonly signal: number; readonly wait: number }>
  /** The programs that have started. */
  readonly programs: ProgramInstance[]
  remaining: number
  /** The clock at the start of the launch. It counts as fenced for asynchronous engines, too. */
  start: Clock
  end: Clock
  isOver: boolean
}

/** One program of a launch, with the state that its roles share. */
export interface ProgramInstance {
  readonly launch: Launch
  readonly program: number
  roles: Agent[]
  /** Roles that a barrier has released and that have not continued yet. */
  readonly released: Set<Agent>
  /** The agent outside roles. */
  main: Agent | undefined
  /** The time of that agent when the program started. */
  started: number
  /** The shared tiles and barriers of the program, in the order of their declarations. */
  readonly tiles: Buffer[]
  readonly barriers: ArrivalBarrier[][]
}

export interface MachineOptions {
  readonly ranks: number
  /** The number of scheduling points after which a run is cut. */
  readonly stepLimit?: number
  /** The number of instructions after which a run is too long to check. */
  readonly instructionLimit?: number
}

/** The arrivals at one index of a `last`. */
interface Count {
  /** The number of arrivals that end the count. */
  wanted: number
  /** How often the count was complete. */
  rounds: number
  arrived: Party[]
  readonly clock: Clock
}

/** The launches of a stream on a rank. */
interface Queue {
  readonly pending: Launch[]
  active: Launch | undefined
  last: Launch | undefined
}

const HOST = 0
/** The number of fruitless reads in sequence after which the host would poll forever. */
const mostFruitless = 1000

export class Machine {
  readonly ranks: number
  readonly memory: Memory
  readonly strong: StrongMemory
  readonly flags: FlagMemory
  readonly engines = new Engines()
  readonly multicasts = new Multicasts()
  readonly findings = new Map<string, Finding>()
  /** What programs printed since the host last waited. Undefined if nothing is printed. */
  prints: Printed[] | undefined
  /** The choices that this run could not vary. */
  readonly cuts = new Set<Cut>()
  readonly #scheduler: Scheduler
  readonly #components: ComponentRecord[] = []
  readonly #componentOf = new Map<string, number>()
  readonly #queues = new Map<string, Queue>()
  readonly #signallers = new Signallers()
  /** Launches that are still running as far as the host knows, whether or not they have ended. */
  #unknown: Launch[] = []
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

  // The host

  /** The accessor record of the host. */
  get host(): Accessor {
    return {
      identity: this.#components[HOST],
      clock: this.hostClock,
      time: this.hostClock.get(HOST),
      kernel: 'the host program',
      node: undefined,
    }
  }

  /** The host writes a word that running kernels may poll. */
  writeWord(buffer: Buffer, i: number, value: number): void {
    this.strong.storeFromHost(this.host, this.#components[HOST], buffer, i, value)
    this.hostClock.tick(HOST)
    this.#fruitless = 0
  }

  /** The store that the host read last, of each word that it polls. */
  readonly #polled = new Map<Location, Message>()
  /** How often in sequence the host has read something while nothing else happened. */
  #fruitless = 0

  /**
   * The host looks at memory without waiting: everything that can run does, and then the host may read any store that
   * the memory model permits, so that it also sees what it would have seen before.
   */
  look(what: string): void {
    const { steps } = this
    this.#runEnabled(() => false)
    this.#fruitless = this.steps === steps ? this.#fruitless + 1 : 0
    if (this.#fruitless < mostFruitless) return
    if (this.#agents.length > 0) this.#deadlock()
    throw new StopRun({
      kind: 'livelock',
      kernel: 'the host program',
      message: `the host reads ${what} again and again, and nothing can change it any more`,
      parties: [],
    })
  }

  /** The host reads a word that running kernels may store. */
  readWord(buffer: Buffer, i: number): number {
    const record = this.#components[HOST]
    const { location, message } = this.strong.loadIntoHost(this.host, record, buffer, i, this.#polled)
    if (this.#polled.get(location) !== message) this.#fruitless = 0
    this.#polled.set(location, message)
    return message.value
  }

  /** True if a launch may still be running, as far as the host knows. */
  get isBusy(): boolean {
    return this.#unknown.length > 0
  }

  enqueue(
    launch: Omit<
      Launch,
      'hostClock' | 'lasts' | 'epochs' | 'programs' | 'remaining' | 'start' | 'end' | 'isOver'
    >,
  ): void {
    const hostClock = this.hostClock.copy()
    this.hostClock.tick(HOST)
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

  /** The last launch of a stream on a rank, unless the host knows that it has ended. */
  last(rank: number, stream: number): readonly Launch[] {
    const launch = this.#queues.get(`${rank}/${stream}`)?.last
    return launch ? [launch] : []
  }

  /** Launches on a rank that may run concurrently with a launch that follows `after`. */
  beside(rank: number, after: readonly Launch[]): Launch[] {
    const others = this.#unknown.filter((launch) => launch.rank === rank)
    if (others.length === 0) return others
    const before = withPredecessors(after)
    return others.filter((launch) => !before.has(launch))
  }

  /**
   * Runs everything that is enqueued, or until the given launches have ended. The host is then ordered after these
   * launches and their predecessors.
   */
  run(until?: readonly Launch[]): void {
    const isOver = (): boolean => until?.every((launch) => launch.isOver) ?? false
    if (!this.#runEnabled(isOver) && this.#agents.length > 0) this.#deadlock()
    const known = until && withPredecessors(until)
    for (const launch of known ?? this.#unknown) this.hostClock.join(launch.end)
    this.#unknown = known ? this.#unknown.filter((launch) => !known.has(launch)) : []
    // References to finished agents and launches are dropped. Otherwise a long-lived world would keep all memory of
    // its past programs.
    if (this.#current?.done) this.#current = undefined
    for (const queue of this.#queues.values())
      if (queue.last && !this.#unknown.includes(queue.last)) queue.last = undefined
  }

  /** Runs until `isOver` or until no agent can continue. Returns true in the first case. */
  #runEnabled(isOver: () => boolean): boolean {
    for (;;) {
      this.#startLaunches()
      if (isOver()) return true
      const enabled = this.#enabled()
      if (enabled.length === 0) return false
      if (++this.steps > this.#stepLimit) this.#cut(enabled)
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

  /** Ends the run because of a mistake after which the program cannot continue. */
  stop(agent: Agent, node: Node, kind: FindingKind, message: string): never {
    throw new StopRun({
      kind,
      kernel: agent.launch.kernel,
      message,
      parties: [{ who: describe(agent), what: `executes ${node.op}`, site: node.site }],
    })
  }

  /** A digest of the partial order so far. Equal digests mean equal states. */
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

  // Running agents

  /** The agents that can continue. This function runs at every step, so it allocates nothing. */
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
   * Executes the agent up to its next scheduling point. With `granted`, it executes the scheduling point at which the
   * agent stands as well.
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
   * Ends the check of a kernel that runs for too many instructions, for example a loop with billions of iterations.
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
    // A launch that needs no other agent ends at once, and other launches may have waited for it.
    while (this.#startQueues());
  }

  /** Starts launches whose predecessors have ended. Returns true if a started launch ended at once. */
  #startQueues(): boolean {
    let ended = false
    for (const queue of this.#queues.values()) {
      while (!queue.active && queue.pending.length > 0) {
        if (queue.pending[0].after.some((launch) => !launch.isOver)) break
        const launch = queue.pending.shift()!
        queue.active = launch
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
        ended ||= launch.isOver
      }
    }
    return ended
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
    const queue = this.#queues.get(`${launch.rank}/${launch.stream}`)!
    queue.active = undefined
    launch.isOver = true
    launch.programs.length = 0
    this.#expectArrived(launch)
    // The last program of the rank advances the epochs of the flags that the kernel used.
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

  // Roles

  /** Starts the roles of a program with the program's clock. Their clocks are joined when all roles have ended. */
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
    // The parent agent does not run until its roles have ended.
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

  /** The roles that a program-wide barrier is still waiting for. */
  missing(agent: Agent): string[] {
    return agent.instance.roles
      .filter((role) => role !== agent && !this.#isAtBarrier(role))
      .map((role) => (role.done ? `${role.role}, which has ended` : role.role))
  }

  #isAtBarrier(role: Agent): boolean {
    if (role.done) return false
    const at = role.code.instructions.at(role.pc)
    return at !== undefined && meetsRoles(at.node)
  }

  canMeet(agent: Agent): boolean {
    if (!agent.parent || agent.instance.released.has(agent)) return true
    return agent.instance.released.size === 0 && agent.instance.roles.every((role) => this.#isAtBarrier(role))
  }

  /**
   * The first agent at the barrier releases all roles. Each role is then ordered after everything that any role did
   * before the barrier.
   */
  meet(agent: Agent): void {
    const { instance } = agent
    if (!agent.parent || instance.released.delete(agent)) return
    const all = new Clock()
    for (const role of instance.roles) role.release(all)
    for (const role of instance.roles) {
      role.clock.join(all)
      this.strong.noteClock(role)
      if (role !== agent) instance.released.add(role)
    }
  }

  // Copies in flight

  /**
   * Begins an asynchronous copy. A copy in flight is a separate component until its issuer knows that the copy is
   * complete.
   */
  beginCopy(agent: Agent, node: Node): Accessor {
    let engine = agent.engines.find((one) => agent.clock.get(one.component) >= one.time)
    if (!engine) {
      const role = `${agent.role || 'main'} (asynchronous copy)`
      engine = this.#component(agent.rank, agent.stream, agent.program, role, 1000 + agent.engines.length)
      engine.team = agent.team
      engine.members = agent.members
      agent.engines.push(engine)
    }
    return { identity: engine, clock: agent.clock, time: ++engine.time, kernel: agent.launch.kernel, node }
  }

  // The last arrival

  /** Counts an arrival at an index of a `last`. Returns true for the last of `arrivals`, which starts a new count. */
  arriveLast(agent: Agent, node: Node, arrivals: number, index: number): boolean {
    const of = (node.attributes.of as number | undefined) ?? 1
    if (index < 0 || index >= of)
      this.stop(agent, node, 'out-of-bounds', `last counts at index ${index}, but has ${of} counters (of)`)
    if (arrivals < 1)
      this.stop(agent, node, 'error', `last waits for ${arrivals} arrivals: its block would never run`)
    const { lasts } = agent.launch
    let counts = lasts.get(node)
    if (!counts) lasts.set(node, (counts = new Map()))
    let gate = counts.get(index)
    if (!gate) counts.set(index, (gate = { wanted: arrivals, rounds: 0, arrived: [], clock: new Clock() }))
    agent.clock.join(gate.clock)
    agent.release(gate.clock)
    agent.noteEffect()
    this.strong.noteClock(agent)
    const arrival = {
      who: describe(agent),
      what: `arrives${node.attributes.of === undefined ? '' : ` at index ${index}`} for ${arrivals} arrivals`,
      site: node.site,
    }
    gate.arrived.push(arrival)
    if (gate.arrived.length === 1) gate.wanted = arrivals
    else if (gate.wanted !== arrivals)
      this.report({
        kind: 'lost-signal',
        kernel: agent.launch.kernel,
        message: `last counts to ${gate.wanted} for some programs and to ${arrivals} for others: all must give the same number of arrivals`,
        parties: [gate.arrived[0], arrival],
      })
    if (gate.arrived.length < gate.wanted) return false
    gate.arrived = []
    gate.rounds++
    return true
  }

  /** Reports counts of `last` that are incomplete at the end of a launch. The next launch would continue them. */
  #expectArrived({ kernel, rank, lasts }: Launch): void {
    const counts = [...lasts].flatMap(([node, all]) =>
      [...all].map(([index, count]) => ({ node, index, count })),
    )
    for (const { node, index, count } of counts) {
      const { wanted, rounds, arrived } = count
      if (arrived.length === 0) continue
      const at = node.attributes.of === undefined ? '' : ` at index ${index}`
      const before =
        rounds === 0 ? '' : `, after the block has run ${rounds === 1 ? 'once' : `${rounds} times`}`
      this.report({
        kind: 'lost-signal',
        kernel,
        message: `last has ${arrived.length} of ${wanted} arrivals${at} when the launch ends on rank ${rank}${before}: ${wanted - arrived.length} ${wanted - arrived.length === 1 ? 'is' : 'are'} missing, or ${arrived.length} too many`,
        parties: arrived.slice(0, 4),
      })
    }
  }

  // Loops that may not end

  canIterate(agent: Agent, loop: number, state: readonly number[]): boolean {
    const previous = agent.spins.get(loop)
    if (!previous || previous.spin.effects || !sameState(agent, previous.state, state)) return true
    for (const [location, message] of previous.spin.reads) if (location.hasNews(message)) return true
    return false
  }

  iterate(agent: Agent, loop: number, state: readonly number[]): void {
    const previous = agent.spins.get(loop)
    agent.stale.clear()
    if (previous && !previous.spin.effects && sameState(agent, previous.state, state))
      for (const [location, message] of previous.spin.reads) agent.stale.set(location, message)
    agent.spins.set(loop, {
      state: state.map((register) => agent.registers[register]),
      spin: { effects: false, reads: new Map() },
    })
  }

  // When nothing moves

  #deadlock(): never {
    const blocked = this.#agents
    const parties = blocked.slice(0, 12).map((agent) => {
      const instruction = agent.code.instructions[agent.pc]
      return {
        who: describe(agent),
        what: instruction.waiting?.(agent, this) ?? 'waits',
        site: instruction.node.site,
      }
    })
    const more = blocked.length > parties.length ? `, ${blocked.length - parties.length} more not shown` : ''
    const signals = this.#couldSignal(blocked)
    const unsignalled = signals.filter((one) => one.signals.length === 0).flatMap(signalLines)
    const signallers = signals.flatMap(({ flag, signals: found }) =>
      found.map(({ kernel, ranks, what, site }) => ({
        who: rankNames(ranks),
        what: `could signal ${flag}: ${kernel} ${what}`,
        site,
      })),
    )
    throw new StopRun({
      kind: 'deadlock',
      kernel: blocked[0].launch.kernel,
      message: `${blocked.length} ${blocked.length === 1 ? 'agent waits' : 'agents wait'} ${[`for events that cannot occur any more${more}`, ...unsignalled].join('; ')}`,
      parties: [...parties, ...signallers],
    })
  }

  /** Lists the signals that could release the flags that the blocked agents wait for. */
  #couldSignal(blocked: readonly Agent[]): FlagSignals[] {
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

  /**
   * Ends a run that reached the limit of scheduling points. If all enabled agents are in unbounded loops, the run is
   * a livelock. Bounded loops may just be long, so they give no verdict.
   */
  #cut(enabled: readonly Agent[]): never {
    if (!enabled.every((agent) => agent.spins.size > 0)) throw new CutRun()
    throw new StopRun({
      kind: 'livelock',
      kernel: enabled[0].launch.kernel,
      message: `all programs that can continue are still in unbounded loops after ${this.#stepLimit} scheduling points`,
      parties: enabled
        .slice(0, 4)
        .map((agent) => ({ who: describe(agent), what: 'is still looping', site: agent.site })),
    })
  }
}

function sameState(agent: Agent, before: readonly unknown[], registers: readonly number[]): boolean {
  return registers.every((register, i) => {
    const now = agent.registers[register]
    const then = before[i]
    if (typeof now === 'number') return Object.is(now, then)
    return (now as Float64Array).every((x, j) => Object.is(x, (then as Float64Array)[j]))
  })
}

const placeOf = ({ kernel, rank, stream }: Launch): Launched => ({ kernel, rank, stream })

const isFlags = (value: unknown): value is FlagView =>
  typeof value === 'object' && value !== null && 'flags' in value

/** The flag sets among the arguments of a kernel, by parameter. */
const flagSets = (args: Launch['args']): Record<string, FlagSet> =>
  Object.fromEntries(
    Object.entries(args).flatMap(([name, value]) => (isFlags(value) ? [[name, value.flags]] : [])),
  )

function flagArguments(launch: Launch): FlagView[] {
  return Object.values(launch.args).filter(isFlags)
}
