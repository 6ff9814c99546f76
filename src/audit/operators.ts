/**
 * Finds the operator of host calls and device work for which the trace has no operator id: the operator that was
 * running at the time of the host call.
 */
import type { RankBuilder } from '../timeline/builder.ts'
import { Kind, NONE } from '../timeline/timeline.ts'

export const isCall = (kind: Kind): boolean =>
  kind === Kind.launch || kind === Kind.synchronize || kind === Kind.runtime

/**
 * Links each host call without an operator to the innermost operator running on its thread, and then links device work
 * to the operator of its launch. `alone` is true if some host calls have no operator.
 */
export function linkRunningOperators(rank: RankBuilder, alone: boolean): void {
  if (alone) {
    const { order, bounds } = rank.inOrder()
    const running: number[] = []
    for (let track = 0; track + 1 < bounds.length; track++) {
      running.length = 0
      for (let i = bounds[track]; i < bounds[track + 1]; i++) {
        const event = order[i]
        const kind = rank.kind(event)
        const isOperator = kind === Kind.operator
        if (!isOperator && (!isCall(kind) || rank.operatorOf(event) !== NONE)) continue
        while (running.length > 0 && rank.end(running[running.length - 1]) <= rank.start(event)) running.pop()
        if (isOperator) running.push(event)
        else if (running.length > 0) rank.linkOperator(event, running[running.length - 1])
      }
    }
  }
  for (let event = 0; event < rank.length; event++) {
    if (rank.operatorOf(event) !== NONE || isCall(rank.kind(event))) continue
    const call = rank.launchOf(event)
    if (call !== NONE) rank.linkOperator(event, rank.operatorOf(call))
  }
}
