/**
 * Tests the page of measured runs in a browser: timelines that zoom together, tooltips by pointer, tap and key, and
 * both themes.
 */
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runsPage } from '../../src/report/runs/html.ts'
import { runPartNames } from '../../src/runs/results.ts'
import { makeBench } from './benchSample.ts'
import { Chromium, findChromium, type Page } from './chromium.ts'

const program = findChromium()
if (program === null)
  console.log('skipped: there is no chromium, chromium-browser or google-chrome on the path')

const GUTTER = 116
/** The vertical centre of a lane in pixels, with two workers per rank. */
const laneAt = (rank: number, worker: number): number => 4 + rank * (2 * 26 - 2 + 8) + worker * 26 + 12

interface Stretch {
  readonly from: number
  readonly to: number
}

describe.skipIf(program === null)('the page of measured runs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'arke-runs-'))
  const sweep = [1, 16, 256]
  const bench = makeBench({ M: sweep, workers: 2 })
  let browser: Chromium
  let page: Page

  const save = (name: string, result = bench): string => {
    const file = join(folder, name)
    writeFileSync(file, runsPage(result))
    return pathToFileURL(file).href
  }
  /** A JavaScript expression for the canvases of the benchmark point that the page shows. */
  const canvases = `[...document.querySelectorAll('.point:not([hidden]) .variant canvas')]`
  const views = async (of = page): Promise<Stretch[]> => {
    await of.frame()
    return await of.evaluate(
      `${canvases}.map(({ dataset: { from, to } }) => ({ from: Number(from), to: Number(to) }))`,
    )
  }
  const box = (variant: number, of = page): Promise<{ x: number; y: number; width: number }> =>
    of.evaluate(`(({ x, y, width }) => ({ x, y, width }))(${canvases}[${variant}].getBoundingClientRect())`)
  const text = (selector: string, of = page): Promise<string> =>
    of.evaluate(`document.querySelector('${selector}').textContent`)
  const press = async (id: string, of = page): Promise<void> => {
    await of.evaluate(`document.getElementById('${id}').click()`)
    await of.frame()
  }
  const choose = async (place: number): Promise<void> => {
    await page.evaluate(
      `(() => { const one = document.getElementById('point'); one.value = '${place}'; one.dispatchEvent(new Event('change')) })()`,
    )
    await page.until(`${canvases}[0].dataset.to !== undefined`)
    await page.frame()
  }
  const tooltip = async (of = page): Promise<string | null> => {
    await of.frame()
    return await of.evaluate(
      `((box) => box.style.display === 'block' ? box.textContent : null)(document.querySelector('.tooltip'))`,
    )
  }
  /** The horizontal position of a time on a variant's canvas. */
  const place = async (nanoseconds: number, variant: number): Promise<number> => {
    const [{ from, to }] = await views()
    const { x, width } = await box(variant)
    return x + GUTTER + ((nanoseconds - from) / (to - from)) * (width - GUTTER)
  }

  beforeAll(async () => {
    browser = new Chromium(program as string)
    page = await browser.page(1280, 1000)
    await page.open(save('runs.html'))
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('opens from a file without a complaint and asks for nothing else', () => {
    expect(page.complaints).toEqual([])
    expect(page.requests.filter((url) => !url.startsWith('file:') && url !== 'data:,')).toEqual([])
  })

  test('has a lane for each worker of each rank of each variant, drawn, all on one scale', async () => {
    const drawn = await page.evaluate<{ height: number; colours: number[] }[]>(
      `${canvases}.map((canvas) => {
        const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true })
        copy.drawImage(canvas, 0, 0)
        return {
          height: canvas.offsetHeight,
          colours: ${JSON.stringify([laneAt(0, 0), laneAt(0, 1), laneAt(1, 0), laneAt(1, 1)])}.map((y) =>
            new Set(new Uint32Array(copy.getImageData(${GUTTER}, y, canvas.width - ${GUTTER}, 1).data.buffer)).size),
        }
      })`,
    )
    expect(drawn).toHaveLength(bench.points[0].variants.length)
    for (const { height, colours } of drawn) {
      expect(height).toBe(laneAt(1, 1) + 12 + 4)
      // Each lane shows at least four colours: useful work, transfer, wait, and the background after the end.
      for (const one of colours) expect(one).toBeGreaterThanOrEqual(4)
    }
    const [first, ...others] = await views()
    for (const other of others) expect(other).toEqual(first)
    expect(first.to).toBeGreaterThan(Math.max(...bench.points[0].variants.map(({ picture }) => picture.wall)))
  })

  test('has a bar for each variant whose pieces add up to its time', async () => {
    const bars = await page.evaluate<{ label: string; share: number; spoken: string; parts: string[] }[]>(
      `[...document.querySelectorAll('.point:not([hidden]) > .bars > li')].map((bar) => ({
        label: bar.querySelector('.bar-label').textContent,
        share: [...bar.querySelectorAll('.piece')].reduce((sum, piece) => sum + parseFloat(piece.style.width), 0),
        parts: [...bar.querySelectorAll('.piece')].map((piece) => piece.dataset.part),
        spoken: bar.querySelector('.bar').getAttribute('aria-label'),
      }))`,
    )
    const { variants } = bench.points[0]
    const longest = Math.max(...variants.map(({ ledger }) => ledger.wall))
    expect(bars.map(({ label }) => label)).toEqual(variants.map(({ variant }) => variant))
    for (const [i, { share, parts, spoken }] of bars.entries()) {
      expect(share).toBeCloseTo((100 * variants[i].ledger.wall) / longest, 1)
      expect(parts).toEqual(runPartNames.filter((part) => variants[i].ledger.parts[part] > 0))
      expect(spoken).toMatch(/Useful .*Launch .*Exposed transfer .*locality/)
    }
  })

  test('has a bar for each rank on demand', async () => {
    const labels = await page.evaluate<string[]>(
      `[...document.querySelectorAll('.point:not([hidden]) details .bar-label')].map((label) => label.textContent)`,
    )
    expect(labels).toEqual(
      bench.points[0].variants.flatMap(({ variant }) => [`${variant}, rank 0`, `${variant}, rank 1`]),
    )
  })

  test('zooms and moves all variants together, by button, key, wheel and drag', async () => {
    const [whole] = await views()
    await press('zoom-in')
    for (const { from, to } of await views()) expect(to - from).toBeCloseTo((whole.to - whole.from) / 2)
    await page.evaluate(`${canvases}[1].focus()`)
    await page.key('+')
    const [keyed] = await views()
    expect(keyed.to - keyed.from).toBeLessThan((whole.to - whole.from) / 2)
    const { x, y, width } = await box(1)
    await page.mouse('mouseWheel', x + 600, y + 20, { deltaX: 0, deltaY: -120, modifiers: 2 })
    const wheeled = await views()
    expect(wheeled[0].to - wheeled[0].from).toBeLessThan(keyed.to - keyed.from)
    await page.mouse('mousePressed', x + 700, y + 20)
    await page.mouse('mouseMoved', x + 650, y + 20, { button: 'left', buttons: 1 })
    await page.mouse('mouseMoved', x + 600, y + 20, { button: 'left', buttons: 1 })
    await page.mouse('mouseReleased', x + 600, y + 20)
    const dragged = await views()
    const moved = (100 / (width - GUTTER)) * (wheeled[0].to - wheeled[0].from)
    for (const [i, { from }] of dragged.entries()) expect(from - wheeled[i].from).toBeCloseTo(moved, 0)
    await page.key('0')
    for (const { from, to } of await views()) {
      expect(from).toBeCloseTo(whole.from)
      expect(to).toBeCloseTo(whole.to)
    }
  })

  test('tells label, part and duration of a span under the pointer', async () => {
    const variant = 3
    const { spans } = bench.points[0].variants[variant].picture.ranks[1].tracks[1]
    const span = spans.find(({ part }) => part === 'useful')
    if (span === undefined) throw new Error('the sample computes nothing')
    await page.evaluate(`${canvases}[${variant}].scrollIntoView({ block: 'center' })`)
    const { y } = await box(variant)
    await page.mouse('mouseMoved', await place((span.from + span.to) / 2, variant), y + laneAt(1, 1))
    const told = await tooltip()
    expect(told).toContain(span.label)
    expect(told).toContain('Useful')
    expect(told).toContain(`${((span.to - span.from) / 1000).toFixed(2)} µs`)
    expect(told).toContain('fused, rank 1, worker 1')
    await page.mouse('mouseMoved', 4, 4)
    expect(await tooltip()).toBeNull()
  })

  test('goes from span to span by keys, and says each', async () => {
    const { tracks } = bench.points[0].variants[0].picture.ranks[0]
    await page.evaluate(`${canvases}[0].focus()`)
    for (let i = 0; i < 3; i++) await page.key('ArrowRight')
    expect(await tooltip()).toContain(tracks[0].spans[2].label)
    expect(await text('#told')).toContain(tracks[0].spans[2].label)
    await page.key('ArrowLeft')
    expect(await tooltip()).toContain(tracks[0].spans[1].label)
    await page.key('ArrowDown')
    expect(await text('#told')).toContain('rank 0, worker 1')
    await page.key('Escape')
    expect(await tooltip()).toBeNull()
  })

  test('tells a bar and a column of a chart when they have the focus, and hides it after', async () => {
    await page.key('Tab')
    for (const selector of ['.point:not([hidden]) .bar', '.column']) {
      await page.evaluate(`document.querySelector('${selector}').focus()`)
      expect(await tooltip()).toMatch(/bsp.*Useful|pull.*push.*fused/)
      await page.evaluate(`document.activeElement.blur()`)
      expect(await tooltip()).toBeNull()
    }
  })

  test('charts the sweep: a line a variant, a mark and an interval a point, the line at 1', async () => {
    const charts = await page.evaluate<
      { lines: string[]; marks: number[]; intervals: number[]; one: number }[]
    >(
      `[...document.querySelectorAll('.chart')].map((chart) => ({
        lines: [...chart.querySelectorAll('[data-line]')].map((line) => line.dataset.line),
        marks: [...chart.querySelectorAll('[data-line]')].map((line) => line.querySelectorAll('.mark').length),
        intervals: [...chart.querySelectorAll('[data-line]')].map((line) => line.querySelectorAll('.interval').length),
        one: chart.querySelectorAll('.one').length,
      }))`,
    )
    expect(charts.map(({ lines }) => lines)).toEqual([
      ['pull', 'push', 'fused'],
      ['bsp', 'pull', 'push', 'fused'],
    ])
    for (const { marks, intervals, one } of charts) {
      expect(new Set([...marks, ...intervals])).toEqual(new Set([sweep.length]))
      expect(one).toBe(1)
    }
  })

  test('draws a loss below the line at 1', async () => {
    const points = bench.points.map((point) => ({
      ...point,
      variants: point.variants.map((one) =>
        one.variant === 'pull'
          ? { ...one, speedup: { median: 0.7, interval: [0.65, 0.75] as const, samples: 41 } }
          : one,
      ),
    }))
    const lossy = await browser.page(900, 700)
    await lossy.open(save('lossy.html', { ...bench, points }))
    const [pull, one] = await lossy.evaluate<number[]>(
      `['[data-line="pull"] .mark', '.one'].map((selector) => document.querySelector('.chart ' + selector).getBoundingClientRect().top)`,
    )
    expect(pull).toBeGreaterThan(one)
    expect(await lossy.evaluate(`document.querySelector('.chart .below').getBBox().height`)).toBeGreaterThan(
      20,
    )
    await lossy.close()
  })

  test('shows another point by the list, by its buttons, and by a column of a chart', async () => {
    const shown = (): Promise<string> =>
      page.evaluate(`[...document.querySelectorAll('.point:not([hidden])')].map(({ id }) => id).join()`)
    expect(await shown()).toBe('point-0')
    await choose(3)
    expect(await shown()).toBe('point-3')
    expect(await views()).toHaveLength(bench.points[3].variants.length)
    await press('point-after')
    expect(await shown()).toBe('point-0')
    await page.evaluate(`document.querySelectorAll('.column')[1].focus()`)
    await page.key('Enter')
    await page.until(`!document.getElementById('point-1').hidden && ${canvases}[0].dataset.to !== undefined`)
    expect(await page.evaluate(`document.getElementById('point').value`)).toBe('1')
    await choose(0)
  })

  test('changes the theme of page and timelines, and can be looked at in both', async () => {
    const ground = (): Promise<string> =>
      page.evaluate(`getComputedStyle(document.documentElement).backgroundColor`)
    const drawn = (): Promise<string> => page.evaluate(`${canvases}[0].toDataURL()`)
    const [light, lightDrawn] = [await ground(), await drawn()]
    await page.screenshot(join(folder, 'light.png'))
    await press('theme')
    await page.frame()
    expect(await ground()).not.toBe(light)
    expect(await drawn()).not.toBe(lightDrawn)
    await page.screenshot(join(folder, 'dark.png'))
    await press('theme')
    expect(await ground()).toBe(light)
    for (const name of ['light.png', 'dark.png'])
      expect(statSync(join(folder, name)).size).toBeGreaterThan(20_000)
  })

  test('moves nothing by itself where the reader wants no motion', async () => {
    const still = await browser.page(900, 700)
    await still.send('Emulation.setEmulatedMedia', {
      features: [{ name: 'prefers-reduced-motion', value: 'reduce' }],
    })
    await still.open(save('still.html'))
    expect(
      await still.evaluate(`getComputedStyle(document.querySelector('.piece')).transitionDuration`),
    ).toBe('0s')
    expect(await still.evaluate(`document.getAnimations().length`)).toBe(0)
    await still.close()
  })

  test('fits a phone, where a tap tells a span and two fingers zoom', async () => {
    const phone = await browser.page(360, 740, 2)
    await phone.send('Emulation.setTouchEmulationEnabled', { enabled: true, maxTouchPoints: 2 })
    await phone.open(save('phone.html'))
    expect(await phone.evaluate(`document.documentElement.scrollWidth`)).toBe(360)
    const wide = await phone.evaluate<string[]>(
      `[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > 361 &&
        !one.closest('.scroll, script, .visually-hidden')).map((one) => one.tagName + '.' + one.className)`,
    )
    expect(wide).toEqual([])
    await phone.evaluate(`${canvases}[0].scrollIntoView({ block: 'center' })`)
    const { x, y } = await box(0, phone)
    const touch = (type: string, points: readonly number[]): Promise<unknown> =>
      phone.send('Input.dispatchTouchEvent', {
        type,
        touchPoints: points.map((at, id) => ({ x: x + at, y: y + laneAt(0, 0), id })),
      })
    await touch('touchStart', [150])
    await touch('touchEnd', [])
    await phone.frame()
    expect(await tooltip(phone)).toContain('bsp, rank 0, worker 0')
    const [before] = await views(phone)
    await touch('touchStart', [150, 200])
    for (let apart = 10; apart <= 60; apart += 10) await touch('touchMove', [150 - apart, 200 + apart])
    await touch('touchEnd', [])
    const [pinched] = await views(phone)
    expect(pinched.to - pinched.from).toBeLessThan(0.7 * (before.to - before.from))
    expect(phone.complaints).toEqual([])
    await phone.close()
  })

  test('shows hostile names as text', async () => {
    const hostile = `</script></style><img src=x onerror="document.title='owned'"><iframe onload=alert(1)>"'\${1}`
    const other = await browser.page(1200, 900)
    await other.open(save('hostile.html', makeBench({ text: hostile, M: sweep })))
    expect(await other.evaluate(`document.querySelectorAll('img, iframe').length`)).toBe(0)
    expect(await text('.warnings', other)).toContain(hostile)
    await other.evaluate(`${canvases}[0].focus()`)
    await other.key('ArrowRight')
    expect(await tooltip(other)).toContain(hostile)
    expect(await other.evaluate(`document.querySelectorAll('img, iframe').length`)).toBe(0)
    expect(other.complaints).toEqual([])
    await other.close()
  })

  test('opens with one point, with none, and where the browser cannot decompress', async () => {
    const other = await browser.page(800, 600)
    await other.open(save('one.html', { ...bench, points: bench.points.slice(0, 1) }))
    expect(await other.evaluate(`document.getElementById('point')`)).toBeNull()
    await other.open(save('none.html', { ...bench, points: [] }))
    await press('zoom-in', other)
    await other.send('Page.addScriptToEvaluateOnNewDocument', {
      source: 'delete globalThis.DecompressionStream',
    })
    await other.open(save('old.html'))
    expect(await text('#status', other)).toContain('cannot decompress')
    expect(
      await other.evaluate(`document.querySelectorAll('.point:not([hidden]) .bar').length`),
    ).toBeGreaterThan(0)
    expect(other.complaints).toEqual([])
    await other.close()
  })

  test('leaves no complaint behind', () => {
    expect(page.complaints).toEqual([])
  })
})
