/**
 * How a world stops and goes on. Somebody stops it: the watchdog, a fault, a worker that died, an interrupt. What its programs were
 * doing becomes a `WorldStopped`, the same one for everybody, which every call throws until the world is reset; `close` throws it if
 * nobody was told yet. How programs are made to stop is the target's.
 */
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

type Doing = Pick<StoppedWorker, 'what' | 'flag'>

export const doing = {
  waitForFlag: (flag: NonNullable<StoppedWorker['flag']>): Doing => ({
    what: `waits for ${flag.name} on rank ${flag.rank}: it is ${flag.value}, ${flag.wanted} is wanted`,
    flag,
  }),
  loop: { what: 'is in a loop that has not ended' },
  barrier: { what: 'waits at a barrier of its program' },
  roles: { what: 'waits for the other roles of its program' },
  computing: { what: 'was computing' },
} as const satisfies Record<string, Doing | ((flag: NonNullable<StoppedWorker['flag']>) => Doing)>
