/**
 * The audit as one JSON document. `arke audit --json` prints it, the terminal and the HTML page show it, and
 * `--compare` reads it. Times are in microseconds, with nanoseconds as fractions. `null` means that the traces do not
 * contain the value. `startUs` is on the common clock, relative to the start of the earliest window of all ranks.
 */

export interface AuditDocument {
  /** The version of Arke that wrote the document. */
  readonly arke: string
  readonly sources: readonly SourceDocument[]
  /** The requested steps, or null for all steps. */
  readonly chosenSteps: readonly [first: number, last: number] | null
  readonly ranks: readonly RankDocument[]
  readonly steps: readonly StepDocument[]
  readonly groups: readonly GroupDocument[]
  readonly collectives: DocumentList<CollectiveDocument>
  readonly clocks: readonly ClockDocument[]
  readonly stragglers: readonly StragglerDocument[]
  /**
   * Collectives of several ranks whose `lastRank` is null, because the traces do not list the process groups and the
   * calls may belong to different groups. These collectives blame no rank. `commUs` is the time in them, summed over
   * ranks.
   */
  readonly doubtful?: { readonly collectives: number; readonly commUs: number }
  readonly candidates: readonly CandidateDocument[]
  /**
   * A sentence with the share of GPU time that is lost, and the rank that causes most of the waiting. Missing in
   * documents of earlier versions.
   */
  readonly headline?: string
  /** Three sentences: the biggest tax, the culprit, and what to fix first. */
  readonly summary: readonly string[]
  readonly warnings: readonly WarningDocument[]
}

/** A list that may create its elements on demand, since there may be hundreds of thousands. In JSON it is an array. */
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
  /** The share of communication that overlaps with compute, in percent; null without communication. */
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
    /** The sum of dispatch and gap. */
    readonly launchUs: number
    /** The exposed wait, so that the parts add up to wall. `hiddenWaitUs` is the wait that overlaps with compute. */
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    readonly hiddenWaitUs: number | null
    /**
     * The locality tax is part of busy time and is not added to the other parts. Null if the trace contains no shapes.
     */
    readonly localityBytes: number | null
    readonly localityUs: readonly [low: number, high: number] | null
    /** wall − compute − launch − wait − exposed transfer. The field `other` contains its parts. */
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
  /** wait + exposed transfer + communication that cannot be split. */
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
   * Sums over the group's ranks. Waits and transfers are the exposed ones of this group, as in the ledger of a rank. An
   * interval in which two groups both wait, or both transfer, counts for each of them.
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
  /** The rank that arrived last; null if only one rank is known or if the last rank is unknown. */
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
  /** The offset that was added to the rank's times. */
  readonly correctionUs: number
  readonly driftPpm: number
  readonly residualUs: number | null
}

/** A rank that others waited for. The list is sorted by exposed waiting, the largest first. */
export interface StragglerDocument {
  readonly rank: number
  /** The wait that this rank caused, summed over the waiting ranks, each in its window. */
  readonly keptWaitingUs: number
  /** The part of that wait that costs time: it overlaps neither with compute nor with a transfer. */
  readonly exposedWaitUs: number
  /**
   * The rank's lateness, summed over the collectives at which it was last: the time since the previous rank arrived.
   */
  readonly lateUs: number
  readonly collectives: number
  readonly waiters: readonly {
    readonly rank: number
    readonly waitUs: number
    readonly exposedWaitUs: number
  }[]
  readonly worst: readonly {
    /** The index into `collectives`. */
    readonly collective: number
    readonly kind: string | null
    readonly group: string | null
    readonly startUs: number
    readonly keptWaitingUs: number
    readonly lateUs: number
  }[]
  /** The rank's activities while the first of the other ranks was already waiting, the longest first. */
  readonly meanwhile: readonly {
    /** The activity: compute, collective, copy, or a part of idle time. */
    readonly what: string
    readonly name: string | null
    readonly operator: string | null
    readonly us: number
  }[]
}

/** Work that one fused kernel could do. The list is sorted by saving, the largest first. */
export interface CandidateDocument {
  readonly kind: 'compute-collective-compute' | 'small-kernels' | 'producer-consumer'
  /** The operators or kernels, in order. */
  readonly chain: readonly string[]
  /** The number of occurrences over all ranks. */
  readonly count: number
  readonly ranks: readonly number[]
  /** The largest possible saving, summed over ranks. `saves` contains its parts. */
  readonly savesUs: number
  readonly saves: {
    readonly launchUs: number
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    /** Exposed communication that cannot be split into wait and transfer. */
    readonly unsplitCommUs: number
    /** The upper end of the locality tax. */
    readonly localityUs: number | null
  }
  readonly localityBytes: number | null
  /** An Arke operation whose shapes match; null if there is none. */
  readonly operation: {
    readonly name: string
    /** The shapes of the costliest occurrence. */
    readonly shapes: string
    /** The number of other shapes that the chain has. */
    readonly otherShapes: number
    /** The command that measures the operation with these shapes. */
    readonly command: string
  } | null
  /** The location of the costliest occurrence. */
  readonly example: { readonly rank: number; readonly startUs: number; readonly durUs: number }
}

export interface WarningDocument {
  readonly class: string
  readonly message: string
  readonly count: number
}
