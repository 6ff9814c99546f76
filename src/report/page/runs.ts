/**
 * Starts the page of measured runs. The page shows one benchmark point at a time and reads the timelines of a point
 * when the point is first shown.
 */
import { blockOfPoint, type PackedPoint } from '../runs/pictures.ts'
import { canInflate, inflate } from './blocks.ts'
import { byId, Tooltip } from './dom.ts'
import { explainMarked } from './explain.ts'
import { Timelines } from './runs/timelines.ts'
import { zoomByButtons } from './steer.ts'
import { watchTheme } from './theme.ts'
import { View } from './view.ts'

const articles = [...document.querySelectorAll<HTMLElement>('.point')]
const choice = document.querySelector<HTMLSelectElement>('#point')
const tooltip = new Tooltip()
const read = new Map<number, Timelines>()
let shown: Timelines | null = null

async function show(place: number): Promise<void> {
  for (const [i, article] of articles.entries()) article.hidden = i !== place
  if (choice !== null) choice.value = String(place)
  tooltip.hide()
  if (articles.length === 0 || !canInflate()) return
  let timelines = read.get(place)
  if (timelines === undefined) {
    const text = new TextDecoder().decode(await inflate(blockOfPoint(place)))
    timelines = new Timelines(articles[place], JSON.parse(text) as PackedPoint, tooltip)
    read.set(place, timelines)
  }
  shown = timelines
  timelines.recolour()
}

function start(): Promise<void> {
  watchTheme(() => shown?.recolour())
  explainMarked(tooltip)
  const nothing = new View(0, 1)
  zoomByButtons(
    {
      get view() {
        return shown?.view ?? nothing
      },
      invalidate: () => shown?.invalidate(),
    },
    () => shown?.view.fit(),
  )
  if (!canInflate())
    byId('status').textContent =
      'This browser cannot decompress the data of the timelines (it lacks DecompressionStream). Everything else on this page is complete; browsers from 2023 or later also show the timelines.'
  choose()
  return show(0)
}

/**
 * Selects a point. The user can choose a benchmark point in the list, by the buttons next to the list, or by any
 * element of the page that represents a point.
 */
function choose(): void {
  const go = (place: number): void => void show(place).catch(fail)
  choice?.addEventListener('change', () => go(Number(choice.value)))
  for (const [id, by] of [
    ['point-before', articles.length - 1],
    ['point-after', 1],
  ] as const)
    document
      .getElementById(id)
      ?.addEventListener('click', () => go((Number(choice?.value) + by) % articles.length))
  const lead = (event: Event): void => {
    const from = event.target instanceof Element ? event.target.closest<HTMLElement>('[data-point]') : null
    if (from === null) return
    event.preventDefault()
    go(Number(from.dataset.point))
    byId('timeline').scrollIntoView({ block: 'start' })
  }
  document.addEventListener('click', lead)
  // A column of an SVG chart is not an HTML button, so the page has to handle keys on it.
  document.addEventListener('keydown', (event) => {
    const onColumn = event.target instanceof SVGElement
    if (onColumn && (event.key === 'Enter' || event.key === ' ')) lead(event)
  })
}

function fail(error: unknown): never {
  byId('status').textContent = `The timelines cannot be shown: ${String(error)}`
  throw error
}

start().then(
  () => requestAnimationFrame(() => setTimeout(() => (document.documentElement.dataset.state = 'ready'))),
  fail,
)
