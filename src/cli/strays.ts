/**
 * Errors of the author's that reach nobody: promises that reject while nobody awaits them, and what is thrown from a timer. Node
 * ends the process for one; a check reports it with the scenario that it belongs to, and goes on.
 */
import { AsyncLocalStorage } from 'node:async_hooks'
import { RunOver } from '../targets/check/findings.ts'
import { describeError } from './errors.ts'

/** An error that reached nobody; the message has the author's line. */
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
    uncaughtException: (reason) => this.#note(reason, 'throws where nobody can catch it'),
  }

  /** Takes the place of those who listen already, until it is closed. */
  constructor() {
    for (const event of events) {
      process.removeAllListeners(event)
      process.on(event, this.#notes[event])
    }
  }

  #note(reason: unknown, what: string): void {
    const described = describeError(reason)
    const [place = '', rest = described] = /^(\S+:\d+:\d+: )?(.*)$/s.exec(described)?.slice(1) ?? []
    const why = reason instanceof RunOver ? 'the run it belongs to has ended' : rest
    const owner = this.#owner.getStore()
    if (!this.#found.has(owner)) this.#found.set(owner, new Stray(`${place}the scenario ${what}: ${why}`))
  }

  /** What `act` starts, at once or later, belongs to `owner`. */
  within<T>(owner: Owner, act: () => T): T {
    return this.#owner.run(owner, act)
  }

  /** The first of an owner's since it was last asked, or of nobody's. */
  take(owner: Owner): Stray | undefined {
    const found = this.#found.get(owner) ?? this.#found.get(undefined)
    this.#found.delete(owner)
    this.#found.delete(undefined)
    return found
  }

  /** Those that were not taken. Node tells of them when the event loop turns. */
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
 * Ends with `act`, or with an error where the process has nothing left to do: then `act` awaits a promise that nothing resolves,
 * and Node would end without a word.
 */
export async function unlessIdle<T>(act: () => Promise<T>): Promise<T> {
  let stop: (() => void) | undefined
  const idle = new Promise<never>((_, reject) => {
    stop = () => reject(new Stray('the scenario awaits a promise that nothing resolves'))
    process.once('beforeExit', stop)
  })
  try {
    return await Promise.race([act(), idle])
  } finally {
    process.off('beforeExit', stop!)
  }
}
