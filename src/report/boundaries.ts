/**
 * The sorted starts and ends of a rank's events. A change from one category of a rank's time to another nearly always
 * coincides with the start or the end of an event. The page data therefore stores the number of event boundaries to
 * skip instead of the time, which halves the data.
 */

interface Lane {
  readonly start: Float64Array
  readonly end: Float64Array
}

/**
 * The maximum number of lanes (rows of a timeline) whose event boundaries are used: the lanes with the most events.
 * Using the event boundaries of more lanes would save only a few bytes.
 */
const LANES = 4

export class Boundaries {
  private readonly lanes: readonly Lane[]
  /**
   * The next event boundary of each lane (row of a timeline), and the time of that boundary. The number of a boundary
   * is twice the event's index, plus 1 if the boundary is the event's end.
   */
  private readonly at: Uint32Array
  private readonly time: Float64Array

  constructor(lanes: readonly Lane[]) {
    this.lanes = [...lanes].sort((a, b) => b.start.length - a.start.length).slice(0, LANES)
    this.at = new Uint32Array(this.lanes.length)
    this.time = Float64Array.from(this.lanes, ({ start }) => (start.length > 0 ? start[0] : Infinity))
  }

  /**
   * The time of the first boundary after `time`, or infinity if there is none. `time` must not decrease between calls.
   */
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
