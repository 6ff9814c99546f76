/**
 * What measuring an operation gives: for every point (a shape, a number of ranks, a skew) each variant's time, its taxes and
 * how far it is from right. It is plain data: `arke bench --json` prints it, the report draws it, `auto` chooses by it.
 * Times are nanoseconds.
 */

/** A median with its 95 % interval, by order statistics. */
export interface Quantity {
  readonly median: number
  readonly interval: readonly [low: number, high: number]
  readonly samples: number
}

/** The parts of an execution's wall time, each with what it is. They add up. */
export const runParts = {
  useful: 'kernels compute, or read and write memory of their own rank',
  launch: 'no program runs on the rank: its next kernel is being launched, or starts',
  wait: 'blocked at a flag, or done while the last rank is not',
  transfer: 'copying from or to another rank, or in a kernel that only moves data, with nothing else to do',
  other: 'another worker of the rank has a program and this one has none, and what cannot be attributed',
} as const
export type RunPart = keyof typeof runParts
export const runPartNames = Object.keys(runParts) as readonly RunPart[]

/** Bytes that one kernel of an execution writes to its rank's memory for a later one to read back. */
export interface RunLocality {
  readonly bytes: number
  /** Of useful time: from 0, where all of it stays in a cache, to bytes over the memory's bandwidth. */
  readonly time: readonly [low: number, high: number]
}

/** Where the time went, from the opening of the gate to the end of the last rank. */
export interface RunLedger {
  readonly wall: number
  readonly parts: Readonly<Record<RunPart, number>>
  readonly locality: RunLocality
}

/** A time in which a worker did one thing, from the opening of the gate on. */
export interface Span {
  readonly from: number
  readonly to: number
  readonly part: RunPart
  /** The kernel and its program, the flag and its owner, the bytes and their peer, with the author's line. */
  readonly label: string
}

/** One execution, to look at. */
export interface Picture {
  readonly wall: number
  readonly ranks: readonly {
    readonly rank: number
    readonly ledger: RunLedger
    /** One for each worker of the rank. */
    readonly tracks: readonly { readonly name: string; readonly spans: readonly Span[] }[]
  }[]
}

/** The largest difference from the float64 reference, over all ranks, and what the dtype allows. */
export interface Deviation {
  readonly largest: number
  readonly bound: number
  /** Where not all rows of the output were compared: how many, chosen at random. */
  readonly sample?: { readonly rows: number; readonly of: number }
}

export interface VariantResult {
  readonly variant: string
  /** From the opening of the gate to the end of the last rank. */
  readonly time: Quantity
  /** To the ends of all ranks but the last, the one that a skew delays: their mean. What a straggler costs the others. */
  readonly punctual: Quantity
  /** How many times faster than `bsp`, round by round; null for `bsp` itself and where it was not measured. */
  readonly speedup: Quantity | null
  /** The limit over this time, round by round: 1 is the best there is. */
  readonly ofLimit: Quantity
  /** What the host did to enqueue one execution; not part of `time`. */
  readonly host: Quantity
  readonly deviation: Deviation
  readonly launches: number
  readonly remoteBytes: number
  /** Means over all ranks of recorded executions, the middling half of them; recorded apart from what `time` was measured on. */
  readonly ledger: RunLedger
  /** Beside what recorded executions took, so that a reader sees what recording cost. */
  readonly recorded: Quantity
  /** A recorded execution of middling length. */
  readonly picture: Picture
}

/** How contended the processors were before the variants ran, while this process slept. Null: the system does not report it. */
export interface Contention {
  /** How long it was measured, in nanoseconds. */
  readonly interval: number
  readonly cores: number
  /** Steal time: the share of processor time that a hypervisor gave to other machines. Some hypervisors always report 0. */
  readonly steal: number | null
  /** The run queue: the mean number of other threads on the machine that ran or were ready to run. */
  readonly runnable: number | null
}

export interface Point {
  readonly operation: string
  /** Such as { M: 64, N: 1024, K: 2048 }. */
  readonly shape: Readonly<Record<string, number>>
  /** What else was chosen, such as { shard: 'K' }. */
  readonly choices: Readonly<Record<string, string | number | boolean>>
  readonly dtype: string
  readonly ranks: number
  /** By how many percent of `bsp`'s time the last rank started late. */
  readonly skew: number
  /** Measured once for all skews of a shape. */
  readonly contention: Contention
  /** What no variant can go below, measured beside them: its name, such as "GEMM on data already gathered". */
  readonly limit: { readonly name: string; readonly time: Quantity }
  /** From bulk synchronous to fused. */
  readonly variants: readonly VariantResult[]
  /** How kernels that the ledgers are of differ from those that were timed; none: only by what they write down. */
  readonly recordedUnlike: readonly string[]
  /** Which variant would be chosen here, and why. */
  readonly auto: { readonly variant: string; readonly reason: string } | null
}

export interface BenchResult {
  readonly arke: string
  readonly target: string
  readonly machine: {
    readonly node: string
    readonly platform: string
    /** On a GPU: its name, and the multiprocessors of all ranks. */
    readonly processor: string
    readonly cores: number
    /** Of memory, measured by reading more than the caches hold; bytes a second. */
    readonly bandwidth: number
    /** The shortest time that the clock shows. */
    readonly tick: number
  }
  readonly points: readonly Point[]
  readonly warnings: readonly string[]
  /** A signal ended it before all points were measured. */
  readonly interrupted?: true
}
