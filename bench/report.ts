/**
 * Measures the speed of opening and panning the HTML report of a million-event audit:
 *
 *   npx tsx bench/report.ts [--json] [--rounds N]
 *
 * The report is written once and opened in the installed Chromium (headless, software rendering), in a fresh page per
 * round. The figure `open` is the time from the start of the navigation to the first complete drawing, according to the
 * page's own marks. A pan frame is the time between two display frames while the pointer drags the tracks, at three
 * magnifications.
 */
import { mkdtempSync, rmSync, statSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { writeReport } from '../src/report/html.ts'
import { isDeviceWork } from '../src/timeline/timeline.ts'
import { Chromium, findChromium, type Page } from '../test/report/chromium.ts'
import { makeSample } from '../test/report/sample.ts'
import { measure, present } from './measure.ts'

const program = findChromium()
if (program === null) {
  console.error('Cannot open the report: no chromium, chromium-browser or google-chrome was found.')
  process.exit(1)
}
const at = process.argv.indexOf('--rounds')
const rounds = at > 0 ? Number(process.argv[at + 1]) : 7

const sample = makeSample({ ranks: 8, steps: 40, layers: 64, kernels: 48 })
const events = sample.timeline.ranks.reduce(
  (sum, { events: { kind } }) => sum + kind.reduce((n, one) => n + (isDeviceWork(one) ? 1 : 0), 0),
  0,
)
const folder = mkdtempSync(join(tmpdir(), 'arke-report-'))
const file = join(folder, 'report.html')

/** Drags the tracks for 40 frames at one magnification and returns the times between frames in milliseconds. */
const drag = (factor: number): string => `(async () => {
  const canvas = document.getElementById('tracks-canvas')
  const box = canvas.getBoundingClientRect()
  const frame = () => new Promise((done) => requestAnimationFrame(done))
  const key = (key) => canvas.dispatchEvent(new KeyboardEvent('keydown', { key }))
  const send = (type, x) => canvas.dispatchEvent(new PointerEvent(type, {
    pointerId: 1, pointerType: 'mouse', button: 0, buttons: 1, clientX: box.left + x, clientY: box.top + 200, bubbles: true }))
  canvas.setPointerCapture = () => undefined
  key('0')
  for (let magnified = 1; magnified < ${factor}; magnified *= 1.5) key('+')
  await frame(); await frame()
  send('pointerdown', 900)
  const times = []
  let x = 900, last = await frame()
  for (let i = 0; i < 40; i++) {
    send('pointermove', (x -= i < 20 ? 17 : -17))
    const now = await frame()
    times.push(now - last)
    last = now
  }
  send('pointerup', x)
  return times
})()`

const share = (values: readonly number[], of: number): number =>
  [...values].sort((a, b) => a - b)[Math.min(values.length - 1, Math.floor(of * values.length))]

const browser = new Chromium(program)
try {
  let page: Page | undefined
  const figures = await measure(
    [
      {
        name: 'write the file',
        unit: 's',
        sample: async () => {
          const start = performance.now()
          await writeFile(file, writeReport(sample))
          return (performance.now() - start) / 1000
        },
      },
      { name: 'size of the file', unit: 'MB', sample: () => statSync(file).size / 1e6 },
      {
        name: 'open until the first complete drawing',
        unit: 's',
        sample: async () => {
          await page?.close()
          page = await browser.page(1440, 900)
          await page.open(pathToFileURL(file).href)
          return (
            (await page.evaluate<number>(`performance.getEntriesByName('arke-drawn')[0].startTime`)) / 1000
          )
        },
        goal: { text: 'under 2', reached: (median) => median < 2 },
      },
      ...[2, 40, 2000].map((factor) => ({
        name: `pan frame, 95th percentile, ${factor} times magnified`,
        unit: 'ms',
        sample: async () => share((await page?.evaluate<number[]>(drag(factor))) ?? [], 0.95),
        goal: { text: 'under 50', reached: (median: number) => median < 50 },
      })),
    ],
    rounds,
  )
  if (page && page.complaints.length > 0) throw new Error(page.complaints.join('\n'))
  present(`The HTML report of ${events} device events`, figures)
} finally {
  await browser.close()
  rmSync(folder, { recursive: true, force: true })
}
