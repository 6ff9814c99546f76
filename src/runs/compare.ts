/** Two ledgers side by side: what each part of the time and the bytes through memory cost before and after. */
import { type RunLedger, type RunPart, runPartNames } from './results.ts'

export interface Change {
  readonly before: number
  readonly after: number
  /** After less before: below 0 is a saving. */
  readonly difference: number
}

export interface LedgerComparison {
  readonly wall: Change
  /** Their differences add up to that of wall. */
  readonly parts: Readonly<Record<RunPart, Change>>
  readonly locality: {
    readonly bytes: Change
    /** At most: at least it is 0. */
    readonly time: Change
  }
}

export function compareLedgers(before: RunLedger, after: RunLedger): LedgerComparison {
  const change = (of: (ledger: RunLedger) => number): Change => {
    const [was, is] = [of(before), of(after)]
    return { before: was, after: is, difference: is - was }
  }
  return {
    wall: change(({ wall }) => wall),
    parts: Object.fromEntries(
      runPartNames.map((part) => [part, change(({ parts }) => parts[part])]),
    ) as LedgerComparison['parts'],
    locality: {
      bytes: change(({ locality }) => locality.bytes),
      time: change(({ locality }) => locality.time[1]),
    },
  }
}
