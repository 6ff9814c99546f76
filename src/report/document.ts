/**
 * The result of the audit as one JSON document. `arke audit --json` prints the document, the terminal and the HTML page
 * show it, and `--compare` reads it. Times are in microseconds, and their fractions give the nanoseconds. A value is
 * `null` if the traces do not contain it. `startUs` is on the common clock, relative to the start of the earliest
 * window of all ranks.
 */

export interface AuditDocument {
  /** The version of Arke that wrote the audit document. */
  readonly arke: string
  readonly sources: readonly SourceDocument[]
  /** The steps that the user requested, or null for all steps. */
  readonly chosenSteps: readonly [first: number, last: number] | null
  readonly ranks: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
  readonly groups: readonly GroupDocument[]
  readonly collectives: DocumentList<CollectiveDocument>
  readonly clocks: readonly ClockDocument[]
  readonly stragglers: readonly StragglerDocument[]
  /**
   * Collectives of several ranks whose `lastRank` is null, because the traces do not list the process groups and the
   * calls may belong to different groups. No rank is blamed for the waiting in these collectives. `commUs` is the time
   * in collectives whose last rank is unknown, summed over ranks.
   */
  readonly doubtful?: { readonly collectives: number; readonly commUs: number }
  readonly candidates: readonly CandidateDocument[]
  /**
   * A sentence that states the share of GPU time that is lost, and the rank that causes most of the waiting. The
   * sentence is missing in documents of earlier versions.
   */
  readonly headline?: string
  /** Three sentences about the biggest tax, the culprit, and what to fix first. */
  readonly summary: readonly string[]
  readonly warnings: readonly WarningDocument[]
}

/**
 * A list that may create its elements on demand, since it may have hundreds of thousands of elements. In JSON, such a
 * list is an array.
 */
export interface DocumentList<T> extends Iterable<T> {
  readonly length: number
}

export interface SourceDocument {
  readonly path: string
  readonly format: string
  readonly bytes: number
  readonly ranks: readonly number[]
}

/** The figures of one rank over the whole window or over one step. */
export interface RankDocument {
  readonly rank: number
  readonly startUs: number
  readonly wallUs: number
  readonly busyUs: number
  readonly idleUs: number
  readonly computeUs: number
  readonly commUs: number
  readonly copyUs: number
  /** The share of communication that overlaps with compute, in percent, or null if there is no communication. */
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
    /** The launch tax, which is the sum of dispatch and gap. */
    readonly launchUs: number
    /**
     * The exposed waiting time, so that the parts add up to the wall time. `hiddenWaitUs` is the waiting time that
     * overlaps with compute.
     */
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    readonly hiddenWaitUs: number | null
    /**
     * The locality tax is part of busy time and is not added to the other parts. The field is null if the trace
     * contains no shapes.
     */
    readonly localityBytes: number | null
    readonly localityUs: readonly [low: number, high: number] | null
    /**
     * The remaining time: wall − compute − launch − wait − exposed transfer. The field `other` contains the parts of
     * the remaining time.
     */
    readonly otherUs: number
  }
  readonly other: {
    readonly exposedCopyUs: number
    /**
     * The time in which a processor had nothing to do while another processor of the rank was busy. It is missing in
     * documents of earlier versions, and 0 for traces of other programs, in which a rank is one processor.
     */
    readonly vacantUs?: number
    readonly hostBlockedUs: number
    readonly hostAbsentUs: number
    readonly dependencyUs: number
    readonly unattributedUs: number
    /** Exposed communication that cannot be split into wait and transfer. */
    readonly unsplitCommUs: number
  }
  /** The bulk synchronous tax: wait + exposed transfer + communication that cannot be split. */
  readonly exposedCommUs: number
  readonly launches: number
}

export interface StepDocument {
  readonly name: string
  readonly number: number
  readonly ranks: readonly RankDocument[]
}

/** A process group, identified by its name and its ranks, since groups of different ranks may have the same name. */
export interface GroupDocument {
  readonly group: string
  readonly description: string | null
  /** The ranks of the group that have a trace. */
  readonly ranks: readonly number[]
  readonly collectives: number
  /**
   * These values are sums over the group's ranks. Waits and transfers are those of this group that are exposed, as in
   * the ledger of a rank. An interval in which two groups both wait, or both transfer, counts for each group.
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
  /** The rank that arrived last, or null if only one rank is known or the last rank is unknown. */
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
  /** The clock offset that was added to the rank's times. */
  readonly correctionUs: number
  readonly driftPpm: number
  readonly residualUs: number | null
}

/**
 * A rank for which other ranks waited. The list of stragglers is sorted by exposed waiting time, with the largest
 * first.
 */
export interface StragglerDocument {
  readonly rank: number
  /** The waiting time that this rank caused, summed over the waiting ranks, each in its own window. */
  readonly keptWaitingUs: number
  /**
   * The part of the caused waiting time that costs time, because it overlaps neither with compute nor with a transfer.
   */
  readonly exposedWaitUs: number
  /**
   * How late the rank was, summed over the collectives at which it was last. It is measured from the arrival of the
   * previous rank.
   */
  readonly lateUs: number
  readonly collectives: number
  readonly waiters: readonly {
    readonly rank: number
    readonly waitUs: number
    readonly exposedWaitUs: number
  }[]
  readonly worst: readonly {
    /** The index of the collective in `collectives`. */
    readonly collective: number
    readonly kind: string | null
    readonly group: string | null
    readonly startUs: number
    readonly keptWaitingUs: number
    readonly lateUs: number
  }[]
  /** What the rank did while at least one other rank was already waiting for it, with the longest activity first. */
  readonly meanwhile: readonly {
    /** The kind of activity: compute, collective, copy, or a part of idle time. */
    readonly what: string
    readonly name: string | null
    readonly operator: string | null
    readonly us: number
  }[]
}

/**
 * A set of kernels whose work one fused kernel could do. The list of candidates is sorted by saving, with the largest
 * first.
 */
export interface CandidateDocument {
  readonly kind: 'compute-collective-compute' | 'small-kernels' | 'producer-consumer'
  /** The operators or kernels of the chain, in order. */
  readonly chain: readonly string[]
  /** The number of occurrences of the chain on all ranks together. */
  readonly count: number
  readonly ranks: readonly number[]
  /** The largest possible saving in time, summed over ranks. `saves` contains the parts of this saving. */
  readonly savesUs: number
  readonly saves: {
    readonly launchUs: number
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    /** Exposed communication that cannot be split into wait and transfer. */
    readonly unsplitCommUs: number
    /** The upper end of the estimated locality tax. */
    readonly localityUs: number | null
  }
  readonly localityBytes: number | null
  /** An Arke operation whose shapes match, or null if there is none. */
  readonly operation: {
    readonly name: string
    /** The shapes of the chain's costliest occurrence. */
    readonly shapes: string
    /** The number of other shapes with which the chain occurs. */
    readonly otherShapes: number
    /** The command that measures the operation with these shapes. */
    readonly command: string
  } | null
  /** The rank and time of the costliest occurrence. */
  readonly example: { readonly rank: number; readonly startUs: number; readonly durUs: number }
}

export interface WarningDocument {
  readonly class: string
  readonly message: string
  readonly count: number
}
