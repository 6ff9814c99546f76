/**
 * A column with one number for each event on a rank's streams; the number is -1 at first. Most events are host events,
 * which need no space in this column.
 */
import { NONE, type RankTimeline } from '../timeline/timeline.ts'

export class StreamColumn {
  private readonly from: number
  private readonly values: Int32Array

  constructor({ tracks }: RankTimeline) {
    let [from, to] = [Infinity, 0]
    for (const track of tracks) {
      if (track.role !== 'stream') continue
      from = Math.min(from, track.from)
      to = Math.max(to, track.to)
    }
    this.from = Math.min(from, to)
    this.values = new Int32Array(to - this.from).fill(NONE)
  }

  /** The number that this column stores for an event. The event must be on a stream. */
  get(event: number): number {
    return this.values[event - this.from]
  }

  set(event: number, value: number): void {
    this.values[event - this.from] = value
  }
}
