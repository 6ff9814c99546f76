/**
 * Promises that a world hands out, and whether somebody awaits them. One that nobody does would be a mistake on every other
 * target: there the host goes on before the work is done.
 */
import { Site } from '../../ir/site.ts'
import { WorldError } from '../../world/world.ts'

/** Says when somebody waits for it. A class of its own, since `await` asks only these for their `then`. */
class Tracked<T> extends Promise<T> {
  static override get [Symbol.species](): PromiseConstructor {
    return Promise
  }
  onAwait: (() => void) | undefined

  override then<A = T, B = never>(
    fulfilled?: ((value: T) => A | PromiseLike<A>) | null,
    rejected?: ((reason: unknown) => B | PromiseLike<B>) | null,
  ): Promise<A | B> {
    this.onAwait?.()
    return super.then(fulfilled, rejected)
  }
}

export class Promises {
  readonly #isWatched: boolean
  readonly #pending = new Map<object, { readonly what: string; readonly site: Site }>()

  /** Watching takes time: of many runs of one scenario the first shows what the others would. */
  constructor(isWatched: boolean) {
    this.#isWatched = isWatched
  }

  track<T>(what: string, promise: Promise<T>): Promise<T> {
    if (!this.#isWatched) {
      promise.catch(() => undefined)
      return promise
    }
    const tracked = new Tracked<T>((resolve, reject) => void promise.then(resolve, reject))
    // Where nobody awaits it, its rejection is not news: the world remembers what ended the run.
    tracked.catch(() => undefined)
    this.#pending.set(tracked, { what, site: Site.here() })
    tracked.onAwait = () => this.#pending.delete(tracked)
    return tracked
  }

  expectAwaited(): void {
    const [first] = this.#pending.values()
    if (!first) return
    throw new WorldError(
      `${first.site}: ${first.what}() returns a promise that is not awaited: write await ${first.what}(…)`,
    )
  }
}
