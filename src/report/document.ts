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
   * calls may belong to different groups. No rank is blamed for the waiting in a collective whose `lastRank` is null.
   * `commUs` is the time in collectives whose last rank is unknown, summed over ranks.
   */
  readonly doubtful?: { readonly collectives: number; readonly commUs: number }
  /**
   * The ranks without recorded work that take part in collectives of several recorded ranks. `unlisted` counts ranks
   * whose numbers the traces do not list. `collectives` counts the collectives in which ranks without recorded work
   * take part, so that waiting is a lower bound and transfer an upper bound; `complete` counts all other collectives of
   * several ranks. The field `untraced` is missing if there is no collective of several recorded ranks and a rank
   * without recorded work.
   */
  readonly untraced?: {
    readonly ranks: readonly number[]
    readonly unlisted: number
    readonly collectives: number
    readonly complete: number
  }
  readonly candidates: readonly CandidateDocument[]
  /**
   * The causes of lost time that can be fixed, over all categories of the ledger, with the most important first. The
   * bounds of all fixes together never exceed the wall time of all ranks. Documents of earlier versions have no fixes.
   */
  readonly fixes?: readonly FixDocument[]
  /** The host's activities in the idle time of each rank. Documents of earlier versions lack the field `host`. */
  readonly host?: readonly HostDocument[]
  /**
   * The device work by kernel and by operator, sorted by time. Documents of earlier versions lack `kernels` and
   * `operators`.
   */
  readonly kernels?: readonly WorkDocument[]
  readonly operators?: readonly WorkDocument[]
  /** The collectives by kind, group and size. Documents of earlier versions lack the field `bandwidths`. */
  readonly bandwidths?: readonly BandwidthDocument[]
  /**
   * A sentence that states the share of GPU time that is lost, and the rank that causes most of the waiting. Documents
   * of earlier versions have no headline.
   */
  readonly headline?: string
  /**
   * Three sentences: about the biggest tax, about the rank that caused most of the waiting, and about the first thing
   * to fix.
   */
  readonly summary: readonly string[]
  readonly warnings: readonly WarningDocument[]
}

/**
 * A list that may create its elements on demand, since it may have hundreds of thousands of elements. In JSON, a list
 * that creates its elements on demand is an array.
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
     * The exposed waiting time. Only exposed times are counted, so that all categories add up to the wall time.
     * `hiddenWaitUs` is the waiting time that overlaps with compute.
     */
    readonly waitUs: number | null
    readonly exposedTransferUs: number | null
    readonly hiddenWaitUs: number | null
    /**
     * The locality tax is contained in busy time and is not added to the other categories. The bytes and the time of
     * the locality tax are null if the trace contains no shapes.
     */
    readonly localityBytes: number | null
    readonly localityUs: readonly [low: number, high: number] | null
    /**
     * The remaining time: wall − compute − launch − wait − exposed transfer. The field `other` divides the remaining
     * time into categories.
     */
    readonly otherUs: number
  }
  /**
   * The time of one-off idle intervals in each category of idle time. The mean times in the report's sentences do not
   * include one-off idle intervals. The field `once` is missing in documents of earlier versions and in the figures of
   * single steps.
   */
  readonly once?: {
    readonly dispatchUs: number
    readonly gapUs: number
    readonly hostBlockedUs: number
    readonly hostAbsentUs: number
    readonly dependencyUs: number
    readonly unattributedUs: number
  }
  readonly other: {
    readonly exposedCopyUs: number
    /**
     * The time in which a processor had nothing to do while another processor of the rank was busy. The field
     * `vacantUs` is missing in documents of earlier versions, and 0 for traces that Arke did not record, in which a
     * rank is one processor.
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
   * The times of a process group are sums over its ranks. Only exposed waits and transfers of the group are counted, as
   * in the ledger of a rank. An interval in which two groups both wait, or both transfer, counts for each group.
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
  /**
   * The rank that arrived last, or null if only one rank is known, the last rank is unknown, or the last two arrivals
   * differ by less than the clocks' residual.
   */
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
  /** The waiting time that this rank caused and that overlaps neither with compute nor with a transfer. */
  readonly exposedWaitUs: number
  /**
   * The lateness of the rank, summed over the collectives at which this rank arrived last. At each collective, lateness
   * is the time from the arrival of the second-latest rank to the arrival of the last rank.
   */
  readonly lateUs: number
  readonly collectives: number
  readonly waiters: readonly {
    readonly rank: number
    readonly waitUs: number
    readonly exposedWaitUs: number
  }[]
  readonly worst: readonly {
    /** The index of the collective in the document's list `collectives`. */
    readonly collective: number
    readonly kind: string | null
    readonly group: string | null
    readonly startUs: number
    readonly keptWaitingUs: number
    readonly lateUs: number
  }[]
  /**
   * Divides the additional time that the late rank took, compared with the second-latest rank, since the previous
   * collective of these two ranks. The causes are more work, slower compute at equal work, compute whose amount of work
   * is unknown, and time without compute. The field `because` is null if the ranks share no earlier collective, and
   * missing in documents of earlier versions.
   */
  readonly because?: {
    readonly moreWorkUs: number
    readonly slowerUs: number
    readonly unknownUs: number
    readonly idleUs: number
    readonly kernels: readonly {
      readonly name: string
      readonly moreWorkUs: number
      readonly slowerUs: number
      readonly unknownUs: number
      /**
       * The late rank's amount of work, and its time per unit of work, as multiples of those of the second-latest rank;
       * null if unknown.
       */
      readonly work: number | null
      readonly pace: number | null
      readonly shapes: readonly [late: string, other: string] | null
    }[]
  } | null
  /**
   * The activities of the late rank's host while other ranks waited and the late rank's device was idle, with the
   * longest activity first.
   */
  readonly host?: readonly Omit<ObservationDocument, 'bytes'>[]
  /** The exposed waiting that would not occur if this rank alone had arrived together with the second-latest rank. */
  readonly savesUs?: number
  /**
   * The late rank's activities while at least one other rank was already waiting for it, with the longest activity
   * first.
   */
  readonly meanwhile: readonly {
    /** The kind of activity: compute, collective, copy, or a category of idle time. */
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
  /**
   * The largest possible saving in time, summed over ranks. `saves` splits the saving by kind of tax.
   */
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
    /** The tensor shapes in the costliest occurrence of the chain. */
    readonly shapes: string
    /** The number of other shapes with which the chain occurs. */
    readonly otherShapes: number
    /** The command that measures the operation with these shapes. */
    readonly command: string
  } | null
  /** The rank and time of the costliest occurrence of the chain. */
  readonly example: { readonly rank: number; readonly startUs: number; readonly durUs: number }
}

/** A cause of lost time and its remedy. Times are summed over ranks. */
export interface FixDocument {
  /** The cause, one of `causes` in src/taxes/fix.ts. */
  readonly cause: string
  /**
   * True if the lost time is that of a one-off event. The times of other fixes do not include the time of a one-off
   * event.
   */
  readonly once: boolean
  /** The cause of the lost time, and the advice. */
  readonly what: string
  readonly advice: string
  /** The evidence: calls, operators, annotations or frames, with their number, duration and place. */
  readonly evidence: string
  /** The time that the cause takes, and the largest time that the fix can save. */
  readonly us: number
  readonly savesUs: number
  /**
   * The lower end of the time that the cause costs, if the cost is an interval. Fixes are sorted by the middle of the
   * interval.
   */
  readonly leastUs?: number
  /** If the advice is to fuse kernels: an upper bound on how much of the cause's time the fusion saves. */
  readonly fusionSavesUs?: number
  /**
   * If the cause is that the host waits: the idle time between the wait and the host's next launch. Other fixes count
   * this idle time, although it would not occur if the host did not wait.
   */
  readonly followingUs?: number
  readonly count: number
  /** The ranks that lose the time; for a straggler, the late rank. */
  readonly ranks: readonly number[]
  readonly seen: readonly ObservationDocument[]
  /** The longest occurrence. */
  readonly example: { readonly rank: number; readonly startUs: number; readonly durUs: number } | null
  /** A command that tries an operation of Arke in place of the kernels that lose the time, or null. */
  readonly command: string | null
}

export interface ObservationDocument {
  /**
   * The kind of activity, one of `hostActivities`, or `kernel`, `copy`, `collective`, `idle`, or `late` for a rank that
   * arrived last, whose number is in `name`.
   */
  readonly activity: string
  readonly name: string | null
  /** The operator, annotation, frame or process group that contains the activity. */
  readonly inside: string | null
  readonly us: number
  readonly count: number
  readonly longestUs: number
  readonly bytes: number | null
}

/** The host's activities in one category of a rank's idle time, with the longest activity first. */
export interface HostDocument {
  readonly rank: number
  readonly part: string
  readonly us: number
  readonly activities: readonly (Omit<ObservationDocument, 'bytes'> & { readonly pct: number })[]
}

/** The device work of one kernel or operator, summed over ranks. */
export interface WorkDocument {
  readonly name: string
  /**
   * The kind of the work: kernel, memcpy, memset or communication. An operator has the kind of its first device work.
   */
  readonly kind: string
  readonly us: number
  /** The share of the wall time of all ranks, in percent. */
  readonly pct: number
  readonly calls: number
  readonly longestUs: number
  /**
   * The mean and the minimum time from the start of the launch to the start of the work, which includes waiting for
   * earlier work; null if no launch was recorded.
   */
  readonly latencyUs: number | null
  readonly leastLatencyUs: number | null
}

/**
 * Collectives of the same kind, group and size. Bandwidths are defined as in nccl-tests, with the time measured from
 * the arrival of the last rank.
 */
export interface BandwidthDocument {
  readonly kind: string
  readonly group: string | null
  readonly dtype: string | null
  readonly ranks: number | null
  readonly count: number
  readonly bytes: number | null
  /** The median time from the last arrival to the end of a collective, or null if it is unknown. */
  readonly medianUs: number | null
  /** Bandwidths in GB/s, or null if they are unknown. */
  readonly algorithmGBs: number | null
  readonly busGBs: number | null
  /** The bandwidth of the device's links in one direction. */
  readonly linkGBs: number | null
}

export interface WarningDocument {
  readonly class: string
  readonly message: string
  readonly count: number
}
