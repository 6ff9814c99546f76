/**
 * Collects warnings about an input. Warnings are grouped by class and kind. The message of the first warning in a group
 * is kept, and further warnings are counted. A reader never throws on bad input. A reader continues with the readable
 * part of its input and warns about the rest. An analysis warns about the assumptions that it had to make.
 */

export type WarningClass =
  | 'garbage' // bytes that are not a trace
  | 'truncated' // the input ends inside a document
  | 'gzip' // the compressed stream is damaged
  | 'documents' // several JSON documents in one file
  | 'too-large' // a value or a set of names beyond the limit
  | 'unreadable' // the file cannot be read
  | 'no-events' // the file has no events to audit
  | 'time' // a time is absent or not a number
  | 'negative-duration'
  | 'correlation' // device work without the host call that enqueued it
  | 'duplicate-correlation'
  | 'duplicate-event'
  | 'duplicate-rank'
  | 'rank' // the rank number is guessed or was not used
  | 'overlap' // two events of one stream overlap
  | 'before-launch' // device work starts before the call that enqueued it
  | 'before-recording' // device work that was enqueued before the recording began
  | 'several-ranks' // more than one rank in one document
  | 'missing-ranks' // ranks of a process group have no trace
  | 'groups' // the ranks of process groups are guessed
  | 'unmatched' // a collective call without its counterpart on another rank
  | 'clock' // the clocks of ranks disagree
  | 'steps' // steps are absent, empty, detected by repetition, or not the same on all ranks
  | 'shapes' // operators without the shapes of their operands
  | 'device' // the memory bandwidth of a device is unknown
  | 'format' // the file is not a trace of a known format

export interface Warning {
  readonly class: WarningClass
  /** The message of the first warning of its kind. */
  readonly message: string
  readonly count: number
}

/** The ranks to which one warning applies, and their totals. */
export interface Tally {
  /** The numbers of these ranks, in ascending order. */
  readonly ranks: readonly number[]
  readonly count: number
  /** `amount` is usually a time in nanoseconds, and `of` is the total of which it is a part. */
  readonly amount: number
  readonly of: number
}

interface Known {
  message: () => string
  count: number
}

/**
 * The largest number of kinds of messages per class. Kinds beyond this number are counted together with the last kind.
 */
const MOST_KINDS = 8

export class Warnings {
  private readonly byClass = new Map<WarningClass, Map<string, Known>>()
  private readonly tallies = new Map<Known, { ranks: Set<number>; amount: number; of: number }>()

  /**
   * Adds a warning. `message` is called only for the first warning of its kind, since there may be a million warnings
   * of that kind. `kind` distinguishes different messages within one class.
   */
  add(of: WarningClass, message: () => string, count = 1, kind = ''): void {
    const [known, isNew] = this.known(of, kind)
    known.count += count
    if (!isNew) return
    const text = message()
    known.message = () => text
  }

  /**
   * Adds a warning that may apply to several ranks. The message is formatted when all ranks are known, so that it can
   * list the ranks and their total time. If several calls have the same kind, the `message` function of the first call
   * is used.
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
