/**
 * Compares two ledgers: computes the change of each category of time, and the change of the bytes passed through
 * memory.
 */
import { type RunLedger, type RunPart, runPartNames } from './results.ts'

export interface Change {
  readonly before: number
  readonly after: number
  /** The value in the ledger `after` minus the value in the ledger `before`. A negative change is a saving. */
  readonly difference: number
}

export interface LedgerComparison {
  readonly wall: Change
  /** The change of each category of the ledger. The changes of all categories add up to the change of `wall`. */
  readonly parts: Readonly<Record<RunPart, Change>>
  readonly locality: {
    readonly bytes: Change
    /** The change of the upper bound on the locality tax. The lower bound of the locality tax is always 0. */
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
