/** Two ledgers side by side: what each part of the time and the bytes through memory cost before and after, and in words. */
import { bytes, digits } from '../report/format.ts'
import { time } from '../report/units.ts'
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

const activities: Readonly<Record<RunPart, string>> = {
  useful: 'computing',
  launch: 'launching kernels',
  wait: 'waiting for other ranks',
  transfer: 'copying between ranks',
  other: 'having nothing to run',
}

/** Changes below this share of the time before are not worth a word. */
const NOTABLE = 0.01

/** In two or three sentences; the names are those of the variants. */
export function comparisonInWords(
  { wall, parts, locality }: LedgerComparison,
  names: { readonly before: string; readonly after: string },
): string {
  const sentences = [
    `${names.after} takes ${time(wall.after)}, ${names.before} ${time(wall.before)}: ${ratio(wall)}.`,
  ]
  const notable = runPartNames
    .filter((part) => Math.abs(parts[part].difference) >= NOTABLE * wall.before)
    .sort((a, b) => Math.abs(parts[b].difference) - Math.abs(parts[a].difference))
  if (notable.length > 0) {
    const told = notable.map((part) => {
      const { before, after, difference } = parts[part]
      const less = `${time(Math.abs(difference))} ${difference < 0 ? 'less' : 'more'}`
      return `${less} on ${activities[part]} (${time(before)} before, ${time(after)} now)`
    })
    sentences.push(`On average a rank spends ${listed(told)}.`)
  }
  const { before, after, difference } = locality.bytes
  if (difference !== 0) {
    const [was, is] = [before, after].map((count) => (count === 0 ? 'nothing' : bytes(count)))
    const effect = `${difference < 0 ? 'saves' : 'costs'} up to ${time(Math.abs(locality.time.difference))}`
    sentences.push(
      `Kernels hand each other ${is} through memory (${was} before), which ${effect} of the computing.`,
    )
  }
  return sentences.join(' ')
}

function ratio({ before, after }: Change): string {
  if (!(before > 0) || !(after > 0)) return 'one of them did nothing'
  const [slow, fast] = before > after ? [before, after] : [after, before]
  if (slow / fast < 1 + NOTABLE) return 'the same within 1 %'
  return `${digits(slow / fast)} times as ${before > after ? 'fast' : 'slow'}`
}

const listed = (things: readonly string[]): string =>
  things.length === 1 ? things[0] : `${things.slice(0, -1).join(', ')} and ${things[things.length - 1]}`
