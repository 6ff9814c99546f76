/**
 * Joins the timelines of several files. Each file has its own table of names, and the joined timeline has one copy of
 * each name. Name columns are renumbered in place if the new ids fit, so the input timelines must not be used after
 * this call. All ranks must have different rank numbers.
 */
import { unsigned } from './columns.ts'
import type { RankTimeline, Timeline } from './timeline.ts'

export function joinTimelines(parts: readonly Timeline[]): Timeline {
  const names: string[] = []
  const ids = new Map<string, number>()
  const ranks: RankTimeline[] = []
  for (const part of parts) {
    let same = true
    const renumbered = Uint32Array.from(part.names, (name, index) => {
      let id = ids.get(name)
      if (id === undefined) {
        id = names.push(name) - 1
        ids.set(name, id)
      }
      same &&= id === index
      return id
    })
    for (const rank of part.ranks) {
      const { events } = rank
      // If all names of a rank keep their ids, the rank's column of names remains unchanged.
      if (same) {
        ranks.push(rank)
        continue
      }
      const type = unsigned(names.length)
      const fits = events.name.BYTES_PER_ELEMENT >= type.BYTES_PER_ELEMENT
      const name = fits ? events.name : new type(events.length)
      for (let i = 0; i < events.length; i++) name[i] = renumbered[events.name[i]]
      ranks.push({ ...rank, events: { ...events, name } })
    }
  }
  ranks.sort((a, b) => a.rank - b.rank)
  for (let i = 1; i < ranks.length; i++)
    if (ranks[i].rank === ranks[i - 1].rank)
      throw new Error(`rank ${ranks[i].rank} is in two of the timelines that are joined`)
  return { ranks, names }
}
