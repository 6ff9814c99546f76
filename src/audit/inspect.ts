/** What a rank's timeline itself shows to be odd, whatever trace it came from. */
import { isDeviceWork, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'

export function inspect(rank: RankTimeline, names: readonly string[], warnings: Warnings): void {
  const { start, duration, kind, name, launch } = rank.events
  const called = (event: number): string => names[name[event]].slice(0, 60)
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
        warnings.add('duplicate-event', () => `rank ${rank.rank} has ${called(event)} twice at the same time`)
      else if (start[event] < busyUntil)
        warnings.add(
          'overlap',
          () =>
            `rank ${rank.rank}: ${called(event)} starts on stream ${id} of device ${owner} before the work ahead of it ` +
            'has ended (programmatic dependent launches do that; counted once as busy)',
        )
      if (launch[event] !== NONE && start[event] < start[launch[event]])
        warnings.add('before-launch', () => `rank ${rank.rank}: ${called(event)} starts before its launch`)
      busyUntil = Math.max(busyUntil, start[event] + duration[event])
      last = event
    }
  }
}
