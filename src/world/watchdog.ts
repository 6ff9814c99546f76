/**
 * Notices that nothing ends any more: while launches are pending and none has completed for longer than the limit, it calls
 * `expired`. Looks now and then; it keeps the process alive only while somebody waits.
 */
import { WorldError } from './world.ts'

interface Timer {
  ref?(): void
  unref?(): void
}

export interface Watched {
  /** Whether launches are pending. */
  pending(): boolean
  /** A number that changes when a launch ends. */
  progress(): number
  expired(): void
}

/** Of a world, in milliseconds: a minute unless it was opened with another. */
export function limitOf(timeout: number | undefined): number {
  const limit = timeout ?? 60_000
  if (!(limit > 0)) throw new WorldError(`a timeout of ${timeout} ms`)
  return limit
}

export class Watchdog {
  readonly #limit: number
  readonly #watched: Watched
  #timer: ReturnType<typeof setInterval> | undefined
  #waiting = 0
  /** Something was launched since it last looked. */
  #fresh = false
  #progress = 0
  #since = 0

  /** `limit` in milliseconds. */
  constructor(limit: number, watched: Watched) {
    this.#limit = limit
    this.#watched = watched
  }

  /** Something was launched. */
  launched(): void {
    this.#fresh = true
    if (!this.#timer) this.#start()
  }

  /** Somebody waits from now on until `done`: the process stays alive. */
  wait(): void {
    if (!this.#timer) this.#start()
    if (this.#waiting++ === 0) (this.#timer as Timer).ref?.()
  }
  done(): void {
    if (--this.#waiting === 0) (this.#timer as Timer | undefined)?.unref?.()
  }

  close(): void {
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #start(): void {
    const period = Math.min(Math.max(this.#limit / 8, 5), 250)
    this.#timer = setInterval(() => this.#look(), period)
    if (this.#waiting === 0) (this.#timer as Timer).unref?.()
    this.#since = performance.now()
  }

  #look(): void {
    const progress = this.#watched.progress()
    if (this.#fresh || progress !== this.#progress || !this.#watched.pending()) {
      this.#fresh = false
      this.#progress = progress
      this.#since = performance.now()
    } else if (performance.now() - this.#since >= this.#limit) {
      this.#since = performance.now()
      this.#watched.expired()
    }
  }
}
