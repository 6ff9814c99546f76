/**
 * Keeps the view in the page's address, so that a link or a reload shows the same view. The address contains the
 * visible interval in nanoseconds, the folded ranks, and the search text. The address changes in place, so that the
 * browser's history stays short.
 */
import { byId } from './dom.ts'
import type { Tracks } from './tracks.ts'

/** The delay in milliseconds between the last change of the view and the update of the address. */
const PAUSE = 200

export function keepAddress(tracks: Tracks): void {
  const search = byId<HTMLInputElement>('search')
  const { view } = tracks
  const home = [view.from, view.to, tracks.state] as const
  const read = (): void => {
    const values = new URLSearchParams(location.hash.slice(1))
    const [from, to] = [values.get('from'), values.get('to')].map((text) =>
      text === null ? NaN : Number(text),
    )
    if (Number.isFinite(from) && Number.isFinite(to) && from < to) view.show(from, to)
    const state = values.get('ranks')
    if (state !== null) tracks.state = state
    const find = values.get('find') ?? ''
    if (find !== search.value) {
      search.value = find
      search.dispatchEvent(new Event('input'))
    }
    tracks.invalidate()
  }
  let pending = 0
  const write = (): void => {
    const values = new URLSearchParams()
    if (view.from !== home[0] || view.to !== home[1]) {
      values.set('from', String(Math.round(view.from)))
      values.set('to', String(Math.round(view.to)))
    }
    if (tracks.state !== home[2]) values.set('ranks', tracks.state)
    if (search.value !== '') values.set('find', search.value)
    const hash = values.toString()
    // An anchor of the page stays in the address until the view changes.
    if (hash === '' && !location.hash.includes('=')) return
    if (`#${hash}` !== location.hash) history.replaceState(null, '', hash === '' ? '#' : `#${hash}`)
  }
  const later = (): void => {
    clearTimeout(pending)
    pending = window.setTimeout(write, PAUSE)
  }
  read()
  tracks.drawn.push(later)
  search.addEventListener('input', later)
  window.addEventListener('hashchange', read)
}
