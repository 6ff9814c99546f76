/**
 * Defines the results of measuring an operation. A point is a shape, a number of ranks and a skew. For every benchmark
 * point, the results hold the time, the taxes and the numerical deviation of each variant. Results are plain data:
 * `arke bench --json` prints them, the report draws them, and `auto` uses them to choose a variant. All times in the
 * results are in nanoseconds.
 */

/** A median with its 95 % confidence interval from order statistics. */
export interface Quantity {
  readonly median: number
  readonly interval: readonly [low: number, high: number]
  readonly samples: number
}

/**
 * The categories of an execution's wall time, each with its description. The categories of the ledger add up to the
 * wall time.
 */
export const runParts = {
  useful: 'kernels compute, or read and write memory of their own rank',
  launch:
    'no program runs on the rank: the host is launching its next kernel, or the kernel is enqueued or starting',
  wait: 'blocked at a flag, or finished and waiting for the last rank that shares launches',
  transfer:
    'copying from or to another rank, or running a kernel that only moves data, with nothing else to do',
  other:
    'this worker has no program while another worker of the rank has one; or the rank has no kernel, or is idle because its host waits or does something else, because its stream waits for an event, or for an unknown reason',
} as const
export type RunPart = keyof typeof runParts
export const runPartNames = Object.keys(runParts) as readonly RunPart[]

/** Bytes that one kernel of an execution writes to its rank's memory and a later kernel reads back. */
export interface RunLocality {
  readonly bytes: number
  /**
   * Bounds on the locality tax, which lies inside useful time. The lower bound is 0, because the data may have stayed
   * in a cache. Time lost to the locality tax is at most the bytes divided by the memory bandwidth.
   */
  readonly time: readonly [low: number, high: number]
}

/**
 * The division of an execution's time into categories, from the opening of the start gate to the end of the last rank.
 */
export interface RunLedger {
  readonly wall: number
  readonly parts: Readonly<Record<RunPart, number>>
  readonly locality: RunLocality
}

/**
 * A time interval in which a worker had only one activity. The times of an interval count from the opening of the start
 * gate.
 */
export interface Span {
  readonly from: number
  readonly to: number
  readonly part: RunPart
  /**
   * The label of the interval names the kernel and its program, the flag and its owner, or the bytes and the other
   * rank, together with the source line.
   */
  readonly label: string
}

/** One recorded execution, which the report draws. */
export interface Picture {
  readonly wall: number
  readonly ranks: readonly {
    readonly rank: number
    readonly ledger: RunLedger
    /** The tracks of the rank: one track per worker. */
    readonly tracks: readonly { readonly name: string; readonly spans: readonly Span[] }[]
  }[]
}

/**
 * The largest difference from the float64 reference over all ranks, and the largest difference that the dtype allows.
 */
export interface Deviation {
  readonly largest: number
  readonly bound: number
  /**
   * The number of rows that were compared, which are chosen at random, and the number of all rows. The number of
   * compared rows is absent if all rows were compared.
   */
  readonly sample?: { readonly rows: number; readonly of: number }
}

export interface VariantResult {
  readonly variant: string
  /** The time from the opening of the start gate to the end of the last rank. */
  readonly time: Quantity
  /**
   * The time until a rank ends, averaged over all ranks except the one with the highest number. A skew delays the rank
   * with the highest number. The average over the ranks that are not late shows how much time a straggler costs them.
   */
  readonly punctual: Quantity
  /**
   * The speed-up of the variant over `bsp`, computed round by round. The speed-up is null for `bsp` itself, and if
   * `bsp` was not measured.
   */
  readonly speedup: Quantity | null
  /**
   * The time of the lower bound divided by the time of this variant, computed round by round. A variant that is as fast
   * as the lower bound has the quotient 1.
   */
  readonly ofLimit: Quantity
  /** The time that the host takes to enqueue one execution. The enqueue time is not included in `time`. */
  readonly host: Quantity
  readonly deviation: Deviation
  readonly launches: number
  readonly remoteBytes: number
  /**
   * The mean ledger over all ranks of the recorded executions, without the shortest and the longest quarter of the
   * executions. The recorded executions are separate from the executions that were timed for the field `time`.
   */
  readonly ledger: RunLedger
  /** The time of the recorded executions, which shows the overhead of recording. */
  readonly recorded: Quantity
  /** The recorded execution whose length is the median. */
  readonly picture: Picture
}

/**
 * The contention of the processors before the variants ran, while this process slept. A field of the contention is null
 * if the operating system does not report its value.
 */
export interface Contention {
  /** The duration of the measurement in nanoseconds. */
  readonly interval: number
  readonly cores: number
  /**
   * The steal time, which is the share of processor time that a hypervisor gave to other virtual machines. Some
   * hypervisors always report a steal time of 0.
   */
  readonly steal: number | null
  /** The run queue, which is the mean number of other threads on the machine that ran or were ready to run. */
  readonly runnable: number | null
}

export interface Point {
  readonly operation: string
  /** The extents of the shape, such as { M: 64, N: 1024, K: 2048 }. */
  readonly shape: Readonly<Record<string, number>>
  /** Other options of the benchmark point, such as { shard: 'K' }. */
  readonly choices: Readonly<Record<string, string | number | boolean>>
  readonly dtype: string
  readonly ranks: number
  /** The delay with which the last rank started, in percent of the time of `bsp`. */
  readonly skew: number
  /** The contention of the processors, measured once for all skews of a shape. */
  readonly contention: Contention
  /**
   * The lower bound on the time of every variant, measured in the same rounds. The name of the lower bound is, for
   * example, "GEMM on data already gathered".
   */
  readonly limit: { readonly name: string; readonly time: Quantity }
  /** The variants, ordered from bulk synchronous to fused. */
  readonly variants: readonly VariantResult[]
  /**
   * The differences between the kernels that gave the ledgers and the kernels that were timed. The list of differences
   * is empty if the kernels differ only by recording.
   */
  readonly recordedUnlike: readonly string[]
  /** The variant that `auto` chooses at a measured point, and the reason for the choice. */
  readonly auto: { readonly variant: string; readonly reason: string } | null
}

export interface BenchResult {
  readonly arke: string
  /**
   * The commit of the code that ran, with the suffix `-dirty` if files were changed. The commit is null if it is
   * unknown.
   */
  readonly commit: string | null
  /** The day of the measurement, such as 2026-11-18. */
  readonly date: string
  readonly target: string
  readonly machine: {
    readonly node: string
    readonly platform: string
    /** The model of the processor or of the GPU. */
    readonly processor: string
    /** The number of processors of all ranks: worker threads of a CPU, or multiprocessors of a GPU. */
    readonly cores: number
    /** The memory bandwidth in bytes per second, measured by reading more data than the caches hold. */
    readonly bandwidth: number
    /** The resolution of the host clock in nanoseconds. */
    readonly tick: number
    /** True if the ranks are threads of one process, which share one memory and have no links between them. */
    readonly threads: boolean
    /**
     * The number of separate memories of the machine. With one memory, the ranks on GPUs are virtual: they share one
     * GPU and have no links.
     */
    readonly memories: number
  }
  readonly points: readonly Point[]
  readonly warnings: readonly string[]
  /** True if a signal ended the run before all points were measured. */
  readonly interrupted?: true
}
