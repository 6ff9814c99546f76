/**
 * Stops a world whose programs make no progress. While launches are pending, the watchdog reads the progress of the
 * world several times per second. The watchdog calls `expired` if there was no progress for longer than the limit, and
 * may call `stalled` once before `expired`. The watchdog's time limit depends on what the programs are doing (see
 * `Activity`). The watchdog keeps the process alive only while a call waits.
 */
import { WorldError } from './world.ts'

interface Timer {
  ref?(): void
  unref?(): void
}

/**
 * What the programs of a world are doing, as far as the host can see. The activity `waiting`: every running program
 * waits for a flag or for other roles. The activity `computing`: at least one program computes. The activity `unknown`:
 * programs are in `while` loops, which may compute or poll, or the host cannot see the programs.
 */
export type Activity = 'waiting' | 'computing' | 'unknown'

/** The maximum time without progress in milliseconds, by activity. */
export type Limits = Readonly<Record<Activity, number>>

/** A timeout that the user chose applies whatever the programs do. */
export function limitsOf(timeout: number | undefined, usual: Limits): Limits {
  if (timeout === undefined) return usual
  if (!(timeout > 0)) throw new WorldError(`a timeout of ${timeout} ms`)
  return { waiting: timeout, computing: timeout, unknown: timeout }
}

export interface Watched {
  /** True if launches are pending. */
  pending(): boolean
  /** A number that changes when a launch ends, and when a program continues after a wait that the host can observe. */
  progress(): number
  activity(): Activity
  expired(limit: number): void
  /** The callback for the case that all programs have waited for some time. */
  stalled?(waited: number, limit: number): void
}

/** The time in milliseconds for which all programs must wait before the watchdog reports it. */
const stall = 3000

export class Watchdog {
  readonly #limits: Limits
  readonly #watched: Watched
  #timer: ReturnType<typeof setInterval> | undefined
  #waiting = 0
  /** True if a launch was enqueued since the watchdog last checked the progress. */
  #fresh = false
  #progress = 0
  #since = 0
  /** True if `stalled` was called since the last progress. */
  #reported = false

  constructor(limits: Limits, watched: Watched) {
    this.#limits = limits
    this.#watched = watched
  }

  /** Tells the watchdog that a launch was enqueued. */
  launched(): void {
    this.#fresh = true
    if (!this.#timer) this.#start()
  }

  /**
   * Tells the watchdog that a call waits for launches. Until `done` is called, the watchdog keeps the process alive.
   */
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

  /** Checks the progress; called by a timer, and by a host that blocks its thread, in which no timer fires. */
  look(): void {
    const now = performance.now()
    // The activity is read before the progress, so that a launch which ends between the two reads changes the progress.
    const activity = this.#watched.activity()
    const progress = this.#watched.progress()
    if (this.#fresh || progress !== this.#progress || !this.#watched.pending()) {
      this.#fresh = this.#reported = false
      this.#progress = progress
      this.#since = now
      return
    }
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
