/**
 * Stops a world and lets it resume. A world is stopped by the watchdog, by a fault in a kernel, by a worker thread that
 * died, or by an interrupt. The state of a stopped world's programs becomes one `WorldStopped` error, which every call
 * throws until the world is reset. If no call has thrown the error before a stopped world is closed, `close` throws it.
 * Each target defines how it makes running programs stop.
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

  /** True if the world is stopping or has stopped. */
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
      throw new WorldStopped(
        `${this.#reason}; the ranks of the world are stopping: synchronize throws an error that says what each rank was doing`,
      )
  }

  /** The error to throw once all ranks have stopped. */
  async throwable(): Promise<WorldStopped> {
    const stopped = await this.#stopping!
    this.#told = true
    return stopped
  }

  /**
   * Stops all ranks with `end` and returns the error that describes the stop. Every call that stops the world returns
   * the same error object.
   */
  stop(reason: string, end: () => Promise<WorldStopped>): Promise<WorldStopped> {
    if (!this.#stopping) {
      this.#reason = reason
      this.#stopping = end().then((stopped) => (this.#stopped ??= stopped))
    }
    return this.#stopping
  }

  /**
   * Waits until no program runs any more, marks the error as reported to the caller, and returns the error to throw.
   */
  failed(reason: string): WorldStopped {
    this.#stopped ??= new WorldStopped(reason)
    this.#stopping ??= Promise.resolve(this.#stopped)
    this.#told = true
    return this.#stopped
  }

  /** Resumes the world after a stop. No launch may be pending when the world resumes. */
  resume(): void {
    this.#stopping = this.#stopped = undefined
    this.#told = false
  }

  /**
   * Waits for all launches by calling `reach`, and then frees all resources by calling `release`. Throws an error of an
   * earlier stop that no call has thrown yet.
   */
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

// The reason for which a world stops.

export const nothingEnded = (milliseconds: number): string =>
  `no launch has ended for ${milliseconds} ms while launches were pending`

export const noRoom = (milliseconds: number, pending: number): string =>
  `no launch has ended for ${milliseconds} ms while ${pending} were pending`

// The state of each program when the world stopped.

/** The report that all running programs wait, and that the world will stop if they continue to wait. */
export interface Stall {
  /**
   * The report of a stall as one line: which programs wait, at which line and for which flag, who could signal it, and
   * when the world will stop.
   */
  readonly message: string
  /** How long no program has made progress, and when the world will stop, in milliseconds. */
  readonly waited: number
  readonly timeout: number
  readonly workers: readonly StoppedWorker[]
  readonly signals: readonly FlagSignals[]
}

/** Describes a stall: which programs wait for flags. The result is undefined if no program waits for a flag. */
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

/** The default handling of a stall, if the world was opened without `onStall`. */
export const reportStall = ({ message }: Stall): void => console.warn(`arke: ${message}`)

type AwaitedFlag = NonNullable<StoppedWorker['flag']>
type Doing = Pick<StoppedWorker, 'what' | 'flag'>

export const doing = {
  /** The argument `rank` is the rank of the flag as the kernel numbers it. */
  waitForFlag: ({ rank, ...flag }: AwaitedFlag, members?: Members): Doing => ({
    what: `waits for ${flag.name} on ${rankName(inWorld(members, rank), members)}: it is ${flag.value}, ${flag.wanted} is wanted`,
    flag: { ...flag, rank: inWorld(members, rank) },
  }),
  loop: { what: 'is in a loop that has not ended' },
  barrier: { what: 'waits at a barrier of its program' },
  roles: { what: 'waits for the other roles of its program' },
  computing: { what: 'was computing' },
} as const satisfies Record<string, Doing | ((flag: AwaitedFlag, members?: Members) => Doing)>
