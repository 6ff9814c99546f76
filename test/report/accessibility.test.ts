/**
 * Tests the accessibility of the audit's page and of the page of measured runs. axe-core must find no serious problem
 * in either theme and at either width. No page may scroll sideways. The culprit (the rank that the audit blames) must
 * be visible without scrolling a table, a list or the timeline.
 */
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeReport } from '../../src/report/html.ts'
import { runsPage } from '../../src/report/runs/html.ts'
import { makeBench } from './benchSample.ts'
import { Chromium, findChromium, type Page } from './chromium.ts'
import { makeSample } from './sample.ts'
import { itForSome } from '../long.ts'

const program = findChromium()
if (program === null)
  console.log('skipped: there is no chromium, chromium-browser or google-chrome on the path')

const axe = readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8')

interface Violation {
  readonly id: string
  readonly impact: string
  readonly nodes: readonly string[]
}

const CULPRIT = 50

describe.skipIf(program === null)('a page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'arke-accessible-'))
  const contents = {
    audit: [...writeReport(makeSample())].join(''),
    manyRanks: [...writeReport(makeSample({ ranks: 64, straggler: CULPRIT, steps: 2, layers: 2 }))].join(''),
    bench: runsPage(makeBench({ M: [1, 16, 256], workers: 2, warnings: ['the clock is coarse'] })),
  }
  let browser: Chromium

  const open = async (name: keyof typeof contents, width: number, theme: 'light' | 'dark'): Promise<Page> => {
    const page = await browser.page(width, 900)
    await page.send('Emulation.setEmulatedMedia', {
      features: [{ name: 'prefers-color-scheme', value: theme }],
    })
    await page.open(pathToFileURL(join(folder, `${name}.html`)).href)
    return page
  }
  /** True if the centre of an element is inside the page's width and inside all scroll containers around it. */
  const inSight = (page: Page, selector: string): Promise<boolean> =>
    page.evaluate(`((one) => {
      one.scrollIntoView({ block: 'center', inline: 'nearest' })
      const { left, right, top, bottom } = one.getBoundingClientRect()
      const [x, y] = [(left + right) / 2, (top + bottom) / 2]
      const around = [...function* () { for (let up = one.parentElement; up; up = up.parentElement) yield up }()]
      return x > 0 && x < innerWidth && around.every((up) => {
        if (getComputedStyle(up).overflowX === 'visible') return true
        const box = up.getBoundingClientRect()
        return up.scrollLeft === 0 && x > box.left && x < box.right && y > box.top && y < box.bottom
      })
    })(document.querySelector('${selector}'))`)

  beforeAll(() => {
    browser = new Chromium(program as string)
    for (const [name, text] of Object.entries(contents)) writeFileSync(join(folder, `${name}.html`), text)
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  const cases = (['audit', 'bench'] as const).flatMap((name) =>
    [1280, 390].flatMap((width) => (['light', 'dark'] as const).map((theme) => ({ name, width, theme }))),
  )
  itForSome(cases, ({ width, theme }) => (width === 390) === (theme === 'dark'))(
    '$name passes axe-core, $width pixels wide, $theme',
    async ({ name, width, theme }) => {
      const page = await open(name, width, theme)
      // Opens all collapsed sections, because their contents are tested, too.
      await page.evaluate(`document.querySelectorAll('details').forEach((one) => (one.open = true))`)
      await page.evaluate(`document.getElementById('collective-after')?.click()`)
      await page.frame()
      await page.evaluate(`${axe}; 0`)
      const found = await page.evaluate<Violation[]>(
        `axe.run().then(({ violations }) => violations.map(({ id, impact, nodes }) =>
        ({ id, impact, nodes: nodes.slice(0, 3).map(({ html, failureSummary }) => html.slice(0, 200) + ' ' + failureSummary) })))`,
      )
      expect(found).toEqual([])
      expect(await page.evaluate(`document.documentElement.scrollWidth`)).toBe(width)
      await page.close()
    },
  )

  test.each([
    ['audit', '.stragglers', 1280],
    ['audit', '.stragglers', 390],
    ['bench', '.measured', 1280],
  ] as const)('the %s page shows the whole table %s, %i pixels wide', async (name, selector, width) => {
    const page = await open(name, width, 'light')
    const tables = await page.evaluate<readonly (readonly [shown: number, whole: number])[]>(
      `[...document.querySelectorAll('${selector}')].filter((one) => one.offsetHeight > 0).map((one) =>
        [one.closest('.scroll').clientWidth, one.closest('.scroll').scrollWidth])`,
    )
    expect(tables.length).toBeGreaterThan(0)
    for (const [shown, whole] of tables) expect(whole).toBeLessThanOrEqual(shown)
    await page.close()
  })

  test('a row of the stragglers is not wider or higher than what it shows, 390 pixels wide', async () => {
    const page = await open('audit', 390, 'light')
    const [row, cells] = await page.evaluate<readonly [number, number]>(
      `((row) => [row.offsetHeight, [...row.cells].reduce((sum, one) => sum + one.offsetHeight, 0)])(
        document.querySelector('.stragglers tbody tr'))`,
    )
    expect(row).toBeLessThan(cells + 40)
    await page.close()
  })

  test.each([1280, 390])('shows the culprit first, %i pixels wide', async (width) => {
    const page = await open('manyRanks', width, 'light')
    expect(await page.evaluate(`document.documentElement.scrollWidth`)).toBe(width)
    const first = (selector: string): Promise<string> =>
      page.evaluate(`document.querySelector('${selector}').textContent.replace(/\\s+/g, ' ').trim()`)
    expect(await first('h1')).toMatch(
      new RegExp(`^[\\d.]+ % of GPU time lost.*; rank ${CULPRIT} causes [\\d.]+ % of the waiting`),
    )
    const places: readonly (readonly [selector: string, text: string])[] = [
      ['#bars .bar-label', `Rank ${CULPRIT} most waited for`],
      ['.matrix thead th + th', `for ${CULPRIT} most waited for`],
      ['table:not(.matrix) tbody th', `rank ${CULPRIT} most waited for`],
      ['.figures tbody th', `rank ${CULPRIT} most waited for`],
    ]
    for (const [selector, text] of places) {
      expect(await first(selector)).toBe(text)
      expect(await inSight(page, selector), selector).toBe(true)
    }
    expect(await first('#tracks-list li')).toContain(`Rank ${CULPRIT} (most waited for)`)
    // After a jump to one of its collectives, the culprit's track and its row in the list of arrivals must be visible.
    await page.evaluate(`document.querySelector('.places [data-jump]').click()`)
    await page.frame()
    expect(await page.evaluate(`document.getElementById('tracks').scrollTop`)).toBe(0)
    expect(await first('.arrivals tbody td')).toBe(`${CULPRIT} (last)`)
    await page.close()
  })
})
