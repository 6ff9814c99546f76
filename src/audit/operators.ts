/** Operators of host calls and device work, where no id in the trace names them: the one that was running. */
import type { RankBuilder } from '../timeline/builder.ts'
import { Kind, NONE } from '../timeline/timeline.ts'

export const isCall = (kind: Kind): boolean =>
  kind === Kind.launch || kind === Kind.synchronize || kind === Kind.runtime

/** Gives these calls the innermost operator that is running on their thread, and device work that of its launch. */
export function linkRunningOperators(rank: RankBuilder, calls: readonly number[]): void {
  if (calls.length > 0) {
    const events = [...calls]
    for (let event = 0; event < rank.length; event++)
      if (rank.kind(event) === Kind.operator) events.push(event)
    const outerFirst = (a: number, b: number): number =>
      Number(isCall(rank.kind(a))) - Number(isCall(rank.kind(b))) || rank.end(b) - rank.end(a)
    events.sort(
      (a, b) =>
        rank.trackIndex(a) - rank.trackIndex(b) || rank.start(a) - rank.start(b) || outerFirst(a, b) || a - b,
    )
    let running: number[] = []
    let track = NONE
    for (const event of events) {
      if (rank.trackIndex(event) !== track) {
        track = rank.trackIndex(event)
        running = []
      }
      while (running.length > 0 && rank.end(running[running.length - 1]) <= rank.start(event)) running.pop()
      if (rank.kind(event) === Kind.operator) running.push(event)
      else if (running.length > 0) rank.linkOperator(event, running[running.length - 1])
    }
  }
  for (let event = 0; event < rank.length; event++) {
    if (rank.operatorOf(event) !== NONE || isCall(rank.kind(event))) continue
    const call = rank.launchOf(event)
    if (call !== NONE) rank.linkOperator(event, rank.operatorOf(call))
  }
}
