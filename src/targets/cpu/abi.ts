/**
 * The memory layout that the host, the workers and the kernels of a CPU world share. All numbers in this file are byte
 * offsets. A word of the shared memory has 32 bits, little-endian. A pointer is a 64-bit offset from the start of the
 * shared memory.
 *
 *   control      one page: the abort word, the spin limits, the number of sleeping waits
 *   slots        one per worker: its state, the flag it waits for, its event buffer
 *   queues       one per (rank, stream): the number of enqueued and of completed launches
 *   executables  the compiled kernels, by number
 *   private      launch blocks, frames, counters, the bytes of executables
 *   heaps        one per rank, at a constant stride, aligned to 64 KiB
 *
 * Each launch queue is served by `leaders` worker threads. Each leader runs programs of the launch at the queue's head
 * until no program is left. The leader that finishes last advances the epochs of the launch's flag sets and completes
 * the launch. A kernel with roles needs one worker per role for each leader: the leader itself runs role 0, and its
 * worker r runs entry r of the executable.
 */
import { mostRanks } from '../../world/world.ts'

export const control = {
  /** The reason for an abort (see `stopReason`), or 0. Kernels poll the abort word wherever they may wait. */
  abort: 4,
  /** The number of times a wait polls before it sleeps. The number of polls depends on how many workers are awake. */
  spins: 8,
  /** The number of kernel waits that are sleeping. If no wait is sleeping, a signal skips the wake-up call. */
  sleepers: 12,
  /** The slot number, plus 1, of the first worker that raised a fault; 0 if no worker has raised a fault. */
  faulty: 16,
  /**
   * The number of resets of the world. Workers that are parked after an abort continue when the number of resets
   * changes.
   */
  generation: 20,
  /** The number of times a worker polls for a launch before it sleeps. */
  idleSpins: 24,
  /** The number of workers that are not asleep for lack of launches, and the number of cores they share. */
  awake: 28,
  cores: 32,
  bytes: 4096,
} as const

/**
 * Polling continues for long only if every awake thread has its own core. If there are fewer cores than threads, a
 * waiting thread must yield to the thread that it waits for.
 */
export const spinsFor = (awake: number, cores: number): number => (awake <= cores ? 10_000 : 400)

export const stopReason = {
  none: 0,
  /** The abort reason if the host stopped the world: because of the watchdog, an interrupt or `close`. */
  host: 1,
  /**
   * The abort reason if a kernel raised a fault. The slot of the worker that ran the kernel holds the fault code.
   */
  fault: 2,
  /** The abort reason if a worker threw an exception or died. */
  worker: 3,
} as const

export const faultCode = { none: 0, divisionByZero: 1, badStep: 2, badRank: 3, assertion: 4 } as const
export type Fault = keyof typeof faultCode

/** The values of a worker slot's `state` word. */
export const workerState = { starting: 0, idle: 1, running: 2, ended: 3 } as const
/** The kind of wait that a worker running a kernel is blocked in, or 0 if it is not blocked. */
export const waitKind = { none: 0, flag: 1, loop: 2, barrier: 3, roles: 4 } as const

/**
 * The status of a worker, in a slot of the shared memory. Only the worker writes its slot; the host reads the slot
 * after an abort. Each worker slot has its own cache lines.
 */
export const slot = {
  state: 0,
  wait: 4,
  /** An index into the executable's `sites`: the source line that waits or that raised the fault. */
  site: 8,
  /**
   * The flag for which the worker waits: parameter index, owner rank, index in the set, the wanted value and the last
   * value seen.
   */
  param: 12,
  owner: 16,
  index: 20,
  wanted: 24,
  value: 28,
  program: 32,
  executable: 36,
  fault: 40,
  /**
   * The worker's event buffer for recordings: its address, its capacity in events, and the number of events written.
   */
  events: 48,
  eventCapacity: 56,
  eventCount: 60,
  /** 1 while the worker sleeps because its queue has no launch; the thread that wakes the worker writes 0. */
  asleep: 64,
  /** The value of the word `generation` when the worker parked because of an abort, plus 1. */
  parked: 68,
  bytes: 128,
} as const

/** The fields of one event of a recording. Event times are in nanoseconds of the `now` clock (f64). */
export const event = {
  kind: 0,
  site: 4,
  start: 8,
  end: 16,
  /**
   * For a program event, the field `who` holds the program's number. For a wait or a copy, the field `who` holds the
   * rank that owns the flag or the copied data.
   */
  who: 24,
  /**
   * For a wait, the field `what` holds the index of the flag set's kernel parameter. For a copy, the field `what` holds
   * the number of bytes.
   */
  what: 28,
  bytes: 32,
} as const
export const eventKind = { program: 1, wait: 2, copy: 3 } as const

export const queue = {
  /**
   * The number of launches enqueued so far. The host writes the number of enqueued launches and wakes the threads that
   * sleep on this word.
   */
  head: 0,
  /**
   * The number of completed launches. The worker that completes a launch writes the number of completed launches and
   * wakes waiting threads.
   */
  completed: 4,
  /**
   * The number of threads that sleep on the word `head`, and on the word `completed`. If no thread sleeps on a word,
   * the wake-up call for that word is skipped.
   */
  sleepers: 8,
  waiters: 12,
  leaders: 16,
  rank: 20,
  /** If the word `closing` is non-zero, the workers of its queue end once the queue is empty. */
  closing: 24,
  /**
   * Non-zero while the host sleeps on the word `completed`. Launches with a number below `awaited` do not wake the
   * host.
   */
  awaiting: 28,
  /** The address of the ring of launch blocks. Launch n uses the block n modulo `ring`. */
  blocks: 32,
  /**
   * The address of the start and end times of the launches in the ring: two f64 per launch, in nanoseconds, 0 until
   * known.
   */
  times: 40,
  awaited: 48,
  bytes: 64,
} as const
/** The capacity of a queue, in launches. */
export const ring = 64

/** A launch block on one rank consists of this header, followed by `param.bytes` bytes per kernel parameter. */
export const launch = {
  executable: 0,
  /** The number of programs of the launch. */
  grid: 4,
  /**
   * The next program to run, and the number of leaders that found no program left. The counts of started programs and
   * of finished leaders start at 0 for each launch.
   */
  next: 8,
  finished: 12,
  leaders: 16,
  /** The rank in the group on which the kernel was launched, and the size of the group. */
  rank: 20,
  ranks: 24,
  /** The distance between the heaps of consecutive ranks of the group, in units of 64 KiB. */
  heapStride: 28,
  /**
   * The address of the rank's arrival counters for the `last` ops of this executable, which are zero between launches.
   */
  counters: 32,
  /**
   * The address of leader 0's frame (the private memory of a program). The frames of the next leaders follow at
   * intervals of `frameStride` bytes.
   */
  frames: 40,
  frameStride: 48,
  /** The launch's number on its queue, starting at 1. */
  sequence: 52,
  params: 64,
  /**
   * For a group whose ranks are not evenly spaced in the world: the distance of each rank's heap from this rank's heap,
   * in units of 64 KiB. If a launch uses this table of distances, `heapStride` is 0, and parameters point to this
   * rank's copies.
   */
  heaps: 2048,
  bytes: 2048 + 4 * mostRanks,
} as const

/**
 * One parameter of a kernel in a launch block. For a tensor, the parameter stores a pointer to the copy of the group's
 * rank 0 and four extents. For a flag set, the parameter stores a pointer to the flags of rank 0, three extents and a
 * pointer to the epochs of rank 0. For a scalar, the parameter stores its value.
 */
export const param = {
  pointer: 0,
  value: 0,
  extents: 8,
  epochs: 24,
  bytes: 32,
} as const
export const mostParams = (launch.heaps - launch.params) / param.bytes

/**
 * The two epoch words of a flag set on a rank: the numbers of launches that signalled the set, and that waited for it.
 */
export const epochs = { signalled: 0, waited: 4, bytes: 8 } as const

/** An entry of the executable table: a pointer to the bytes, their number, and the number of roles. */
export const executable = { pointer: 0, length: 8, roles: 12, bytes: 16 } as const
export const mostExecutables = 4096
/**
 * The executable number of a launch that runs no kernel, but waits for another queue: `counters` points to that queue,
 * and `grid` is the number of launches that the queue must have completed.
 */
export const awaitQueue = 0
/**
 * The executable number of a launch that runs no kernel, but makes workers load an executable. The field `grid` holds
 * the number of the executable, and the launch ends when every worker that needs the executable has loaded it.
 */
export const loadExecutable = -1

/**
 * An entry point of an executable. Entry 0 runs programs of the launch until no program is left. Entry r > 0 runs role
 * r of one leader's programs. Entry 0 returns 1 in the leader that completes the launch and 0 in the other leaders.
 * Every entry returns -1 after an abort.
 */
export type Entry = (launch: number, frame: number, slot: number) => number
