/**
 * Sets of time, stored as sorted disjoint intervals: `[from, to, from, to, …]`. Intervals are half open, no interval is
 * empty, and no two intervals touch. All arithmetic is on integers below 2^53, so busy and idle time add up to the
 * nanosecond.
 */
import { Column, float64 } from './columns.ts'
import { countBefore } from './search.ts'
import { sortBy } from './sort.ts'
import { isDeviceWork, type RankTimeline } from './timeline.ts'

export type Intervals = Float64Array

/**
 * Allocates a set of time intervals with exactly the needed length. The function `write` is called twice: first with
 * null, to return the length, and a second time to write the values.
 */
function exactly(write: (out: Float64Array | null) => number): Intervals {
  const out = new Float64Array(write(null))
  write(out)
  return out
}

/** The union of events that are sorted by start. The union includes only events that `select` accepts. */
export function unionInOrder(
  starts: ArrayLike<number>,
  durations: ArrayLike<number>,
  from: number,
  to: number,
  select: (event: number) => boolean = () => true,
): Intervals {
  // The intervals are counted first, since many nested events yield few intervals.
  let count = 0
  let until = -Infinity
  for (let event = from; event < to; event++) {
    if (durations[event] <= 0 || !select(event)) continue
    if (starts[event] > until) count++
    until = Math.max(until, starts[event] + durations[event])
  }
  const out = new Float64Array(2 * count)
  let length = 0
  for (let event = from; event < to; event++) {
    if (durations[event] <= 0 || !select(event)) continue
    const stop = starts[event] + durations[event]
    if (length > 0 && starts[event] <= out[length - 1]) {
      if (stop > out[length - 1]) out[length - 1] = stop
    } else {
      out[length++] = starts[event]
      out[length++] = stop
    }
  }
  return out
}

/** Builds a set from intervals that are added in order. Intervals that touch are merged into one. */
export class SetWriter {
  private readonly edges = new Column(float64)
  private from = NaN
  private to = NaN

  add(from: number, to: number): void {
    if (from >= to) return
    if (from === this.to) this.to = to
    else {
      this.close()
      this.from = from
      this.to = to
    }
  }

  set(): Intervals {
    this.close()
    this.from = this.to = NaN
    return this.edges.all()
  }

  private close(): void {
    if (Number.isNaN(this.to)) return
    this.edges.push(this.from)
    this.edges.push(this.to)
  }
}

/** The union of intervals `[from, to, from, to, …]` that are given in any order. */
export function unionOf(pairs: ArrayLike<number>): Intervals {
  const count = pairs.length / 2
  const order = new Uint32Array(count)
  for (let i = 0; i < count; i++) order[i] = i
  sortBy(order, (a, b) => pairs[2 * a] - pairs[2 * b])
  return exactly((out) => {
    let [length, until] = [0, -Infinity]
    for (let i = 0; i < count; i++) {
      const from = pairs[2 * order[i]]
      const to = pairs[2 * order[i] + 1]
      if (to <= from) continue
      if (from > until) {
        if (out) out[length] = from
        length += 2
      }
      until = Math.max(until, to)
      if (out) out[length - 1] = until
    }
    return length
  })
}

/** The union of two sets: the time that is in `a` or in `b`. */
export function union(a: Intervals, b: Intervals): Intervals {
  if (a.length === 0) return b
  if (b.length === 0) return a
  return exactly((out) => {
    let [i, j, length, until] = [0, 0, 0, -Infinity]
    while (i < a.length || j < b.length) {
      const takeA = j >= b.length || (i < a.length && a[i] <= b[j])
      const from = takeA ? a[i] : b[j]
      const to = takeA ? a[i + 1] : b[j + 1]
      if (takeA) i += 2
      else j += 2
      if (from > until) {
        if (out) out[length] = from
        length += 2
      }
      until = Math.max(until, to)
      if (out) out[length - 1] = until
    }
    return length
  })
}

/** The intersection of two sets: the time that is in both `a` and `b`. */
export function intersection(a: Intervals, b: Intervals): Intervals {
  return exactly((out) => {
    let [i, j, length] = [0, 0, 0]
    while (i < a.length && j < b.length) {
      const from = Math.max(a[i], b[j])
      const to = Math.min(a[i + 1], b[j + 1])
      if (from < to) {
        if (out) {
          out[length] = from
          out[length + 1] = to
        }
        length += 2
      }
      if (a[i + 1] < b[j + 1]) i += 2
      else j += 2
    }
    return length
  })
}

/** The complement of a set: the time of the window that is not in `a`. */
export function complement(a: Intervals, from: number, to: number): Intervals {
  return exactly((out) => {
    let length = 0
    let at = from
    const add = (until: number): void => {
      if (out) {
        out[length] = at
        out[length + 1] = until
      }
      length += 2
    }
    for (let i = 0; i < a.length && a[i] < to; i += 2) {
      if (a[i] > at) add(a[i])
      at = Math.max(at, a[i + 1])
    }
    if (at < to) add(to)
    return length
  })
}

/** The difference of two sets: the time that is in `a` but not in `b`. */
export function difference(a: Intervals, b: Intervals): Intervals {
  if (a.length === 0 || b.length === 0) return a
  return exactly((out) => {
    let [j, length] = [0, 0]
    const add = (from: number, to: number): void => {
      if (out) {
        out[length] = from
        out[length + 1] = to
      }
      length += 2
    }
    for (let i = 0; i < a.length; i += 2) {
      let from = a[i]
      while (j < b.length && b[j + 1] <= from) j += 2
      for (let k = j; k < b.length && b[k] < a[i + 1]; k += 2) {
        if (b[k] > from) add(from, b[k])
        from = b[k + 1]
      }
      if (from < a[i + 1]) add(from, a[i + 1])
    }
    return length
  })
}

/**
 * The intersection of the set with a window. A binary search finds the intersection, because one set of time is often
 * clipped to many windows.
 */
export function clip(a: Intervals, from: number, to: number): Intervals {
  if (from >= to) return new Float64Array(0)
  const first = countBefore(a.length / 2, (i) => a[2 * i + 1] <= from)
  const last = countBefore(a.length / 2, (i) => a[2 * i] < to)
  if (last - first === a.length / 2 && (last === 0 || (a[0] >= from && a[a.length - 1] <= to))) return a
  const out = a.slice(2 * first, 2 * last)
  if (out.length > 0) {
    out[0] = Math.max(out[0], from)
    out[out.length - 1] = Math.min(out[out.length - 1], to)
  }
  return out
}

export function total(a: Intervals): number {
  let sum = 0
  for (let i = 0; i < a.length; i += 2) sum += a[i + 1] - a[i]
  return sum
}

/** The total time of the set inside a window. */
export function totalWithin(a: Intervals, from: number, to: number): number {
  let sum = 0
  for (
    let i = 2 * countBefore(a.length / 2, (at) => a[2 * at + 1] <= from);
    i < a.length && a[i] < to;
    i += 2
  )
    sum += Math.min(a[i + 1], to) - Math.max(a[i], from)
  return sum
}

/**
 * The time during which any stream of the rank runs an event that `select` accepts; by default, the busy time of the
 * device.
 */
export function activity(
  rank: RankTimeline,
  select: (event: number) => boolean = (event) => isDeviceWork(rank.events.kind[event]),
): Intervals {
  let busy: Intervals = new Float64Array(0)
  for (const { role, from, to } of rank.tracks)
    if (role === 'stream')
      busy = union(busy, unionInOrder(rank.events.start, rank.events.duration, from, to, select))
  return busy
}
