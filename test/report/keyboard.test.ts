/**
 * Tests the audit's page and the page of measured runs by keyboard alone: Tab reaches every control, the focus is
 * visible, and every control works.
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeReport } from '../../src/report/html.ts'
import { runsPage } from '../../src/report/runs/html.ts'
import { makeBench } from './benchSample.ts'
import { Chromium, findChromium, type Page } from './chromium.ts'
import { makeSample } from './sample.ts'
import { long } from '../long.ts'

const program = findChromium()
if (program === null)
  console.log('skipped: there is no chromium, chromium-browser or google-chrome on the path')

describe.skipIf(program === null)('by keys alone', () => {
  const folder = mkdtempSync(join(tmpdir(), 'arke-keys-'))
  const sample = makeSample()
  const bench = makeBench({ M: [1, 16, 256], workers: 2 })
  let browser: Chromium

  const open = async (name: string, text: string): Promise<Page> => {
    const file = join(folder, name)
    writeFileSync(file, text)
    const page = await browser.page(1280, 900)
    await page.open(pathToFileURL(file).href)
    return page
  }
  const text = (page: Page, selector: string): Promise<string> =>
    page.evaluate(`document.querySelector('${selector}').textContent`)
  /** Presses Tab until the element has the focus. */
  const tabTo = async (page: Page, selector: string): Promise<void> => {
    for (let tabs = 0; tabs < 200; tabs++) {
      if (await page.evaluate(`document.activeElement?.matches('${selector}')`)) return
      await page.key('Tab')
    }
    throw new Error(`Tab never reaches ${selector}`)
  }
  const tooltip = (page: Page): Promise<string | null> =>
    page.evaluate(
      `((box) => box.style.display === 'block' ? box.textContent : null)(document.querySelector('.tooltip'))`,
    )

  /**
   * Walks through a page with Tab. Every control that a pointer can use must be reached, unless arrow keys or another
   * control of its group lead to it. Every control reached by Tab must look different while it has the focus.
   */
  const walk = async (page: Page): Promise<{ missed: string[]; unseen: string[] }> => {
    await page.evaluate(`window.reached = new Set(); window.unseen = []`)
    for (let tabs = 0; tabs < 300; tabs++) {
      await page.key('Tab')
      const isOver = await page.evaluate<boolean>(`(() => {
        const one = document.activeElement
        if (one === document.body || reached.has(one)) return true
        reached.add(one)
        const shown = one.matches('.choice input') ? one.nextElementSibling : one
        const { outlineStyle, outlineWidth } = getComputedStyle(shown)
        if (outlineStyle === 'none' || parseFloat(outlineWidth) < 1) unseen.push(one.outerHTML.slice(0, 120))
        return false
      })()`)
      if (isOver) break
    }
    return await page.evaluate(`(() => {
      const controls = [...document.querySelectorAll('a[href], button, select, input, summary, [data-tip], [tabindex], canvas')]
      const reachable = (one) => reached.has(one) ||
        // Exceptions: a radio button of a group, a bar of a list, a part of a bar, a strip that only mirrors the
        // timeline.
        (one.type === 'radio' && [...reached].some(({ name }) => name === one.name)) ||
        one.closest('.bars')?.contains([...reached].find((other) => one.closest('.bars')?.contains(other))) ||
        one.closest('[aria-hidden="true"]') !== null
      const isShown = (one) => one.checkVisibility()
      return { missed: controls.filter((one) => isShown(one) && !reachable(one)).map((one) => one.outerHTML.slice(0, 120)), unseen }
    })()`)
  }

  beforeAll(() => {
    browser = new Chromium(program as string)
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test.each([
    ['audit', () => [...writeReport(sample)].join('')],
    ['bench', () => runsPage(bench)],
  ])('Tab reaches every control of the page of %s, and its focus is visible', long, async (name, write) => {
    const page = await open(`${name}.html`, write())
    expect(await walk(page)).toEqual({ missed: [], unseen: [] })
    await page.close()
  })

  test('the audit can be read and its timeline explored', async () => {
    const page = await open('explored.html', [...writeReport(sample)].join(''))
    const dark = `getComputedStyle(document.documentElement).backgroundColor`
    const light = await page.evaluate(dark)
    await tabTo(page, '#theme')
    await page.key('Enter')
    expect(await page.evaluate(dark)).not.toBe(light)
    await page.key(' ')
    expect(await page.evaluate(dark)).toBe(light)

    // Tests the bars: switching to bars by step and back, the explanation of a category, the parts of each bar.
    await tabTo(page, 'input[name="bars-by"]')
    await page.key('ArrowRight')
    expect(await text(page, '#bars .bar-label')).toBe(sample.document.steps[0].name)
    await page.key('ArrowLeft')
    await tabTo(page, '#legend [data-category="wait"]')
    expect(await tooltip(page)).toContain('the rank is in a collective that another rank has not reached yet')
    await tabTo(page, '#bars .bar')
    expect(await tooltip(page)).toMatch(/Rank 5.*Compute.*Wait/)
    await page.key('ArrowDown')
    expect(await tooltip(page)).toMatch(/Rank 0.*Compute.*Wait/)

    // Moves through the timeline: between its controls, down to the events of a stream, along the events, and to a
    // collective.
    const panel = (): Promise<string> => text(page, '#panel')
    const range = (): Promise<number> =>
      page.evaluate(`(({ from, to }) => to - from)(document.getElementById('tracks-canvas').dataset)`)
    await tabTo(page, '#tracks-canvas')
    const whole = await range()
    await page.key('+')
    await page.key('+')
    expect(await range()).toBeLessThan(whole / 2)
    await page.key('0')
    await page.key('ArrowDown')
    expect(await panel()).toMatch(/duration.*rank 5.*meaning/)
    await page.key('ArrowDown')
    const { events } = sample.timeline.ranks[5]
    const name = (n: number): string => {
      const kernels = [...events.start.keys()].filter((event) => events.kind[event] === 0)
      kernels.sort((a, b) => events.start[a] - events.start[b])
      return sample.timeline.names[events.name[kernels[n]]]
    }
    expect(await panel()).toContain(name(0))
    expect(await panel()).toContain('rank 5, stream 7')
    await page.key('ArrowRight')
    expect(await panel()).toContain(name(1))
    await page.key('ArrowLeft')
    expect(await panel()).toContain(name(0))
    await page.key(']')
    expect(await panel()).toContain('arrived last')
    const height = (): Promise<number> =>
      page.evaluate(`document.getElementById('tracks-content').offsetHeight`)
    const unfolded = await height()
    await page.key('f')
    expect(await height()).toBeLessThan(unfolded)
    await page.key('f')
    expect(await height()).toBe(unfolded)
    await page.key('Escape')
    expect(await panel()).toContain('Keys: ')

    // Tests the jump from a finding to its position in the timeline.
    await tabTo(page, '.places [data-jump]')
    await page.key('Enter')
    expect(await panel()).toContain('arrived last')
    expect(await page.evaluate(`document.activeElement.id`)).toBe('tracks-canvas')
    expect(page.complaints).toEqual([])
    await page.close()
  })

  test('the measured points can be chosen and their spans read', async () => {
    const page = await open('runs.html', runsPage(bench))
    const shown = `document.querySelector('.point:not([hidden])').id`
    await tabTo(page, '#point-after')
    await page.key('Enter')
    await page.until(`${shown} === 'point-1'`)
    await tabTo(page, '.point:not([hidden]) .variant canvas')
    await page.key('ArrowRight')
    expect(await text(page, '#told')).toContain(
      bench.points[1].variants[0].picture.ranks[0].tracks[0].spans[0].label,
    )
    await tabTo(page, '.point:not([hidden]) .bar')
    expect(await tooltip(page)).toMatch(/bsp.*Useful/)
    await tabTo(page, '.column')
    expect(await tooltip(page)).toMatch(/pull.*push.*fused/)
    await page.key('Enter')
    await page.until(`${shown} === 'point-0'`)
    expect(page.complaints).toEqual([])
    await page.close()
  })
})
