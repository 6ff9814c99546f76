/**
 * Adds estimated collectives to the matches: the calls of tied ranks (ties.ts) and the messages between two ranks
 * (messages.ts). The remaining calls are matched one by one (match.ts).
 */
import { AGREEMENT } from './agreement.ts'
import type { Calls, Lane } from './calls.ts'
import { type Clock, toCommon } from './collective.ts'
import { crossing, type Estimate } from './estimate.ts'
import type { Matches } from './matches.ts'
import { type Messages, messagesOf } from './messages.ts'
import { EndingTogether, isSingle } from './ties.ts'

/**
 * Adds the estimated collectives of a lane (a communicator or stream). The returned lane has the remaining calls, which
 * belong to no estimated collective.
 */
export function takeEstimated(lane: Lane, estimate: Estimate, matches: Matches): Lane {
  const source = estimate.corrects ? 'corrected' : 'estimated'
  const doubtful = crossing(estimate.sections)
  if (!isCovered(lane, estimate)) return lane
  const taken = new Map(lane.ranks.map((calls) => [calls, new Uint8Array(calls.events.length)]))
  for (const { lane: of, program, section, tied } of estimate.sections) {
    if (of !== lane) continue
    for (const one of tied) {
      const { rows } = one
      if (rows.length < 2) continue
      const single = isSingle(section, rows)
      const together = new EndingTogether(section, one)
      for (const [k, column] of section.columns.entries()) {
        const here = together.rows(k)
        let members = 0
        for (const row of rows) {
          const calls = program.calls[row]
          const call = column - program.rows[row].first
          if (!here.has(row)) continue
          const own = taken.get(calls)
          if (own) own[call] = 1
          matches.member(calls.rank, calls.events[call])
          members++
        }
        if (members > 0) matches.close(lane.by, doubtful.has(one) ? 'doubtful' : source, single)
      }
    }
  }
  return { ...lane, ranks: lane.ranks.flatMap((calls) => without(calls, taken.get(calls))) }
}

/**
 * The minimum share of the calls in a lane (a communicator or stream) that must have a counterpart on another rank.
 * With a smaller share, the order of calls is not the same on all ranks.
 */
const COVERED = 0.95
/**
 * The maximum number of ranks of a lane (a communicator or stream) that is matched call by call if too few of its calls
 * are covered. With more ranks, matching call by call is too slow.
 */
const FEW_RANKS = 16

function isCovered(lane: Lane, { sections }: Estimate): boolean {
  if (lane.ranks.length > FEW_RANKS) return true
  let [covered, all] = [0, 0]
  for (const { events } of lane.ranks) all += events.length
  for (const { lane: of, section, tied } of sections) {
    if (of !== lane) continue
    for (const one of tied) {
      if (one.rows.length < 2) continue
      const together = new EndingTogether(section, one)
      for (let k = 0; k < section.columns.length; k++) {
        if (together.rows(k).size < together.present(k)) return false
        covered += together.present(k)
      }
    }
  }
  return covered >= COVERED * all
}

/**
 * Adds the messages between two ranks to the matches. Returns the lanes (communicators or streams) that do not consist
 * of messages.
 */
export function takeMessages(
  lanes: readonly Lane[],
  estimate: Estimate,
  clocks: readonly Clock[],
  known: { isTied(a: number, b: number): boolean },
  matches: Matches,
): Lane[] {
  const isTrusted = (a: number, b: number): boolean =>
    estimate.corrects ? known.isTied(a, b) : estimate.isTrusted
  const source = estimate.corrects ? 'corrected' : 'estimated'
  return lanes.flatMap((lane) => {
    const mayLeaveEarly = lane.ranks.every(({ loose }) => loose.every((one) => one === 1))
    if (!mayLeaveEarly || lane.ranks.length < 2 || isOfAll(lane, clocks)) return [lane]
    let isSure = isTrusted
    let found = messagesOf(lane, { clocks, isTrusted, agreement: AGREEMENT })
    // If the trace's clocks match nearly all messages, they are preferred to unknown clocks.
    if (!estimate.corrects && !estimate.isTrusted) {
      const own = messagesOf(lane, { clocks, isTrusted: () => true, agreement: AGREEMENT })
      const count = (some: readonly Messages[]): number =>
        some.reduce((sum, { calls }) => sum + calls.length, 0)
      if (count(own) >= MOST_MESSAGES * count(found)) {
        found = own
        isSure = () => true
      }
    }
    const taken = new Map(lane.ranks.map((calls) => [calls, new Uint8Array(calls.events.length)]))
    for (const { a, b, calls, isExplained } of found)
      for (const [x, y] of calls) {
        const [first, second] =
          a.rank < b.rank ? [[a, x] as const, [b, y] as const] : [[b, y] as const, [a, x] as const]
        for (const [own, call] of [first, second]) {
          matches.member(own.rank, own.events[call])
          taken.get(own)?.fill(1, call, call + 1)
        }
        const own = isSure(a.rank, b.rank) ? source : isExplained ? 'corrected' : 'guessed'
        matches.close(lane.by, own, true)
      }
    const ranks = lane.ranks.flatMap((calls) => without(calls, taken.get(calls)))
    for (const { rank, events } of ranks) for (const event of events) matches.alone(rank, event)
    return []
  })
}

/**
 * True if the calls of a lane (a communicator or stream) are collectives of all its ranks and not messages: more than
 * two ranks leave each call together. Kernels that send and receive are used not only for messages but also for
 * collectives such as all-to-all.
 */
function isOfAll({ ranks }: Lane, clocks: readonly Clock[]): boolean {
  const [{ ends }] = ranks
  if (ranks.length < 3 || ranks.some((calls) => calls.ends.length !== ends.length)) return false
  for (let call = 0; call < ends.length; call++) {
    const all = ranks.map((calls) => toCommon(clocks[calls.rank], calls.ends[call]))
    if (Math.max(...all) - Math.min(...all) > AGREEMENT) return false
  }
  return true
}

/**
 * The trace's clocks are used for messages if the search finds with these clocks at least this share of the number of
 * messages that it finds without known clocks.
 */
const MOST_MESSAGES = 0.9

/**
 * The calls that belong to no estimated collective or message, as a list of one element, or an empty list if no such
 * calls are left.
 */
function without(calls: Calls, taken: Uint8Array | undefined): Calls[] {
  const left = (_: number, i: number): boolean => taken?.[i] !== 1
  const some = {
    ...calls,
    events: calls.events.filter(left),
    signatures: calls.signatures.filter(left),
    loose: calls.loose.filter(left),
    starts: calls.starts.filter(left),
    ends: calls.ends.filter(left),
  }
  return some.events.length > 0 ? [some] : []
}
