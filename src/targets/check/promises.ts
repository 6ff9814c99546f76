/**
 * Tracks the promises that a world returns and whether the host program awaits them. A missing `await` is a mistake: on
 * a target other than the checker, the host would continue before the work is done.
 */
import { Site } from '../../ir/site.ts'
import { WorldError } from '../../world/world.ts'

/**
 * A promise that calls the function `onAwait` when it is awaited. A promise that reports when it is awaited needs a
 * separate class, because `await` calls the method `then` of a promise only if the promise's constructor is not
 * `Promise`.
 */
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

  /**
   * If `isWatched` is false, promises are not tracked, because tracking is slow. Only the first run of a scenario is
   * tracked, because later runs would show the same mistakes.
   */
  constructor(isWatched: boolean) {
    this.#isWatched = isWatched
  }

  track<T>(what: string, promise: Promise<T>): Promise<T> {
    if (!this.#isWatched) {
      promise.catch(() => undefined)
      return promise
    }
    const tracked = new Tracked<T>((resolve, reject) => void promise.then(resolve, reject))
    // If nothing awaits the promise, its rejection can be ignored, because the world records the error that ended the
    // run.
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
