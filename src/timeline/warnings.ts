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

/** How many kinds of message a class has at most; what is left counts with the last. */
const MOST_KINDS = 8

export class Warnings {
  private readonly byClass = new Map<WarningClass, Map<string, { message: string; count: number }>>()

  /**
   * `message` is only called for the first of its kind: there may be a million of them. A class that says different
   * things tells them apart by `kind`.
   */
  add(of: WarningClass, message: () => string, count = 1, kind = ''): void {
    let kinds = this.byClass.get(of)
    if (!kinds) this.byClass.set(of, (kinds = new Map()))
    let known = kinds.get(kind)
    if (!known && kinds.size === MOST_KINDS) known = [...kinds.values()][MOST_KINDS - 1]
    if (known) known.count += count
    else kinds.set(kind, { message: message(), count })
  }

  /** By class, then by kind, each in order of the first. */
  list(): Warning[] {
    return [...this.byClass].flatMap(([of, kinds]) =>
      [...kinds.values()].map(({ message, count }) => ({ class: of, message, count })),
    )
  }
}
