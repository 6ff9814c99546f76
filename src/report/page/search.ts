/**
 * Finds kernels and operators by a substring of their name, marks the matches on the tracks, counts them, and moves
 * from one match to the next. Device work is also found by the name of its operator.
 */
import { count, time } from '../units.ts'
import { byId } from './dom.ts'
import type { Model, Place } from './model.ts'
import type { Panel } from './panel.ts'
import type { Tracks } from './tracks.ts'

export class Search {
  private readonly model: Model
  private readonly tracks: Tracks
  private readonly panel: Panel
  private readonly input = byId<HTMLInputElement>('search')
  private readonly result = byId('search-result')
  private last: Place | null = null
  /** True if only events of host threads match the search text. */
  private onlyHosts = false

  constructor(model: Model, tracks: Tracks, panel: Panel) {
    this.model = model
    this.tracks = tracks
    this.panel = panel
    let pending = 0
    this.input.addEventListener('input', () => {
      clearTimeout(pending)
      pending = setTimeout(() => this.find(), 120)
    })
    this.input.addEventListener('keydown', (event) => {
      if (event.key !== 'Enter') return
      event.preventDefault()
      clearTimeout(pending)
      if (this.tracks.matches === null) this.find()
      this.next()
    })
  }

  private find(): void {
    const wanted = this.input.value.trim().toLowerCase()
    this.last = null
    this.tracks.invalidate()
    if (wanted === '') {
      this.tracks.matches = null
      this.result.textContent = ''
      return
    }
    const { names } = this.model.header
    const matching = Uint8Array.from(names, (name) => (name.toLowerCase().includes(wanted) ? 1 : 0))
    let [events, hosts, nanoseconds] = [0, 0, 0]
    const used = new Set<number>()
    this.tracks.matches = this.model.ranks.map(({ all }) =>
      all.map((lane) => {
        const found: number[] = []
        for (let event = 0; event < lane.name.length; event++) {
          const operator = lane.operator[event] - 1
          const own = matching[lane.name[event]] === 1
          // A host call is found by its own name only, since its operator is on the same thread.
          if (!own && (lane.isHost || operator < 0 || matching[operator] === 0)) continue
          found.push(event)
          used.add(own ? lane.name[event] : operator)
          if (!lane.isHost) nanoseconds += lane.end[event] - lane.start[event]
        }
        if (lane.isHost) hosts += found.length
        else events += found.length
        return Uint32Array.from(found)
      }),
    )
    this.onlyHosts = events === 0
    const onHost = hosts === 0 ? '' : ` and ${count(hosts)} on host threads`
    this.result.textContent =
      events + hosts === 0
        ? 'no event'
        : `${count(events)} events${onHost} of ${count(used.size)} names, ${time(nanoseconds)} in all; Enter: the next`
  }

  /** Moves to the match, on any rank, whose start time follows the start time of the match that was shown last. */
  private next(): void {
    if (this.tracks.matches === null) return
    const after = this.last === null ? this.tracks.view.from : this.last.lane.start[this.last.event]
    const later = (place: Place): number => place.lane.start[place.event]
    let best: Place | null = null
    let passed = this.last === null
    for (const [rank, lanes] of this.tracks.matches.entries())
      for (const [l, found] of lanes.entries()) {
        const lane = this.model.ranks[rank].all[l]
        // Hidden host threads are skipped, unless no other event matches.
        if (lane.isHost && !this.onlyHosts && !this.tracks.isOpen(rank)) continue
        for (let i = firstFrom(lane.start, found, after); i < found.length; i++) {
          const place = { rank, lane, event: found[i] }
          // Matches that start at the same time follow in the order of rank and timeline row (lane).
          if (later(place) === after && !passed) {
            if (this.last?.lane === lane && this.last.event === found[i]) passed = true
            continue
          }
          if (best === null || later(place) < later(best)) best = place
          break
        }
      }
    if (best === null) {
      this.last = null
      return
    }
    this.last = best
    const { lane, event, rank } = best
    this.panel.showEvent(best)
    const { view } = this.tracks
    const length = lane.end[event] - lane.start[event]
    if (length < 0.002 * view.span || length > view.span)
      this.tracks.goTo(lane.start[event], lane.end[event], rank)
    else {
      const middle = lane.start[event] + length / 2
      const half = view.span / 2
      this.tracks.goTo(middle - half / 2.2, middle + half / 2.2, rank)
    }
  }
}

function firstFrom(start: Float64Array, found: Uint32Array, time: number): number {
  let [low, high] = [0, found.length]
  while (low < high) {
    const middle = (low + high) >>> 1
    if (start[found[middle]] >= time) high = middle
    else low = middle + 1
  }
  return low
}
