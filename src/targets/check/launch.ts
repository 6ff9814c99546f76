/** The state of a launch on one rank and of its programs while the checking machine executes them. */
import type { Node } from '../../ir/node.ts'
import type { Members } from '../../world/members.ts'
import type { Agent } from './agent.ts'
import type { ArrivalBarrier } from './barrier.ts'
import type { Clock } from './clock.ts'
import type { Code } from './code.ts'
import type { Party } from './findings.ts'
import type { FlagSet, FlagView } from './flags.ts'
import type { Buffer } from './memory.ts'

/** A kernel launched on one rank. */
export interface Launch {
  readonly kernel: string
  readonly code: Code
  /** The rank in the world, and the group on which the kernel was launched, whose ranks the kernel sees. */
  readonly rank: number
  readonly members: Members
  readonly stream: number
  readonly grid: number
  /** The values of the kernel's parameters on this rank. */
  readonly args: Readonly<Record<string, unknown>>
  /**
   * Launches on this rank that must end before this launch starts: the previous launch on its stream, and launches of
   * other streams that its stream waits for.
   */
  readonly after: readonly Launch[]
  /** The host's clock at the time of the launch. */
  readonly hostClock: Clock
  /** The counts of arrivals at each `last` op, by index. */
  readonly lasts: Map<Node, Map<number, Count>>
  /** The epochs of this launch's flag sets, read when the launch starts. */
  readonly epochs: Map<FlagSet, { readonly signal: number; readonly wait: number }>
  /** The programs of the launch that have started. */
  readonly programs: ProgramInstance[]
  remaining: number
  /**
   * The clock at the start of the launch. For asynchronous engines, the start of a launch counts as a `fence.async`.
   */
  start: Clock
  end: Clock
  isOver: boolean
}

/** One program of a launch, with the state that its roles share in the checker. */
export interface ProgramInstance {
  readonly launch: Launch
  readonly program: number
  roles: Agent[]
  /** Roles that a barrier has released and that have not continued yet. */
  readonly released: Set<Agent>
  /** The agent that executes the program outside its roles. */
  main: Agent | undefined
  /** The logical time of the agent `main` when the program started. */
  started: number
  /** The shared tiles and barriers of the program, in the order of their declarations. */
  readonly tiles: Buffer[]
  readonly barriers: ArrivalBarrier[][]
}

/** The count of arrivals at one index of a `last` op. */
export interface Count {
  /** The number of arrivals that complete the count. */
  wanted: number
  /** How often the count of arrivals has reached `wanted` and started again from 0. */
  rounds: number
  arrived: Party[]
  readonly clock: Clock
}

const isFlags = (value: unknown): value is FlagView =>
  typeof value === 'object' && value !== null && 'flags' in value

/** The flag sets among the arguments of a kernel, by parameter. */
export const flagSets = (args: Launch['args']): Record<string, FlagSet> =>
  Object.fromEntries(
    Object.entries(args).flatMap(([name, value]) => (isFlags(value) ? [[name, value.flags]] : [])),
  )

export function flagArguments(launch: Launch): FlagView[] {
  return Object.values(launch.args).filter(isFlags)
}
