/**
 * The panel below the tracks, which shows details of the selection. For a collective, the panel lists the arrival of
 * each rank and the time that the collective cost the rank.
 */
import { categories, TRANSFER, WAIT } from '../categories.ts'
import { time } from '../units.ts'
import { byId, describe, element } from './dom.ts'
import type { Model, Place } from './model.ts'
import type { Tracks } from './tracks.ts'

export class Panel {
  private readonly box = byId('panel')
  private readonly stage = byId('stage')
  private readonly empty: readonly Node[]
  private readonly model: Model
  private readonly tracks: Tracks
  /** The index of the selected collective in the page's list of collectives. */
  private at = -1

  constructor(model: Model, tracks: Tracks) {
    this.model = model
    this.tracks = tracks
    this.empty = [...this.box.childNodes]
  }

  clear(): void {
    this.tracks.select(null)
    this.box.replaceChildren(...this.empty)
    delete this.stage.dataset.selected
  }

  showEvent(place: Place): void {
    this.tracks.select({ kind: 'event', place })
    this.stage.dataset.selected = 'event'
    const { lane, event, rank } = place
    this.box.replaceChildren(
      ...describe(this.model.describeEvent(place)),
      this.zoomButton(() => this.tracks.goTo(lane.start[event], lane.end[event], rank)),
    )
  }

  /** Shows why the device of a rank was busy or idle. */
  showPart(rank: number, part: number): void {
    this.tracks.select(null)
    this.stage.dataset.selected = 'part'
    this.box.replaceChildren(...describe(this.model.describePart(rank, part)))
  }

  /**
   * Selects the next or the previous collective. If nothing is selected, the search starts from the visible interval.
   */
  step(by: 1 | -1): void {
    const { order } = this.model
    if (order.length === 0) return
    if (this.tracks.selection?.kind !== 'collective') {
      const { from } = this.tracks.view
      const next = order.findIndex((collective) => this.model.span(collective)[0] >= from)
      this.at = next < 0 ? order.length - 1 : next
    } else this.at = Math.min(Math.max(this.at + by, 0), order.length - 1)
    this.showCollective(order[this.at])
    const [from, to] = this.model.span(order[this.at])
    const { view } = this.tracks
    // The zoom level is kept unless the collective would be too small or too large on the screen.
    const last = this.model.collectives.last[order[this.at]]
    if (last >= 0) this.tracks.reveal(this.tracks.layout.groups[last])
    if (to - from < 0.005 * view.span || to - from > 0.9 * view.span) this.tracks.goTo(from, to, null)
    else if (from < view.from || to > view.to) {
      const middle = (from + to) / 2
      view.show(middle - view.span / 2, middle + view.span / 2)
    }
    this.tracks.invalidate()
  }

  showCollective(index: number): void {
    const { model } = this
    const { collectives, ranks } = model
    this.at = model.order.indexOf(index)
    this.tracks.select({ kind: 'collective', index })
    this.stage.dataset.selected = 'collective'
    const [first, end] = model.span(index)
    // The rank that arrived last is listed first, since it could be hard to find among many ranks.
    const isLate = (member: number): boolean => collectives.rank[member] === collectives.last[index]
    const members = [...model.members(index)].sort(
      (a, b) => Number(isLate(b)) - Number(isLate(a)) || collectives.rank[a] - collectives.rank[b],
    )
    const zoom = this.zoomButton(() => this.tracks.goTo(first, end, null))

    const table = element('table', { class: 'arrivals' })
    table.append(element('thead', {}, row('th', ['Rank', 'Arrived', 'Waited', 'Transfer', 'When'])))
    const body = element('tbody')
    for (const member of members) {
      const [wait, transfer] = [collectives.wait[member], collectives.transfer[member]]
      const isLast = isLate(member)
      const line = row('td', [
        `${ranks[collectives.rank[member]].rank}${isLast ? ' (last)' : ''}`,
        `+${time(collectives.start[member] - first)}`,
        wait < 0 ? 'unknown' : time(wait),
        transfer < 0 ? 'unknown' : time(transfer),
      ])
      line.append(element('td', { class: 'strip' }, this.strip(member, first, end)))
      if (isLast) line.className = 'last'
      body.append(line)
    }
    table.append(body)
    this.box.replaceChildren(
      element('p', { class: 'name' }, model.title(index)),
      element('p', {}, this.sentence(index, members)),
      element('div', { class: 'scroll', tabindex: '0', role: 'region', 'aria-label': 'Arrivals' }, table),
      zoom,
    )
  }

  private sentence(index: number, members: readonly number[]): string {
    const { collectives, ranks, header } = this.model
    const matched = header.labels[collectives.matchedBy[index]]
    const library = header.labels[collectives.library[index]]
    const last = collectives.last[index]
    const facts: string[] = []
    if (last < 0)
      facts.push(
        members.length < 2
          ? 'Only one rank of this collective is known, so its time cannot be split into waiting and transfer.'
          : 'Which rank was late is unknown: the traces do not list the ranks of process groups, and the matched calls may belong to different groups.',
      )
    else {
      const starts = members.map((member) => collectives.start[member])
      const late = Math.max(...starts) - Math.min(...starts)
      const waited = members.reduce((sum, member) => sum + Math.max(0, collectives.wait[member]), 0)
      facts.push(
        `Rank ${ranks[last].rank} arrived last, ${time(late)} after the first; the ${members.length} ranks waited ${time(waited)} in all.`,
      )
    }
    if (!collectives.complete[index] && last >= 0)
      facts.push('Traces of some ranks of this collective are missing, so the waits are lower bounds.')
    if (matched)
      facts.push(
        `The calls were matched by ${matched}; their ends are ${time(collectives.endSkew[index])} apart.`,
      )
    if (library) facts.push(`Library: ${library}.`)
    return facts.join(' ')
  }

  /** A strip with the wait and the transfer of a member, on the scale of the collective. */
  private strip(member: number, first: number, end: number): HTMLElement {
    const { start, duration, wait } = this.model.collectives
    const scale = (value: number): string => `${(100 * value) / Math.max(1, end - first)}%`
    const strip = element('div', { 'aria-hidden': 'true' })
    const part = (from: number, length: number, category: string): void => {
      const piece = element('span', { class: `is-${category}` })
      piece.style.left = scale(from - first)
      piece.style.width = scale(length)
      strip.append(piece)
    }
    const known = wait[member] >= 0
    if (known) part(start[member], wait[member], categories[WAIT].name)
    const waited = known ? wait[member] : 0
    part(start[member] + waited, duration[member] - waited, known ? categories[TRANSFER].name : 'unsplit')
    return strip
  }

  private zoomButton(action: () => void): HTMLElement {
    const button = element('button', { type: 'button' }, 'Zoom to it')
    button.addEventListener('click', action)
    return button
  }
}

function row(tag: 'td' | 'th', cells: readonly string[]): HTMLTableRowElement {
  return element('tr', {}, ...cells.map((cell) => element(tag, tag === 'th' ? { scope: 'col' } : {}, cell)))
}
