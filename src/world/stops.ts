/**
 * How a world stops and goes on. Somebody stops it: the watchdog, a fault, a worker that died, an interrupt. What its programs were
 * doing becomes a `WorldStopped`, the same one for everybody, which every call throws until the world is reset; `close` throws it if
 * nobody was told yet. How programs are made to stop is the target's.
 */
import { inWorld, rankName, type Members } from './members.ts'
import { signalLines, type FlagSignals } from './signallers.ts'
import { WorldError, WorldStopped, type StoppedWorker } from './world.ts'

export class Stops {
  #reason = ''
  #stopping: Promise<WorldStopped> | undefined
  #stopped: WorldStopped | undefined
  #told = false
  #closed = false

  /** Whether it stops or has stopped. */
  get isStopping(): boolean {
    return this.#stopping !== undefined
  }

  get isClosed(): boolean {
    return this.#closed
  }

  expectRunning(): void {
    if (this.#closed) throw new WorldError('the world is closed')
    if (this.#stopped) {
      this.#told = true
      throw this.#stopped
    }
    if (this.#stopping)
      throw new WorldStopped(`${this.#reason}; its ranks are stopping: synchronize says what each was doing`)
  }

  /** What to throw, once everybody has stopped. */
  async throwable(): Promise<WorldStopped> {
    const stopped = await this.#stopping!
    this.#told = true
    return stopped
  }

  /** Stop all ranks, as `end` does; gives the error that tells about it, the same one however often it is called. */
  stop(reason: string, end: () => Promise<WorldStopped>): Promise<WorldStopped> {
    if (!this.#stopping) {
      this.#reason = reason
      this.#stopping = end().then((stopped) => (this.#stopped ??= stopped))
    }
    return this.#stopping
  }

  /** Nothing runs any more, and whoever called is told so; gives what to throw. */
  failed(reason: string): WorldStopped {
    this.#stopped ??= new WorldStopped(reason)
    this.#stopping ??= Promise.resolve(this.#stopped)
    this.#told = true
    return this.#stopped
  }

  /** Go on. Nothing of what was launched may be left. */
  resume(): void {
    this.#stopping = this.#stopped = undefined
    this.#told = false
  }

  /** Waits for what was launched by `reach`, then gives everything back by `release`. Throws what nobody was told yet. */
  async close(reach: () => Promise<void>, release: () => void | Promise<void>): Promise<void> {
    if (this.#closed) return
    const told = this.#told
    let failure: WorldStopped | undefined
    try {
      await reach()
    } catch (error) {
      if (!(error instanceof WorldStopped)) throw error
      failure = error
    }
    if (this.#closed) return
    this.#closed = true
    await release()
    if (failure && !told) throw failure
  }
}

// Why a world stops

export const nothingEnded = (milliseconds: number): string =>
  `nothing has ended for ${milliseconds} ms while launches were pending`

export const noRoom = (milliseconds: number, pending: number): string =>
  `no launch has ended for ${milliseconds} ms while ${pending} were pending`

// What its programs were doing

/** All programs that run wait, and the world will stop if that goes on. */
export interface Stall {
  /** One line: who waits where and for what, who could signal, when the world stops. */
  readonly message: string
  /** How long nothing has moved, and when the world stops, in milliseconds. */
  readonly waited: number
  readonly timeout: number
  readonly workers: readonly StoppedWorker[]
  readonly signals: readonly FlagSignals[]
}

/** Undefined if no program waits for a flag. */
export function stallOf(
  waited: number,
  timeout: number,
  workers: readonly StoppedWorker[],
  signals: readonly FlagSignals[],
): Stall | undefined {
  const first = workers.find(({ flag }) => flag)
  if (!first?.flag) return undefined
  const { rank, members, program, kernel, site, flag } = first
  const others = workers.length > 1 ? `, and ${workers.length - 1} more wait` : ''
  const message = [
    `${rankName(rank, members)}, program ${program} of ${kernel} has waited ${seconds(waited)} at ${site ?? '(unknown line)'} for ${flag.name} on ${rankName(flag.rank, members)}${others}`,
    ...signals.slice(0, 1).flatMap(signalLines),
    `the world stops after ${seconds(timeout)} without progress (timeout)`,
  ].join('; ')
  return { message, waited, timeout, workers, signals }
}

const seconds = (milliseconds: number): string => `${Number((milliseconds / 1000).toPrecision(1))} s`

/** What a world does with a stall, unless it was opened with another `onStall`. */
export const reportStall = ({ message }: Stall): void => console.warn(`arke: ${message}`)

type AwaitedFlag = NonNullable<StoppedWorker['flag']>
type Doing = Pick<StoppedWorker, 'what' | 'flag'>

export const doing = {
  /** `rank` is the rank of the flag as the kernel numbers it. */
  waitForFlag: ({ rank, ...flag }: AwaitedFlag, members?: Members): Doing => ({
    what: `waits for ${flag.name} on ${rankName(inWorld(members, rank), members)}: it is ${flag.value}, ${flag.wanted} is wanted`,
    flag: { ...flag, rank: inWorld(members, rank) },
  }),
  loop: { what: 'is in a loop that has not ended' },
  barrier: { what: 'waits at a barrier of its program' },
  roles: { what: 'waits for the other roles of its program' },
  computing: { what: 'was computing' },
} as const satisfies Record<string, Doing | ((flag: AwaitedFlag, members?: Members) => Doing)>
