/**
 * Checks a rank's timeline for inconsistencies and adds a warning for each. The checks do not depend on the trace
 * format.
 */
import { rankNames } from '../timeline/ranges.ts'
import { calledEvent, isDeviceWork, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'

export function inspect(rank: RankTimeline, names: readonly string[], warnings: Warnings): void {
  const { start, duration, kind, name, launch } = rank.events
  const called = (event: number): string => calledEvent(names[name[event]])
  for (const { role, owner, id, from, to } of rank.tracks) {
    if (role !== 'stream') continue
    let busyUntil = -Infinity
    let last = NONE
    for (let event = from; event < to; event++) {
      if (!isDeviceWork(kind[event])) continue
      if (
        last !== NONE &&
        start[event] === start[last] &&
        name[event] === name[last] &&
        duration[event] === duration[last]
      )
        warnings.tally(
          'duplicate-event',
          rank.rank,
          ({ ranks }) =>
            `${rankNames(ranks)}: GPU work that is recorded twice at the same time, such as ${called(event)}, counts once as busy time`,
        )
      else if (start[event] < busyUntil)
        warnings.tally(
          'overlap',
          rank.rank,
          ({ ranks }) =>
            `${rankNames(ranks)}: GPU work such as ${called(event)} (stream ${id} of device ${owner}) starts before the previous work ` +
            'on its stream has ended; the overlap counts once as busy time (programmatic dependent launches cause such overlaps)',
        )
      if (launch[event] !== NONE && start[event] < start[launch[event]])
        warnings.tally(
          'before-launch',
          rank.rank,
          ({ ranks }) =>
            `${rankNames(ranks)}: GPU work such as ${called(event)} starts before the host call that launched it; ` +
            'the clocks of host and GPU disagree',
        )
      busyUntil = Math.max(busyUntil, start[event] + duration[event])
      last = event
    }
  }
}
