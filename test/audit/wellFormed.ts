/** Checks that hold for the audit of any input: parts add up, all numbers are finite, and all indices are valid. */
import type { Ledger } from '../../src/taxes/audit.ts'
import type { Audited } from './auditFiles.ts'

/** Returns a description of each inconsistency that the checks find. */
export function problemsOf({ timeline, found, document }: Audited): string[] {
  const problems: string[] = []
  const must = (holds: boolean, what: string): void => {
    if (!holds) problems.push(what)
  }
  const ledger = (what: string, { wall, busy, idle, parts, compute, communication, copy }: Ledger): void => {
    const values = Object.values(parts)
    must(
      values.every((time) => Number.isSafeInteger(time) && time >= 0),
      `${what}: a part that is no time`,
    )
    const sum = values.reduce((all, time) => all + time, 0)
    must(sum === wall, `${what}: the parts add up to ${sum}, wall is ${wall}`)
    must(busy + idle === wall && busy >= 0 && idle >= 0, `${what}: busy ${busy} and idle ${idle} of ${wall}`)
    for (const time of [compute, communication, copy])
      must(time >= 0 && time <= wall, `${what}: ${time} of ${wall}`)
  }
  for (const { index, ledger: all, steps } of found.ranks) {
    must(timeline.ranks[index] !== undefined, `a rank ${index} that is not there`)
    ledger(`rank ${index}`, all)
    for (const one of steps) ledger(`rank ${index}, ${one.step.name}`, one.ledger)
  }
  let number = -1
  for (const { members, last, endSkew } of found.collectives) {
    number++
    must(Number.isFinite(endSkew), `collective ${number}: end skew ${endSkew}`)
    must(
      last === null || members.some(({ rank }) => rank === last),
      `collective ${number}: last rank ${last}`,
    )
    for (const { rank, event, wait, transfer } of members) {
      const duration = timeline.ranks[rank]?.events.duration[event] ?? NaN
      const split = wait === null && transfer === null
      must(
        Number.isFinite(duration) &&
          (split ||
            ((wait ?? NaN) >= 0 && (transfer ?? NaN) >= 0 && (wait ?? 0) + (transfer ?? 0) === duration)),
        `collective ${number}, rank ${rank}: ${wait} and ${transfer} of ${duration}`,
      )
    }
  }
  for (const { rank, offset, drift, correction } of found.clocks)
    must([offset, drift, correction].every(Number.isFinite), `the clock of rank ${rank}`)
  for (const { rank, keptWaiting, waiters } of found.stragglers) {
    const sum = waiters.reduce((all, { wait }) => all + wait, 0)
    must(
      Number.isFinite(keptWaiting) && Math.abs(sum - keptWaiting) <= waiters.length,
      `straggler ${rank}: ${sum} of ${keptWaiting}`,
    )
  }
  // `JSON.stringify` would turn non-finite numbers into null.
  const visit = (value: unknown, path: string): void => {
    if (typeof value === 'number') must(Number.isFinite(value), `the document's ${path} is ${value}`)
    else if (typeof value === 'object' && value !== null && Symbol.iterator in value)
      for (const [i, inner] of [...(value as Iterable<unknown>)].entries()) visit(inner, `${path}.${i}`)
    else if (typeof value === 'object' && value !== null)
      for (const [key, inner] of Object.entries(value)) visit(inner, `${path}.${key}`)
  }
  visit(document, '')
  return problems.slice(0, 20)
}
