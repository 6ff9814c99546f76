/**
 * Stops a world in which nothing moves. While launches are pending, the watchdog reads the progress of the world several times per
 * second. It calls `expired` when there was no progress for longer than the limit, and `stalled` once before that. The limit depends
 * on what the programs do: see `Activity`. The watchdog keeps the process alive only while somebody waits.
 */
import { WorldError } from './world.ts'

interface Timer {
  ref?(): void
  unref?(): void
}

/**
 * What programs do, as far as the host can see. `waiting`: every program that runs waits for a flag or for other roles. `computing`:
 * at least one program computes. `unknown`: programs are in `while` loops, which may compute or poll, or the host cannot see them.
 */
export type Activity = 'waiting' | 'computing' | 'unknown'

/** How long there may be no progress, in milliseconds. */
export type Limits = Readonly<Record<Activity, number>>

/** A timeout that the user chose applies whatever programs do. */
export function limitsOf(timeout: number | undefined, usual: Limits): Limits {
  if (timeout === undefined) return usual
  if (!(timeout > 0)) throw new WorldError(`a timeout of ${timeout} ms`)
  return { waiting: timeout, computing: timeout, unknown: timeout }
}

export interface Watched {
  /** Whether launches are pending. */
  pending(): boolean
  /** A number that changes when a launch ends, and when a program goes on where the host can see that. */
  progress(): number
  activity(): Activity
  expired(limit: number): void
  /** All programs have waited for some time. */
  stalled?(waited: number, limit: number): void
}

/** How long programs wait before that is reported, in milliseconds. */
const stall = 3000

export class Watchdog {
  readonly #limits: Limits
  readonly #watched: Watched
  #timer: ReturnType<typeof setInterval> | undefined
  #waiting = 0
  /** Something was launched since it last looked. */
  #fresh = false
  #progress = 0
  #since = 0
  /** `stalled` was called since the last progress. */
  #reported = false

  constructor(limits: Limits, watched: Watched) {
    this.#limits = limits
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
    const period = Math.min(Math.max(this.#limits.waiting / 8, 5), 250)
    this.#timer = setInterval(() => this.look(), period)
    if (this.#waiting === 0) (this.#timer as Timer).unref?.()
    this.#since = performance.now()
  }

  /** Called by a timer, and by a host that blocks its thread, where no timer fires. */
  look(): void {
    const now = performance.now()
    const progress = this.#watched.progress()
    if (this.#fresh || progress !== this.#progress || !this.#watched.pending()) {
      this.#fresh = this.#reported = false
      this.#progress = progress
      this.#since = now
      return
    }
    const activity = this.#watched.activity()
    const limit = this.#limits[activity]
    const waited = now - this.#since
    if (waited >= limit) {
      this.#since = now
      this.#watched.expired(limit)
    } else if (activity === 'waiting' && !this.#reported && waited >= stall) {
      this.#reported = true
      this.#watched.stalled?.(waited, limit)
    }
  }
}
