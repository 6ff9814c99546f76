/**
 * What was wrong with an input, by class and kind: the first occurrence in words and how often there was another. A reader
 * never throws on bad input; it goes on with what is good and says here what it left out. An analysis says here what
 * it had to assume.
 */

export type WarningClass =
  | 'garbage' // bytes that are no trace
  | 'truncated' // the input ends inside a document
  | 'gzip' // the compressed stream is damaged
  | 'documents' // several JSON documents in one file
  | 'too-large' // a value or a set of names beyond the limit
  | 'unreadable' // the file cannot be read
  | 'no-events' // nothing to audit
  | 'time' // a time that is absent or not a number
  | 'negative-duration'
  | 'correlation' // device work without the host call that enqueued it
  | 'duplicate-correlation'
  | 'duplicate-event'
  | 'duplicate-rank'
  | 'rank' // the rank is guessed
  | 'overlap' // two events of one stream at once
  | 'before-launch' // device work starts before the call that enqueued it
  | 'before-recording' // device work that was enqueued before the recording began
  | 'several-ranks' // more than one rank in one document
  | 'missing-ranks' // ranks of a group that have no trace
  | 'groups' // the ranks of process groups are guessed
  | 'unmatched' // a collective without its counterpart on another rank
  | 'clock' // clocks of ranks that disagree
  | 'steps' // steps that are absent, empty, detected or not the same on all ranks
  | 'shapes' // operators without the shapes of their operands
  | 'device' // a device whose memory is not known
  | 'format' // a file that is no trace of a known kind

export interface Warning {
  readonly class: WarningClass
  /** The first one of its kind. */
  readonly message: string
  readonly count: number
}

/** What the ranks that have something in common have of it, added up. */
export interface Tally {
  /** Their numbers, ascending. */
  readonly ranks: readonly number[]
  readonly count: number
  /** As a rule a time in nanoseconds, and of how much it is a part. */
  readonly amount: number
  readonly of: number
}

interface Known {
  message: () => string
  count: number
}

/** How many kinds of message a class has at most; what is left counts with the last. */
const MOST_KINDS = 8

export class Warnings {
  private readonly byClass = new Map<WarningClass, Map<string, Known>>()
  private readonly tallies = new Map<Known, { ranks: Set<number>; amount: number; of: number }>()

  /**
   * `message` is only called for the first of its kind: there may be a million of them. A class that says different
   * things tells them apart by `kind`.
   */
  add(of: WarningClass, message: () => string, count = 1, kind = ''): void {
    const [known, isNew] = this.known(of, kind)
    known.count += count
    if (!isNew) return
    const text = message()
    known.message = () => text
  }

  /**
   * Adds what one rank has of something that others may have too. The message is made when all are known, so that it can
   * name the ranks and add up their times; it is that of the first.
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

  /** By class, then by kind, each in order of the first. */
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
