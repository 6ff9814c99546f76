/**
 * Computes the row of coloured categories that the page draws for a rank. For a rank with several processors, each
 * instant of the row shows the category in which most processors are. Among equally common categories, the row shows
 * the first in the order of the ledger.
 */
import { type Part, partNames, type ProcessorTime } from '../taxes/ledger.ts'
import { type Intervals, SetWriter } from '../timeline/intervals.ts'
import { sortBy } from '../timeline/sort.ts'

export function mostCommonParts(
  processors: readonly Pick<ProcessorTime, 'parts'>[],
): Readonly<Record<Part, Intervals>> {
  if (processors.length === 1) return processors[0].parts
  const shown = partNames.map(() => new SetWriter())
  const counts = new Array<number>(partNames.length).fill(0)
  const { times, part, change } = edgesOf(processors)
  const order = Uint32Array.from(times, (_, edge) => edge)
  sortBy(order, (a, b) => times[a] - times[b])
  let from = 0
  for (const edge of order) {
    const most = counts.reduce((best, count, at) => (count > counts[best] ? at : best), 0)
    if (counts[most] > 0) shown[most].add(from, times[edge])
    from = times[edge]
    counts[part[edge]] += change[edge]
  }
  return Object.fromEntries(partNames.map((name, at) => [name, shown[at].set()])) as Record<Part, Intervals>
}

/** The times at which a processor enters or leaves a category. */
function edgesOf(processors: readonly Pick<ProcessorTime, 'parts'>[]) {
  const sets = processors.flatMap(({ parts }) => partNames.map((name) => parts[name]))
  const length = sets.reduce((sum, set) => sum + set.length, 0)
  const [times, part, change] = [new Float64Array(length), new Uint8Array(length), new Int8Array(length)]
  let edge = 0
  sets.forEach((set, n) => {
    for (let i = 0; i < set.length; i++, edge++) {
      times[edge] = set[i]
      part[edge] = n % partNames.length
      change[edge] = i % 2 === 0 ? 1 : -1
    }
  })
  return { times, part, change }
}
