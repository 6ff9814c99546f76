/**
 * Collects uncaught errors of the author's code: rejected promises that nothing awaits, and errors thrown in a timer.
 * By default, Node would end the process at an uncaught error. A check therefore reports an uncaught error with its
 * scenario and continues.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { RunOver } from '../targets/check/findings.ts'
import { describeError } from './errors.ts'

/**
 * An error that describes an uncaught error of the author's code. The message contains the author's source line.
 */
export class Stray extends Error {
  override readonly name = 'Stray'
}

const events = ['unhandledRejection', 'uncaughtException'] as const

export class Strays<Owner extends object> {
  readonly #owner = new AsyncLocalStorage<Owner>()
  readonly #found = new Map<Owner | undefined, Stray>()
  readonly #others = events.map((event) => process.listeners(event as 'uncaughtException'))
  readonly #notes: Readonly<Record<(typeof events)[number], (reason: unknown) => void>> = {
    unhandledRejection: (reason) => this.#note(reason, 'makes a promise that is not awaited'),
    uncaughtException: (reason) =>
      this.#note(reason, 'throws an error outside of any call that could catch it'),
  }

  /** Replaces all existing listeners for uncaught errors until `close` is called. */
  constructor() {
    for (const event of events) {
      process.removeAllListeners(event)
      process.on(event, this.#notes[event])
    }
  }

  #note(reason: unknown, what: string): void {
    const described = describeError(reason)
    const [place = '', rest = described] = /^(\S+:\d+:\d+: )?(.*)$/s.exec(described)?.slice(1) ?? []
    const why = reason instanceof RunOver ? 'the run of the scenario has already ended' : rest
    const owner = this.#owner.getStore()
    if (!this.#found.has(owner)) this.#found.set(owner, new Stray(`${place}the scenario ${what}: ${why}`))
  }

  /**
   * Calls `act` and assigns the uncaught errors of `act` to `owner`, including errors of asynchronous work that `act`
   * starts and that continues after `act` has returned.
   */
  within<T>(owner: Owner, act: () => T): T {
    return this.#owner.run(owner, act)
  }

  /** Returns the first uncaught error of the owner since the last call, or an uncaught error without a known owner. */
  take(owner: Owner): Stray | undefined {
    const found = this.#found.get(owner) ?? this.#found.get(undefined)
    this.#found.delete(owner)
    this.#found.delete(undefined)
    return found
  }

  /**
   * Returns the uncaught errors that no earlier call has returned. The function first waits for the event loop, because
   * Node reports uncaught errors only in the event loop.
   */
  async rest(): Promise<readonly (readonly [Owner | undefined, Stray])[]> {
    await turn()
    return [...this.#found]
  }

  close(): void {
    events.forEach((event, i) => {
      process.off(event, this.#notes[event])
      for (const other of this.#others[i]) process.on(event, other)
    })
  }
}

export const turn = (): Promise<void> => new Promise((resolve) => setImmediate(resolve))

/**
 * Calls `act` and waits for its promise. An error is thrown if the process has no work left, because `act` then awaits
 * a promise that no code resolves. Without the check for remaining work, Node would end silently.
 */
export async function unlessIdle<T>(act: () => Promise<T>): Promise<T> {
  let stop: (() => void) | undefined
  const idle = new Promise<never>((_, reject) => {
    stop = () => reject(new Stray('the scenario awaits a promise that is never resolved'))
    process.once('beforeExit', stop)
  })
  try {
    return await Promise.race([act(), idle])
  } finally {
    process.off('beforeExit', stop!)
  }
}
