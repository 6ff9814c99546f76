/**
 * The starts and ends of a rank's events in order. Where a rank's time changes from one part to the next is nearly
 * always one of them, so the page can be told how many to go on instead of when: that is half of the data.
 */

interface Lane {
  readonly start: Float64Array
  readonly end: Float64Array
}

/** Lanes beyond the longest few would cost more time than they save bytes. */
const LANES = 4

export class Boundaries {
  private readonly lanes: readonly Lane[]
  /** Of each lane the boundary that comes next, as twice the event, and one more for its end; and its time. */
  private readonly at: Uint32Array
  private readonly time: Float64Array

  constructor(lanes: readonly Lane[]) {
    this.lanes = [...lanes].sort((a, b) => b.start.length - a.start.length).slice(0, LANES)
    this.at = new Uint32Array(this.lanes.length)
    this.time = Float64Array.from(this.lanes, ({ start }) => (start.length > 0 ? start[0] : Infinity))
  }

  /** The first after `time`, which never goes back; infinite after the last. */
  after(time: number): number {
    let next = Infinity
    for (let lane = 0; lane < this.time.length; lane++) {
      if (this.time[lane] <= time) this.advance(lane, time)
      if (this.time[lane] < next) next = this.time[lane]
    }
    return next
  }

  private advance(lane: number, time: number): void {
    const { start, end } = this.lanes[lane]
    const all = 2 * start.length
    let [at, now] = [this.at[lane], this.time[lane]]
    while (now <= time) {
      at++
      now = at >= all ? Infinity : at & 1 ? end[at >>> 1] : start[at >>> 1]
    }
    this.at[lane] = at
    this.time[lane] = now
  }
}
