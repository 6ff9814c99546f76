/**
 * Collects warnings about an input trace. Warnings are grouped by class and kind. The message of the first warning in a
 * group is kept, and further warnings are counted. A trace reader never throws on bad input. A trace reader continues
 * with the readable data of its input and warns about all other data. An analysis adds warnings about the assumptions
 * that it had to make.
 */

export type WarningClass =
  | 'garbage' // The file contains bytes that are not a trace.
  | 'truncated' // The input ends inside a document.
  | 'gzip' // The compressed stream is damaged.
  | 'documents' // The file contains several JSON documents.
  | 'too-large' // A value or a set of names exceeds a limit.
  | 'unreadable' // The file cannot be read.
  | 'no-events' // The file has no events to audit.
  | 'time' // A time is absent or not a number.
  | 'negative-duration'
  | 'correlation' // The trace lacks the host call that enqueued some device work.
  | 'duplicate-correlation'
  | 'duplicate-event'
  | 'duplicate-rank'
  | 'rank' // The rank number was guessed or was not used.
  | 'overlap' // Two events of one stream overlap.
  | 'before-launch' // Device work starts before the host call that enqueued it.
  | 'before-recording' // Device work was enqueued before the recording began.
  | 'several-ranks' // One document contains more than one rank.
  | 'missing-ranks' // Some ranks of a process group have no trace.
  | 'groups' // The ranks of process groups are guessed.
  | 'unmatched' // A collective call has no counterpart on another rank.
  | 'communication' // A job of several ranks has no communication.
  | 'clock' // The clocks of ranks disagree.
  | 'aligned' // Clocks were set by the times at which collectives end.
  | 'steps' // Steps are absent, empty, detected by repetition, or not the same on all ranks.
  | 'stacks' // The trace was recorded with stacks, which slows the host down.
  | 'shapes' // The trace lacks the shapes of operands.
  | 'device' // The memory bandwidth of a device is unknown.
  | 'format' // The file is not a trace of a known format.

export interface Warning {
  readonly class: WarningClass
  /** The message of the first warning of its kind. */
  readonly message: string
  readonly count: number
}

/** The ranks to which one warning applies, and the numbers that the message of the warning can state. */
export interface Tally {
  /** The numbers of the ranks to which the warning applies, in ascending order. */
  readonly ranks: readonly number[]
  readonly count: number
  /** `amount` is usually a time in nanoseconds, and `of` is the total of which `amount` is a share. */
  readonly amount: number
  readonly of: number
}

interface Known {
  message: () => string
  count: number
}

/**
 * The largest number of kinds of messages per class. Kinds of messages beyond the limit are counted together with the
 * last kind.
 */
const MOST_KINDS = 8

export class Warnings {
  private readonly byClass = new Map<WarningClass, Map<string, Known>>()
  private readonly tallies = new Map<Known, { ranks: Set<number>; amount: number; of: number }>()

  /**
   * Adds a warning to the collection. The function `message` is called only for the first warning of its kind, since
   * there may be a million warnings of that kind. The argument `kind` distinguishes different messages within one
   * class.
   */
  add(of: WarningClass, message: () => string, count = 1, kind = ''): void {
    const [known, isNew] = this.known(of, kind)
    known.count += count
    if (!isNew) return
    const text = message()
    known.message = () => text
  }

  /**
   * Adds a warning that may apply to several ranks. The message of a warning about several ranks is formatted when all
   * ranks are known, so that it can list the ranks and their total time. If several calls of `tally` have the same
   * kind, the `message` function of the first call is used.
   */
  tally(
    of: WarningClass,
    rank: number,
    message: (tally: Tally) => string,
    { count = 1, amount = 0, of: whole = 0 }: Partial<Omit<Tally, 'ranks'>> = {},
    kind = '',
  ): void {
    const [known, isNew] = this.known(of, kind)
    known.count += count
    let tally = this.tallies.get(known)
    if (!tally) this.tallies.set(known, (tally = { ranks: new Set(), amount: 0, of: 0 }))
    tally.ranks.add(rank)
    tally.amount += amount
    tally.of += whole
    const all = tally
    if (isNew)
      known.message = () =>
        message({ ...all, ranks: [...all.ranks].sort((a, b) => a - b), count: known.count })
  }

  private known(of: WarningClass, kind: string): [known: Known, isNew: boolean] {
    let kinds = this.byClass.get(of)
    if (!kinds) this.byClass.set(of, (kinds = new Map()))
    const found =
      kinds.get(kind) ?? (kinds.size === MOST_KINDS ? [...kinds.values()][MOST_KINDS - 1] : undefined)
    if (found) return [found, false]
    const made = { message: () => '', count: 0 }
    kinds.set(kind, made)
    return [made, true]
  }

  /** The warnings, sorted by class and then by kind, each in order of first occurrence. */
  list(): Warning[] {
    return [...this.byClass].flatMap(([of, kinds]) =>
      [...kinds.values()].map(({ message, count }) => ({
        class: of,
        message: message(),
        count: Math.max(1, count),
      })),
    )
  }
}
