/**
 * Promises of the author's that reject while nobody awaits them. Node ends the process for one; a check reports it and goes on.
 * Node tells of them when the event loop turns.
 */
import { RunOver } from '../targets/check/findings.ts'
import { describeError } from './errors.ts'

/** A promise rejected that nobody awaited; the message has the author's line. */
export class Stray extends Error {
  override readonly name = 'Stray'
}

export class Strays {
  #found: Stray | undefined
  readonly #others: readonly NodeJS.UnhandledRejectionListener[]

  readonly #note = (reason: unknown): void => {
    const why = reason instanceof RunOver ? 'the run it belongs to has ended' : describeError(reason)
    const place = reason instanceof RunOver ? placeOf(reason) : ''
    this.#found ??= new Stray(`${place}the scenario has made a promise that is not awaited: ${why}`)
  }

  /** Takes the place of those who listen already, until it is closed. */
  constructor() {
    this.#others = process.listeners('unhandledRejection')
    process.removeAllListeners('unhandledRejection')
    process.on('unhandledRejection', this.#note)
  }

  /** The first since it was last asked. */
  take(): Stray | undefined {
    const found = this.#found
    this.#found = undefined
    return found
  }

  /** As `take`, after all that has been rejected so far was told. */
  async takeAll(): Promise<Stray | undefined> {
    await new Promise((resolve) => setImmediate(resolve))
    return this.take()
  }

  close(): void {
    process.off('unhandledRejection', this.#note)
    for (const other of this.#others) process.on('unhandledRejection', other)
  }
}

function placeOf(error: Error): string {
  const described = describeError(error)
  const place = /^\S+:\d+:\d+: /.exec(described)
  return place?.[0] ?? ''
}
