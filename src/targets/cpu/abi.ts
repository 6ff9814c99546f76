/**
 * The memory layout that the host, the workers and the kernels of a CPU world share. All numbers are byte offsets.
 * Words are 32 bits, little-endian. A pointer is a 64-bit offset from the start of the shared memory.
 *
 *   control      one page: the abort word, the spin limits, the number of sleeping waits
 *   slots        one per worker: its state, the flag it waits for, its event buffer
 *   queues       one per (rank, stream): the number of enqueued and of completed launches
 *   executables  the compiled kernels, by number
 *   private      launch blocks, frames, counters, the bytes of executables
 *   heaps        one per rank, at a constant stride, aligned to 64 KiB
 *
 * A queue is served by `leaders` workers. Each leader runs programs of the launch at the queue's head until no program
 * is left. The last leader to finish advances the epochs of the launch's flag sets and completes the launch. A kernel
 * with roles needs one worker per role for each leader: the leader itself runs role 0, and its worker r runs entry r of
 * the executable.
 */
import { mostRanks } from '../../world/world.ts'

export const control = {
  /** The reason for an abort (see `stopReason`), or 0. Kernels poll this word wherever they may wait. */
  abort: 4,
  /** The number of times a wait polls before it sleeps. The limit depends on how many workers are awake. */
  spins: 8,
  /** The number of sleeping kernel waits. If it is 0, a signal skips the wake-up call. */
  sleepers: 12,
  /** The slot + 1 of the first worker that raised a fault. */
  faulty: 16,
  /** The number of resets of the world. Workers parked after an abort continue when this word changes. */
  generation: 20,
  /** The number of times a worker polls for a launch before it sleeps. */
  idleSpins: 24,
  /** The number of workers that are not asleep for lack of launches, and the number of cores they share. */
  awake: 28,
  cores: 32,
  bytes: 4096,
} as const

/**
 * Spinning is long only if every awake thread has its own core. With fewer cores, a waiting thread must yield to the
 * thread that it waits for.
 */
export const spinsFor = (awake: number, cores: number): number => (awake <= cores ? 10_000 : 400)

export const stopReason = {
  none: 0,
  /** The host aborted: the watchdog, an interrupt or `close`. */
  host: 1,
  /** A kernel raised a fault. The worker's slot holds the fault code. */
  fault: 2,
  /** A worker threw an exception or died. */
  worker: 3,
} as const

export const faultCode = { none: 0, divisionByZero: 1, badStep: 2, badRank: 3, assertion: 4 } as const
export type Fault = keyof typeof faultCode

/** The values of a worker slot's `state` word. */
export const workerState = { starting: 0, idle: 1, running: 2, ended: 3 } as const
/** The kind of wait that a worker running a kernel is blocked in, or 0 if it is not blocked. */
export const waitKind = { none: 0, flag: 1, loop: 2, barrier: 3, roles: 4 } as const

/** A worker's status. Only the worker writes it; the host reads it after an abort. Slots have their own cache lines. */
export const slot = {
  state: 0,
  wait: 4,
  /** Index into the executable's `sites`: the source line that waits or that raised the fault. */
  site: 8,
  /** The flag waited for: parameter index, owner rank, index in the set, the value wanted and the last value seen. */
  param: 12,
  owner: 16,
  index: 20,
  wanted: 24,
  value: 28,
  program: 32,
  executable: 36,
  fault: 40,
  /** The worker's event buffer for recordings: a pointer, its capacity in events, and the number of events written. */
  events: 48,
  eventCapacity: 56,
  eventCount: 60,
  /** 1 while the worker sleeps because its queue has no launch. The thread that wakes the worker writes 0. */
  asleep: 64,
  /** The generation + 1 in which the worker parked because of the abort word. */
  parked: 68,
  bytes: 128,
} as const

/** One event of a recording. Times are in nanoseconds of the `now` clock (f64). */
export const event = {
  kind: 0,
  site: 4,
  start: 8,
  end: 16,
  /** For a program event: the program's number. For a wait or a copy: the owner's rank. */
  who: 24,
  /** For a wait: the parameter's index. For a copy: the number of bytes. */
  what: 28,
  bytes: 32,
} as const
export const eventKind = { program: 1, wait: 2, copy: 3 } as const

export const queue = {
  /** The number of launches enqueued so far. The host writes it and wakes the threads that sleep on it. */
  head: 0,
  /** The number of completed launches. The worker that completes a launch writes it and wakes waiting threads. */
  completed: 4,
  /** The number of threads that sleep on `head`, and on `completed`. If it is 0, nobody needs to be woken. */
  sleepers: 8,
  waiters: 12,
  leaders: 16,
  rank: 20,
  /** If non-zero, the workers of this queue end once the queue is empty. */
  closing: 24,
  /** Non-zero while the host sleeps on `completed`. Launches before number `awaited` then do not wake the host. */
  awaiting: 28,
  /** Pointer to the ring of launch blocks. Launch n uses block n modulo `ring`. */
  blocks: 32,
  /**
   * Pointer to the start and end times of the launches in the ring: two f64 per launch, in nanoseconds, 0 until known.
   */
  times: 40,
  awaited: 48,
  bytes: 64,
} as const
/** The capacity of a queue, in launches. */
export const ring = 64

/** A launch on one rank: this header, followed by `param.bytes` bytes per kernel parameter. */
export const launch = {
  executable: 0,
  /** The number of programs. */
  grid: 4,
  /** The next program to run, and the number of leaders that found no program left. Both start at 0. */
  next: 8,
  finished: 12,
  leaders: 16,
  /** The rank in the group of the launch, and the size of the group. */
  rank: 20,
  ranks: 24,
  /** The distance between the heaps of consecutive ranks of the group, in units of 64 KiB. */
  heapStride: 28,
  /** Pointer to the rank's counters for this executable. The counters are zero between launches. */
  counters: 32,
  /** Pointer to leader 0's frame. The frames of the next leaders follow at intervals of `frameStride` bytes. */
  frames: 40,
  frameStride: 48,
  /** The launch's number on its queue, starting at 1. */
  sequence: 52,
  params: 64,
  /**
   * For a group whose members are not at a constant distance: by rank, the distance of its heap from this rank's heap,
   * in units of 64 KiB. `heapStride` is then 0, and parameters point to this rank's copies.
   */
  heaps: 2048,
  bytes: 2048 + 4 * mostRanks,
} as const

/**
 * A kernel parameter. A tensor stores a pointer to the copy of the group's rank 0 and four extents. A flag set stores
 * a pointer to the flags of rank 0, three extents and a pointer to the epochs of rank 0. A scalar stores its value.
 */
export const param = {
  pointer: 0,
  value: 0,
  extents: 8,
  epochs: 24,
  bytes: 32,
} as const
export const mostParams = (launch.heaps - launch.params) / param.bytes

/** The two words per rank of a flag set: the number of launches that have signalled it and that have waited for it. */
export const epochs = { signalled: 0, waited: 4, bytes: 8 } as const

/** An entry of the executable table: a pointer to the bytes, their number, and the number of roles. */
export const executable = { pointer: 0, length: 8, roles: 12, bytes: 16 } as const
export const mostExecutables = 4096
/**
 * A reserved number instead of an executable. A launch with this number waits until another queue, whose pointer is in
 * `counters`, has completed `grid` launches.
 */
export const awaitQueue = 0
/**
 * A reserved number instead of an executable. A launch with this number ends when every worker that needs executable
 * number `grid` has loaded it.
 */
export const loadExecutable = -1

/**
 * An entry point of an executable. Entry 0 runs programs until no program is left. Entry r > 0 runs role r of one
 * leader's programs. Entry 0 returns 1 in the leader that completes the launch and 0 in the other leaders. Every entry
 * returns -1 after an abort.
 */
export type Entry = (launch: number, frame: number, slot: number) => number
