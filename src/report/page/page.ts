/**
 * Starts the page. The page reads the embedded blocks of data, shows the bars as soon as the header is read, and shows
 * the tracks when all blocks are read.
 */
import { blockOfRank, collectivesBlock, headerBlock, type PackedHeader } from '../packed.ts'
import { count } from '../units.ts'
import { Bars } from './bars.ts'
import { canInflate, inflate } from './blocks.ts'
import { culpritBadge, culpritFirst } from '../culprit.ts'
import { keepAddress } from './address.ts'
import { byId, element, Tooltip } from './dom.ts'
import { explainMarked } from './explain.ts'
import { listen } from './input.ts'
import { Model } from './model.ts'
import { Overview } from './overview.ts'
import { Panel } from './panel.ts'
import { Search } from './search.ts'
import { watchTheme } from './theme.ts'
import { Tracks } from './tracks.ts'
import { unpackCollectives, unpackRank } from './unpack.ts'

async function start(): Promise<void> {
  const status = byId('status')
  const recolour: (() => void)[] = []
  watchTheme(() => recolour.forEach((one) => one()))
  if (!canInflate()) {
    status.textContent =
      'This browser cannot decompress the data of the tracks and bars (it lacks DecompressionStream). The tables below are complete; browsers from 2023 or later also show the tracks and bars.'
    return
  }
  const header = JSON.parse(new TextDecoder().decode(await inflate(headerBlock))) as PackedHeader
  const tooltip = new Tooltip()
  explainMarked(tooltip)
  const bars = new Bars(header)
  performance.mark('arke-bars')

  const collectives = unpackCollectives(header, await inflate(collectivesBlock))
  const ranks = await Promise.all(
    header.ranks.map(async (packed, i) => unpackRank(packed, collectives, await inflate(blockOfRank(i)))),
  )
  const model = new Model(header, ranks, collectives)
  performance.mark('arke-unpacked')
  const tracks = new Tracks(model)
  const panel = new Panel(model, tracks)
  const overview = new Overview(tracks)
  listen(tracks, panel, tooltip)
  new Search(model, tracks, panel)
  listTracks(model)
  recolour.push(
    () => overview.recolour(),
    () => tracks.recolour(),
  )
  jumps(tracks, panel)
  bars.chosen = (step, rank) => showStep(model, tracks, step, rank)
  keepAddress(tracks)

  status.textContent = ''
  const first = (): void => {
    tracks.drawn.splice(tracks.drawn.indexOf(first), 1)
    // The callback runs after the browser has presented the frame that contains the drawing.
    setTimeout(() => {
      performance.mark('arke-drawn')
      document.documentElement.dataset.state = 'ready'
    })
  }
  tracks.drawn.push(first)
  tracks.invalidate()
}

/** Lists the tracks as text for screen readers. */
function listTracks({ ranks, header: { culprit } }: Model): void {
  byId('tracks-list').replaceChildren(
    ...culpritFirst(ranks, culprit).map(({ rank, device, lanes }) =>
      element(
        'li',
        { 'data-rank': String(rank) },
        `Rank ${rank}${rank === culprit ? ` (${culpritBadge})` : ''}${device === null ? '' : ` on ${device}`}: `,
        lanes
          .map(
            ({ stream, row, events }) =>
              `stream ${stream}${row > 0 ? ` row ${row + 1}` : ''}, ${count(events)} events`,
          )
          .join('; '),
      ),
    ),
  )
  const leftOut = ranks.reduce((sum, { leftOut: { events } }) => sum + events, 0)
  const hidden = ranks.reduce(
    (sum, { lanes }) => sum + lanes.reduce((part, lane) => part + lane.hidden, 0),
    0,
  )
  byId('tracks-hidden').textContent = [
    hidden > 0 ? `${count(hidden)} events are not drawn, since more than six overlap on one stream.` : '',
    leftOut > 0
      ? `${count(leftOut)} short events of host threads are left out, since the page would be too large.`
      : '',
  ]
    .filter((text) => text !== '')
    .join(' ')
}

/** Shows a step, or the whole window, on the tracks of one rank or of all ranks. */
function showStep({ header, ranks }: Model, tracks: Tracks, step: number | null, rank: number | null): void {
  if (step === null) {
    tracks.view.show(...header.window)
    tracks.invalidate()
    return
  }
  const own = header.steps[step].ranks.filter((one) => rank === null || one.rank === rank)
  if (own.length === 0) return
  const from = Math.min(...own.map(({ startUs }) => 1000 * startUs))
  const to = Math.max(...own.map(({ startUs, wallUs }) => 1000 * (startUs + wallUs)))
  const room = 0.02 * (to - from)
  tracks.view.show(from - room, to + room)
  const place = ranks.findIndex((one) => one.rank === rank)
  if (place >= 0) tracks.reveal(tracks.layout.groups[place])
  tracks.invalidate()
}

/** Connects the table buttons that jump to a place on the tracks. */
function jumps(tracks: Tracks, panel: Panel): void {
  document.addEventListener('click', (event) => {
    const button = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-jump]') : null
    if (button === null) return
    const { from, to, rank, collective } = button.dataset
    const place = tracks.model.ranks.findIndex((one) => String(one.rank) === rank)
    if (collective !== undefined && Number(collective) < tracks.model.collectives.length) {
      panel.showCollective(Number(collective))
      tracks.goTo(...tracks.model.span(Number(collective)), place < 0 ? null : place)
    } else {
      panel.clear()
      tracks.goTo(Number(from), Number(to), place < 0 ? null : place)
    }
    byId('timeline').scrollIntoView({ block: 'start' })
    tracks.canvas.focus({ preventScroll: true })
  })
}

start().catch((error: unknown) => {
  byId('status').textContent = `The tracks cannot be shown: ${String(error)}`
  throw error
})
