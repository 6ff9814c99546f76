/**
 * What host, workers and kernels of a CPU world agree on: where things lie in the one memory they share. All numbers are byte
 * offsets; words are 32 bits, little-endian. A pointer is a 64-bit offset from the start of the memory.
 *
 *   control      one page: the abort word, how long to spin, who sleeps
 *   slots        one for each worker: what it does and waits for, its part of the recording
 *   queues       one for each (rank, stream): which launches there are, which are complete
 *   executables  what kernels were compiled to, by number
 *   private      launch blocks, frames, counters, executables' bytes
 *   heaps        one for each rank, at a constant stride, 64 KiB aligned
 *
 * A queue is served by `leaders` workers, each of which runs programs of the launch at its head until none is left; the last
 * leader to finish advances the epochs of the launch's flag sets and completes the launch. A kernel with roles has as many
 * workers for each leader: the leader runs role 0, worker r of that leader entry r.
 */

export const control = {
  /** 0, or why everything stops: see `stopReason`. Kernels poll it wherever they may wait. */
  abort: 4,
  /** How often a wait polls before it sleeps: by how many workers are awake. */
  spins: 8,
  /** How many kernel waits sleep: a signal wakes nobody if there are none. */
  sleepers: 12,
  /** The slot + 1 of the first worker that raised a fault. */
  faulty: 16,
  /** How often the world was reset: workers that have stopped go on when it changes. */
  generation: 20,
  /** How often a worker looks for a launch before it sleeps. */
  idleSpins: 24,
  /** Workers that do not sleep for want of launches, and the cores that they share. */
  awake: 28,
  cores: 32,
  bytes: 4096,
} as const

/** Threads that have a core each may burn it; others must leave theirs to whom they wait for. */
export const spinsFor = (awake: number, cores: number): number => (awake <= cores ? 10_000 : 400)

export const stopReason = {
  none: 0,
  /** The host said so: the watchdog, an interrupt, `close`. */
  host: 1,
  /** A kernel raised a fault; its slot says which. */
  fault: 2,
  /** A worker threw or died. */
  worker: 3,
} as const

export const faultCode = { none: 0, divisionByZero: 1, badStep: 2, badRank: 3 } as const
export type Fault = keyof typeof faultCode

/** What a worker does: see `state`. */
export const workerState = { starting: 0, idle: 1, running: 2, ended: 3 } as const
/** What a worker that runs a kernel is blocked on; 0 while it is not. */
export const waitKind = { none: 0, flag: 1, loop: 2, barrier: 3, roles: 4 } as const

/** Written by the worker alone, read by the host after a stop. Multiples of `bytes`, each on cache lines of its own. */
export const slot = {
  state: 0,
  wait: 4,
  /** Index into the executable's sites of the line that waits or that raised the fault. */
  site: 8,
  /** Of a flag: the parameter's index, the rank whose flag it is, its index in the set, the value wanted and the last one seen. */
  param: 12,
  owner: 16,
  index: 20,
  wanted: 24,
  value: 28,
  program: 32,
  executable: 36,
  fault: 40,
  /** Of the recording: where its events go (a pointer), how many fit, how many there were. */
  events: 48,
  eventCapacity: 56,
  eventCount: 60,
  /** 1 while the worker sleeps because there is no launch for it; whoever wakes it writes 0. */
  asleep: 64,
  /** The generation + 1 in which the worker has stopped because of the abort word. */
  parked: 68,
  bytes: 128,
} as const

/** An event of a recording, in nanoseconds of the `now` clock (f64). */
export const event = {
  kind: 0,
  site: 4,
  start: 8,
  end: 16,
  /** Of a program: its number. Of a wait or a copy: the owner's rank. */
  who: 24,
  /** Of a wait: the parameter's index. Of a copy: bytes. */
  what: 28,
  bytes: 32,
} as const
export const eventKind = { program: 1, wait: 2, copy: 3 } as const

export const queue = {
  /** How many launches were put in; the host writes it and wakes whoever sleeps on it. */
  head: 0,
  /** How many are complete; the worker that completes one writes it and wakes. */
  completed: 4,
  /** Threads that sleep on `head`, and on `completed` for its next change: nobody wakes those who are awake. */
  sleepers: 8,
  waiters: 12,
  leaders: 16,
  rank: 20,
  /** Non-zero: workers of this queue end when it is empty. */
  closing: 24,
  /** Whether the host sleeps on `completed`, and until how many: launches before that do not wake it. */
  awaiting: 28,
  /** Pointer to the ring of launch blocks; launch n is block n modulo `ring`. */
  blocks: 32,
  /** Pointer to when the launches of the ring started and ended: two f64 each, in nanoseconds, 0 until then. */
  times: 40,
  awaited: 48,
  bytes: 64,
} as const
/** Launches that may be in a queue at once. */
export const ring = 64

/** A launch on one rank: its header, then `param.bytes` for each parameter of the kernel. */
export const launch = {
  executable: 0,
  /** Programs. */
  grid: 4,
  /** The next program to run, and the leaders that have found none; both start at 0. */
  next: 8,
  finished: 12,
  leaders: 16,
  rank: 20,
  ranks: 24,
  /** From one rank's heap to the next, in units of 64 KiB. */
  heapStride: 28,
  /** Pointer to the rank's counters of this executable: zero between launches. */
  counters: 32,
  /** Pointer to leader 0's frame; the next ones follow at `frameStride` bytes. */
  frames: 40,
  frameStride: 48,
  /** This launch's number on its queue, from 1. */
  sequence: 52,
  params: 64,
  bytes: 2048,
} as const

/** Tensor: pointer to rank 0's copy, four extents. Flags: that, three extents, pointer to rank 0's epochs. Scalar: its value. */
export const param = {
  pointer: 0,
  value: 0,
  extents: 8,
  epochs: 24,
  bytes: 32,
} as const
export const mostParams = (launch.bytes - launch.params) / param.bytes

/** A flag set's two words on each rank: launches that have signalled it, and that have waited for it. */
export const epochs = { signalled: 0, waited: 4, bytes: 8 } as const

/** An entry of the table of executables: a pointer to its bytes and their number. */
export const executable = { pointer: 0, length: 8, roles: 12, bytes: 16 } as const
export const mostExecutables = 4096
/**
 * The executable that is none: a launch of it ends when another queue, whose pointer is in `counters`, has completed `grid`
 * launches.
 */
export const awaitQueue = 0
/**
 * Nor is this one: a launch of it ends when every worker that the executable with the number in `grid` needs has loaded that.
 */
export const loadExecutable = -1

/**
 * What an entry of an executable is: entry 0 runs programs until none is left, entry r > 0 is role r of one leader's programs.
 * Entry 0 returns 1 from the leader that completes the launch, 0 from the others; every entry returns -1 after a stop.
 */
export type Entry = (launch: number, frame: number, slot: number) => number
