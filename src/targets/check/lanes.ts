/**
 * Detects conflicts between the lanes (elements) of one operation. The lanes of a store or a copy act concurrently, in
 * no defined order. If two lanes write different values to one element, either value may be stored. A copy whose source
 * and target overlap may read elements that it has already written.
 */
import { storedValues } from '../../ir/ops/index.ts'
import { partyOf, type Memory, type Places } from './access.ts'
import type { Accessor } from './memory.ts'

/**
 * Reports the first two lanes that write different values to the same element, if indices may repeat. The function
 * `takes` returns true if a lane is not masked out.
 */
export function checkWrites(
  memory: Memory,
  by: Accessor,
  { buffer, index }: Places,
  takes: (lane: number) => boolean,
  value: (lane: number) => number,
): void {
  const writers = new Map<number, number>()
  for (let lane = 0; lane < index.length; lane++) {
    const at = index[lane]
    if (at < 0 || !takes(lane)) continue
    const other = writers.get(at)
    if (other === undefined) writers.set(at, lane)
    else if (isDifferent(value(other), value(lane))) {
      const place = buffer.describe(at)
      const values = `${value(other)} and ${value(lane)}`
      memory.say(
        'race',
        by,
        `lanes ${other} and ${lane} of this ${nameOf(by)} write different values (${values}) to ${place}; either value may remain`,
        [partyOf(by, `writes ${place} twice`)],
      )
      return
    }
  }
}

/**
 * Reports a lane of a copy within one buffer that reads an element that another lane of the same copy writes. A lane
 * that copies an element onto itself is harmless.
 */
export function checkOverlap(
  memory: Memory,
  by: Accessor,
  from: Places,
  to: Places,
  takes: (lane: number) => boolean,
): void {
  const writers = new Map<number, number>()
  to.index.forEach((at, lane) => at >= 0 && from.index[lane] >= 0 && takes(lane) && writers.set(at, lane))
  const reader = from.index.findIndex(
    (at, lane) => at >= 0 && to.index[lane] >= 0 && takes(lane) && (writers.get(at) ?? lane) !== lane,
  )
  if (reader < 0) return
  const place = from.buffer.describe(from.index[reader])
  memory.say(
    'race',
    by,
    `the source and the target of this ${nameOf(by)} overlap: ${place} is read and written in no defined order`,
    [partyOf(by, `reads and writes ${place}`)],
  )
}

/** Returns "copy" or "store" for a node: unlike a store, a copy has no stored value among its inputs. */
const nameOf = ({ node }: Accessor): string => (node && storedValues(node).length === 0 ? 'copy' : 'store')

/** True if two lanes write different values. In the comparison of lane values, NaN equals NaN, and 0 equals -0. */
const isDifferent = (a: number, b: number): boolean => a !== b && !(Number.isNaN(a) && Number.isNaN(b))
