/**
 * The audit as one JSON document: what `arke audit --json` prints, what the terminal and the HTML page show, and what
 * `--compare` reads back. Times are microseconds (with the nanoseconds as fractions), `null` is "unknowable from these
 * traces". `startUs` is on the common clock, from the beginning of the first window of all ranks.
 */

export interface AuditDocument {
  /** The version of Arke that wrote it. */
  readonly arke: string
  readonly sources: readonly SourceDocument[]
  /** The steps that were asked for, or null for all. */
  readonly chosenSteps: readonly [first: number, last: number] | null
  readonly ranks: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
  readonly groups: readonly GroupDocument[]
  readonly collectives: DocumentList<CollectiveDocument>
  readonly clocks: readonly ClockDocument[]
  readonly stragglers: readonly StragglerDocument[]
  /**
   * Collectives of several ranks whose `lastRank` is null: the traces do not list the process groups, and the calls may be
   * of different groups. Nobody is blamed there. `commUs` is the time in them, summed over ranks.
   */
  readonly doubtful?: { readonly collectives: number; readonly commUs: number }
  readonly candidates: readonly CandidateDocument[]
  /** The share of GPU time that is lost, and who causes how much of the waiting. Documents of earlier versions have none. */
  readonly headline?: string
  /** The biggest tax, the culprit, the first thing to fix. */
  readonly summary: readonly string[]
  readonly warnings: readonly WarningDocument[]
}

/** A list that may make its elements as they are asked for, since there may be hundreds of thousands. In JSON, an array. */
export interface DocumentList<T> extends Iterable<T> {
  readonly length: number
}

export interface SourceDocument {
  readonly path: string
  readonly format: string
  readonly bytes: number
  readonly ranks: readonly number[]
}

/** One rank over the whole window, or over one step. */
export interface RankDocument {
  readonly rank: number
  readonly startUs: number
  readonly wallUs: number
  readonly busyUs: number
  readonly idleUs: number
  readonly computeUs: number
  readonly commUs: number
  readonly copyUs: number
  /** How much of the communication runs under compute; null without communication. */
  readonly overlapPct: number | null
  readonly idle: {
    readonly dispatchUs: number
    readonly hostBlockedUs: number
    readonly hostAbsentUs: number
    readonly dependencyUs: number
    readonly gapUs: number
    readonly unattributedUs: number
  }
  readonly taxes: {
    /** dispatch + gap */
    readonly launchUs: number
    /** Exposed, so that the parts add up; `hiddenWaitUs` is what lies under compute. */
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    readonly hiddenWaitUs: number | null
    /** Inside busy time: "of which". Null where the trace has no shapes. */
    readonly localityBytes: number | null
    readonly localityUs: readonly [low: number, high: number] | null
    /** wall − compute − launch − wait − exposed transfer; its parts are below. */
    readonly otherUs: number
  }
  readonly other: {
    readonly exposedCopyUs: number
    readonly hostBlockedUs: number
    readonly hostAbsentUs: number
    readonly dependencyUs: number
    readonly unattributedUs: number
    /** Exposed communication that cannot be split into wait and transfer. */
    readonly unsplitCommUs: number
  }
  /** wait + exposed transfer + what cannot be split. */
  readonly exposedCommUs: number
  readonly launches: number
}

export interface StepDocument {
  readonly name: string
  readonly number: number
  readonly ranks: readonly RankDocument[]
}

/** A process group: a name and its ranks, since groups of different ranks may have one name. */
export interface GroupDocument {
  readonly group: string
  readonly description: string | null
  /** Those that have a trace. */
  readonly ranks: readonly number[]
  readonly collectives: number
  /**
   * Sums over its ranks. Waits and transfers are the group's own that are exposed, as in the ledger of a rank; an instant
   * at which two groups both wait, or both transfer, counts for each of them.
   */
  readonly commUs: number
  readonly waitUs: number | null
  readonly exposedTransferUs: number | null
  readonly perRank: readonly {
    readonly rank: number
    readonly collectives: number
    readonly commUs: number
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
  }[]
}

export interface CollectiveDocument {
  readonly kind: string | null
  readonly group: string | null
  readonly library: string | null
  readonly matchedBy: string | null
  readonly complete: boolean
  /** Null where only one rank is known, and where it cannot be told who was last. */
  readonly lastRank: number | null
  readonly endSkewUs: number
  readonly perRank: readonly {
    readonly rank: number
    readonly startUs: number
    readonly durUs: number
    readonly waitUs: number | null
    readonly transferUs: number | null
  }[]
}

export interface ClockDocument {
  readonly rank: number
  readonly aligned: boolean
  /** What was added to the rank's times. */
  readonly correctionUs: number
  readonly driftPpm: number
  readonly residualUs: number | null
}

/** A rank that others waited for, the one with the most exposed waiting first. */
export interface StragglerDocument {
  readonly rank: number
  /** Summed over the ranks that waited, each in its window. */
  readonly keptWaitingUs: number
  /** What of it costs time: waiting neither under compute nor beside a transfer. */
  readonly exposedWaitUs: number
  /** How late it was, summed over the collectives at which it was last: from the arrival of the one before it. */
  readonly lateUs: number
  readonly collectives: number
  readonly waiters: readonly {
    readonly rank: number
    readonly waitUs: number
    readonly exposedWaitUs: number
  }[]
  readonly worst: readonly {
    /** Index into `collectives`. */
    readonly collective: number
    readonly kind: string | null
    readonly group: string | null
    readonly startUs: number
    readonly keptWaitingUs: number
    readonly lateUs: number
  }[]
  /** What it did while the first of the others was waiting already, the longest first. */
  readonly meanwhile: readonly {
    /** compute, collective, copy, or a part of idle time. */
    readonly what: string
    readonly name: string | null
    readonly operator: string | null
    readonly us: number
  }[]
}

/** Work that one fused kernel could do, the greatest saving first. */
export interface CandidateDocument {
  readonly kind: 'compute-collective-compute' | 'small-kernels' | 'producer-consumer'
  /** The operators or kernels, in order. */
  readonly chain: readonly string[]
  /** How often, over all ranks. */
  readonly count: number
  readonly ranks: readonly number[]
  /** At most, summed over ranks; the parts are below. */
  readonly savesUs: number
  readonly saves: {
    readonly launchUs: number
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    /** Exposed communication that cannot be split into the two. */
    readonly unsplitCommUs: number
    /** The high end of what the locality costs. */
    readonly localityUs: number | null
  }
  readonly localityBytes: number | null
  /** An operation of Arke whose shapes match; null where there is none. */
  readonly operation: {
    readonly name: string
    /** Of the costliest one. */
    readonly shapes: string
    /** How many other shapes the chain has. */
    readonly otherShapes: number
    /** How to try it with those shapes. */
    readonly command: string
  } | null
  /** Where the costliest one is. */
  readonly example: { readonly rank: number; readonly startUs: number; readonly durUs: number }
}

export interface WarningDocument {
  readonly class: string
  readonly message: string
  readonly count: number
}
