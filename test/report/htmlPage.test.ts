/** Tests the HTML report in a browser: it opens from a file, makes no requests, and its controls work. */
import { mkdtempSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { writeReport } from '../../src/report/html.ts'
import { Chromium, findChromium, type Page } from './chromium.ts'
import { makeSample } from './sample.ts'

const program = findChromium()
if (program === null)
  console.log('skipped: there is no chromium, chromium-browser or google-chrome on the path')

const AXIS = 26
const GUTTER = 96

const microseconds = (text: string): number =>
  parseFloat(text) * { ns: 1e-3, µs: 1, ms: 1e3, s: 1e6 }[text.split(' ')[1] as 'ns' | 'µs' | 'ms' | 's']

describe.skipIf(program === null)('the page', () => {
  const folder = mkdtempSync(join(tmpdir(), 'arke-html-'))
  const sample = makeSample()
  /** The order of ranks in every list: the rank that caused the most waiting comes first. */
  const order = [5, 0, 1, 2, 3, 4, 6, 7]
  let browser: Chromium
  let page: Page

  const save = (name: string, input = sample): string => {
    const file = join(folder, name)
    writeFileSync(file, [...writeReport(input)].join(''))
    return pathToFileURL(file).href
  }
  const view = async (of = page): Promise<{ from: number; to: number }> => {
    await of.frame()
    return await of.evaluate(
      `(({ from, to }) => ({ from: Number(from), to: Number(to) }))(document.getElementById('tracks-canvas').dataset)`,
    )
  }
  const canvas = (of = page): Promise<{ x: number; y: number; width: number }> =>
    of.evaluate(
      `(({ x, y, width }) => ({ x, y, width }))(document.getElementById('tracks-canvas').getBoundingClientRect())`,
    )
  const press = async (id: string): Promise<void> => {
    await page.evaluate(`document.getElementById('${id}').click()`)
    await page.frame()
  }
  const text = (selector: string, of = page): Promise<string> =>
    of.evaluate(`document.querySelector('${selector}').textContent`)
  /**
   * The vertical centre of a lane on the canvas, in pixels from the top. Each rank has a thin row, three streams and a
   * thin row for its host threads, followed by a gap.
   */
  const laneAt = (rank: number, lane: number): number =>
    AXIS + 18 + order.indexOf(rank) * (16 + 3 * 20 + 16 + 12) + 16 + 20 * lane + 9
  /** The horizontal position of a time on the canvas. */
  const place = async (nanoseconds: number): Promise<number> => {
    const [{ from, to }, { x, width }] = [await view(), await canvas()]
    return x + GUTTER + ((nanoseconds - from) / (to - from)) * (width - GUTTER)
  }

  /** Reads a copy of the canvas, because reading the canvas itself would slow it down. */
  const copied = `((canvas) => {
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext('2d', { willReadFrequently: true })
    copy.drawImage(canvas, 0, 0)
    return (x, y, width) => new Uint32Array(copy.getImageData(x, y, width, 1).data.buffer)
  })(document.getElementById('tracks-canvas'))`

  beforeAll(async () => {
    browser = new Chromium(program as string)
    page = await browser.page(1440, 1200)
    await page.open(save('report.html'))
  })
  afterAll(async () => {
    await browser?.close()
    rmSync(folder, { recursive: true, force: true })
  })

  test('opens from a file without a complaint and asks for nothing else', () => {
    expect(page.complaints).toEqual([])
    expect(page.requests.filter((url) => !url.startsWith('file:') && url !== 'data:,')).toEqual([])
  })

  test('has a bar for each rank whose pieces add up to its wall time', async () => {
    const bars = await page.evaluate<{ label: string; share: number; spoken: string }[]>(
      `[...document.querySelectorAll('#bars li')].map((bar) => ({
        label: bar.querySelector('.bar-label').textContent,
        share: [...bar.querySelectorAll('.piece')].reduce((sum, piece) => sum + parseFloat(piece.style.width), 0),
        spoken: bar.querySelector('.bar').getAttribute('aria-label'),
      }))`,
    )
    expect(bars.map(({ label }) => label)).toEqual(
      order.map((rank) => (rank === 5 ? 'Rank 5 most waited for' : `Rank ${rank}`)),
    )
    const longest = Math.max(...sample.document.ranks.map(({ wallUs }) => wallUs))
    for (const [i, { share, spoken }] of bars.entries()) {
      expect(share).toBeCloseTo((100 * sample.document.ranks[order[i]].wallUs) / longest, 2)
      expect(spoken).toMatch(/Wait .*Exposed transfer .*of which locality/)
    }
  })

  test('has bars of a step, and of the steps of a rank', async () => {
    await page.evaluate(`document.querySelector('input[value="step"]').click()`)
    const labels = `[...document.querySelectorAll('.bar-label')].map((label) => label.textContent)`
    expect(await page.evaluate(labels)).toEqual(sample.document.steps.map(({ name }) => name))
    await page.evaluate(`document.querySelector('input[value="rank"]').click()`)
    expect(await page.evaluate<string[]>(labels)).toHaveLength(8)
    const whole = await text('.bar-value')
    await page.evaluate(
      `(() => { const one = document.getElementById('bars-which'); one.value = '1'; one.dispatchEvent(new Event('change')) })()`,
    )
    expect(await text('.bar-value')).not.toBe(whole)
    const { startUs, wallUs } = sample.document.steps[1].ranks[0]
    const shown = await view()
    expect(shown.from).toBeLessThanOrEqual(1000 * startUs)
    expect(shown.to).toBeGreaterThanOrEqual(1000 * (startUs + wallUs))
    expect(shown.to - shown.from, 'choosing a step moves the timeline to it').toBeLessThan(1500 * wallUs)
    await page.evaluate(
      `(() => { const one = document.getElementById('bars-which'); one.value = 'whole'; one.dispatchEvent(new Event('change')) })()`,
    )
  })

  test('tells the figures of a category that is chosen in the legend', async () => {
    await page.evaluate(`document.querySelector('#legend [data-category="wait"]').click()`)
    const { taxes, wallUs } = sample.document.ranks[order[0]]
    expect(await text('.bar-value')).toContain(`${((100 * (taxes.waitUs ?? 0)) / wallUs).toFixed(1)} %`)
    await page.evaluate(`document.querySelector('#legend [data-category="wait"]').click()`)
  })

  test('has tracks for each stream of each rank, drawn', async () => {
    const listed = await page.evaluate<string[]>(
      `[...document.querySelectorAll('#tracks-list li')].map((item) => item.textContent)`,
    )
    expect(listed).toHaveLength(8)
    for (const [i, item] of listed.entries())
      expect(item).toBe(
        `Rank ${order[i]}${i === 0 ? ' (most waited for)' : ''} on NVIDIA H100 80GB HBM3: stream 7, 72 events; stream 20, 12 events; stream 24, 3 events`,
      )
    // The number of colours that each lane of the timeline shows. An empty lane would show one colour.
    const lanes = [0, 1, 2, 3, 4, 5, 6].flatMap((rank) => [0, 1].map((lane) => laneAt(rank, lane)))
    const { width } = await canvas()
    const colours = await page.evaluate<number[]>(
      `((read) => ${JSON.stringify(lanes)}.map((y) => new Set(read(${GUTTER}, y, ${width - GUTTER})).size))(${copied})`,
    )
    for (const one of colours) expect(one).toBeGreaterThan(1)
  })

  test('zooms by button, key and wheel, about the pointer, and fits again', async () => {
    const whole = await view()
    await press('zoom-in')
    const closer = await view()
    expect(closer.to - closer.from).toBeCloseTo((whole.to - whole.from) / 2)
    await page.evaluate(`document.getElementById('timeline').scrollIntoView()`)
    const { x, y, width } = await canvas()
    const [at, share] = [x + GUTTER + 0.25 * (width - GUTTER), 0.25]
    await page.mouse('mouseWheel', at, y + 100, { deltaX: 0, deltaY: -120, modifiers: 2 })
    const wheeled = await view()
    expect(wheeled.to - wheeled.from).toBeLessThan(closer.to - closer.from)
    const under = ({ from, to }: { from: number; to: number }): number => from + share * (to - from)
    expect(Math.abs(under(wheeled) - under(closer))).toBeLessThan(0.002 * (closer.to - closer.from))
    await page.evaluate(`document.getElementById('tracks-canvas').focus()`)
    await page.key('+')
    const keyed = await view()
    expect(keyed.to - keyed.from).toBeLessThan(wheeled.to - wheeled.from)
    await page.key('0')
    expect(await view()).toEqual(whole)
  })

  test('leaves the wheel to the page until the tracks have the focus', async () => {
    await page.evaluate(`document.activeElement.blur()`)
    const before = await view()
    const { x, y } = await canvas()
    const scrolled = await page.evaluate<number>('scrollY')
    await page.mouse('mouseWheel', x + 500, y + 100, { deltaX: 0, deltaY: 60 })
    await page.until(`scrollY > ${scrolled}`)
    expect(await view()).toEqual(before)
    // Waits until the smooth scrolling of the page has ended.
    for (let before = -1, now = 0; before !== now;) {
      before = now
      for (let frame = 0; frame < 5; frame++) await page.frame()
      now = await page.evaluate<number>('scrollY')
    }
    await page.evaluate(`document.getElementById('timeline').scrollIntoView()`)
  })

  test('moves by drag and key', async () => {
    await press('zoom-in')
    await press('zoom-in')
    const before = await view()
    const { x, y, width } = await canvas()
    await page.mouse('mousePressed', x + 700, y + 200)
    await page.mouse('mouseMoved', x + 650, y + 200, { button: 'left', buttons: 1 })
    await page.mouse('mouseMoved', x + 600, y + 200, { button: 'left', buttons: 1 })
    await page.mouse('mouseReleased', x + 600, y + 200)
    const dragged = await view()
    const moved = (100 / (width - GUTTER)) * (before.to - before.from)
    expect(dragged.from - before.from).toBeCloseTo(moved, 0)
    expect(dragged.to - dragged.from).toBeCloseTo(before.to - before.from, 0)
    await page.key('d')
    expect((await view()).from).toBeGreaterThan(dragged.from)
    await page.key('0')
  })

  test('tells name, duration, rank, stream, operator and launch delay of an event under the pointer', async () => {
    const { x, y } = await canvas()
    const { events, deviceSpan } = sample.timeline.ranks[1]
    const event = events.kind.findIndex((kind, i) => kind === 0 && events.operator[i] >= 0)
    const middle = events.start[event] - (deviceSpan?.[0] ?? 0) + events.duration[event] / 2
    await page.mouse('mouseMoved', await place(middle), y + laneAt(1, 0))
    await page.frame()
    const told = await text('.tooltip')
    expect(told).toContain(sample.timeline.names[events.name[event]])
    expect(told).toContain('rank 1, stream 7')
    expect(told).toContain(sample.timeline.names[events.name[events.operator[event]]])
    expect(told).toContain('launch delay')
    await page.mouse('mouseMoved', x + 2, 2)
  })

  test('shows when each rank arrived at a collective that is clicked', async () => {
    const { perRank, lastRank } = sample.document.collectives[4]
    const { y } = await canvas()
    const one = perRank[0]
    await page.click(await place(1000 * (one.startUs + one.durUs / 2)), y + laneAt(0, 1))
    const rows = await page.evaluate<string[][]>(
      `[...document.querySelectorAll('.arrivals tbody tr')].map((row) => [...row.cells].map((cell) => cell.textContent))`,
    )
    expect(rows).toHaveLength(8)
    const first = Math.min(...perRank.map(({ startUs }) => startUs))
    const late = lastRank ?? -1
    const arrivals = [late, ...perRank.map(({ rank }) => rank).filter((rank) => rank !== late)]
    for (const [i, [number, arrived, waited]] of rows.entries()) {
      const rank = arrivals[i]
      expect(number).toBe(rank === lastRank ? `${rank} (last)` : `${rank}`)
      expect(microseconds(arrived)).toBeCloseTo(perRank[rank].startUs - first, -0.5)
      expect(microseconds(waited)).toBeCloseTo(perRank[rank].waitUs ?? 0, -0.5)
    }
    expect(await text('#panel')).toContain(`Rank ${lastRank} arrived last`)
    await page.evaluate(`document.getElementById('tracks-canvas').focus()`)
    await page.key(']')
    expect(await text('#panel')).toContain(`Rank ${sample.document.collectives[5].lastRank} arrived last`)
    await page.key('Escape')
    expect(await text('#panel')).not.toContain('arrived last')
  })

  test('leads from a straggler and from a candidate to their places', async () => {
    const [{ worst }] = sample.document.stragglers
    await page.evaluate(`document.querySelector('.places [data-jump]').click()`)
    const { perRank } = sample.document.collectives[worst[0].collective]
    const shown = await view()
    const start = 1000 * Math.min(...perRank.map(({ startUs }) => startUs))
    expect(shown.from).toBeLessThanOrEqual(start)
    expect(shown.to).toBeGreaterThan(start)
    expect(await text('#panel')).toContain('arrived last')
    await page.evaluate(`document.querySelector('.chain').closest('tr').querySelector('[data-jump]').click()`)
    const { startUs, durUs } = sample.document.candidates[0].example
    const candidate = await view()
    expect(candidate.from).toBeLessThan(1000 * startUs)
    expect(candidate.to).toBeGreaterThan(1000 * (startUs + durUs))
    await press('zoom-fit')
  })

  test('finds kernels by a part of their name', async () => {
    await page.evaluate(
      `(() => { const one = document.getElementById('search'); one.value = 'FLASH_fwd'; one.dispatchEvent(new Event('input')) })()`,
    )
    await page.until(`document.getElementById('search-result').textContent !== ''`)
    const flash = sample.timeline.names.findIndex((name) => name.includes('flash_fwd_kernel<'))
    const found = sample.timeline.ranks.reduce(
      (sum, { events }) => sum + [...events.name].filter((name) => name === flash).length,
      0,
    )
    expect(await text('#search-result')).toContain(`${found} events of 1 names`)
    await page.evaluate(
      `document.getElementById('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))`,
    )
    expect(await text('#panel .name')).toContain('flash_fwd_kernel')
    await page.evaluate(
      `(() => { const one = document.getElementById('search'); one.value = ''; one.dispatchEvent(new Event('input')) })()`,
    )
    await page.until(`document.getElementById('search-result').textContent === ''`)
    await press('zoom-fit')
  })

  test('finds device work by its operator, and host events', async () => {
    const find = async (wanted: string): Promise<string> => {
      await page.evaluate(
        `(() => { const one = document.getElementById('search'); one.value = ${JSON.stringify(wanted)}; one.dispatchEvent(new Event('input')) })()`,
      )
      await page.until(`document.getElementById('search-result').textContent !== ''`)
      return text('#search-result')
    }
    const { names, ranks } = sample.timeline
    const linear = names.indexOf('aten::linear')
    const work = ranks.reduce(
      (sum, { events }) =>
        sum +
        [...events.operator].filter(
          (operator, i) => events.kind[i] <= 3 && operator >= 0 && events.name[operator] === linear,
        ).length,
      0,
    )
    const operators = ranks.reduce(
      (sum, { events }) => sum + [...events.name].filter((name) => name === linear).length,
      0,
    )
    expect(await find('aten::LINEAR')).toMatch(
      new RegExp(`^${work} events and ${operators} on host threads of 1 names`),
    )
    await page.evaluate(`document.getElementById('search-result').textContent = ''`)
    expect(await find('cudaLaunchKernel')).toMatch(/^0 events and \d[\d,]* on host threads/)
    // A jump to the next match of the search opens the host threads of the match's rank.
    const height = (): Promise<number> =>
      page.evaluate(`document.getElementById('tracks-content').offsetHeight`)
    const closed = await height()
    await page.evaluate(
      `document.getElementById('search').dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter' }))`,
    )
    expect(await text('#panel')).toContain('thread 1')
    expect(await height()).toBeGreaterThan(closed)
    await page.evaluate(`document.getElementById('search-result').textContent = ''`)
    await page.evaluate(
      `(() => { const one = document.getElementById('search'); one.value = ''; one.dispatchEvent(new Event('input')) })()`,
    )
    await press('hosts')
    await press('hosts')
    expect(await height()).toBe(closed)
    await press('zoom-fit')
  })

  test('keeps the view in its address', async () => {
    await press('zoom-in')
    await press('hosts')
    const shown = await view()
    await page.until(`location.hash.includes('from=') && location.hash.includes('ranks=')`)
    const address = await page.evaluate<string>('location.href')
    const again = await browser.page(1440, 1200)
    await again.open(address)
    const restored = await view(again)
    expect(restored.from).toBeCloseTo(shown.from, -1)
    expect(restored.to).toBeCloseTo(shown.to, -1)
    const height = `document.getElementById('tracks-content').offsetHeight`
    expect(await again.evaluate(height)).toBe(await page.evaluate(height))
    await again.close()
    await press('hosts')
    await press('zoom-fit')
    await page.until(`!location.hash.includes('from=')`)
  })

  test('has tables of fixes, kernels, operators and collectives', async () => {
    const titles = await page.evaluate<string[]>(
      `[...document.querySelectorAll('main h2')].map((one) => one.textContent)`,
    )
    expect(titles).toContain('Where the time went')
    expect(titles).toContain('Timeline of all ranks')
  })

  test('folds streams away and back', async () => {
    const height = (): Promise<number> =>
      page.evaluate(`document.getElementById('tracks-content').offsetHeight`)
    const open = await height()
    await press('fold')
    expect(await height()).toBeLessThan(open / 2)
    await press('fold')
    expect(await height()).toBe(open)
  })

  test('changes the theme of page and tracks, and can be looked at in both', async () => {
    const ground = (): Promise<string> =>
      page.evaluate(`getComputedStyle(document.documentElement).backgroundColor`)
    const drawn = (): Promise<number> => page.evaluate(`${copied}(2, 2, 1)[0]`)
    const [light, lightDrawn] = [await ground(), await drawn()]
    await page.screenshot(join(folder, 'light.png'))
    await press('theme')
    expect(await ground()).not.toBe(light)
    expect(await drawn()).not.toBe(lightDrawn)
    await page.screenshot(join(folder, 'dark.png'))
    expect(await text('#theme')).toBe('Light theme')
    await press('theme')
    expect(await ground()).toBe(light)
    for (const name of ['light.png', 'dark.png'])
      expect(statSync(join(folder, name)).size).toBeGreaterThan(20_000)
  })

  test('follows the system to dark', async () => {
    const dark = await browser.page(800, 600)
    await dark.send('Emulation.setEmulatedMedia', {
      features: [{ name: 'prefers-color-scheme', value: 'dark' }],
    })
    await dark.open(save('dark.html'))
    expect(await dark.evaluate(`getComputedStyle(document.documentElement).backgroundColor`)).toBe(
      'rgb(20, 23, 28)',
    )
    await dark.close()
  })

  test('fits a phone: only tables scroll sideways', async () => {
    const phone = await browser.page(360, 740, 2)
    await phone.open(save('phone.html'))
    expect(await phone.evaluate(`document.documentElement.scrollWidth`)).toBe(360)
    const wide = await phone.evaluate<string[]>(
      `[...document.querySelectorAll('body *')].filter((one) => one.getBoundingClientRect().right > 361 &&
        !one.closest('.scroll, script, .visually-hidden')).map((one) => one.tagName + '.' + one.className)`,
    )
    expect(wide).toEqual([])
    await phone.screenshot(join(folder, 'phone.png'))
    const before = await view(phone)
    const { x, y } = await canvas(phone)
    await phone.evaluate(`document.getElementById('timeline').scrollIntoView()`)
    const touch = async (type: string, points: readonly number[]): Promise<void> => {
      const top = (await canvas(phone)).y
      await phone.send('Input.dispatchTouchEvent', {
        type,
        touchPoints: points.map((at, id) => ({ x: x + at, y: top + 120, id })),
      })
    }
    await touch('touchStart', [150, 200])
    for (let apart = 10; apart <= 60; apart += 10) await touch('touchMove', [150 - apart, 200 + apart])
    await touch('touchEnd', [])
    const pinched = await view(phone)
    expect(y).toBeGreaterThan(0)
    expect(pinched.to - pinched.from).toBeLessThan(0.7 * (before.to - before.from))
    expect(phone.complaints).toEqual([])
    await phone.close()
  })

  test('shows hostile names as text', async () => {
    const hostile = `</script></style><img src=x onerror="document.title='owned'"><svg onload=alert(1)>"'\${1}`
    const other = await browser.page(1200, 900)
    await other.open(save('hostile.html', makeSample({ text: hostile })))
    expect(await other.evaluate(`document.querySelectorAll('img, svg').length`)).toBe(0)
    expect(await text('.summary', other)).toContain(hostile)
    await other.evaluate(`document.getElementById('collective-after').click()`)
    expect(await text('#panel', other)).toContain(hostile)
    expect(await other.evaluate(`document.title`)).not.toBe('owned')
    expect(await other.evaluate(`document.querySelectorAll('img, svg').length`)).toBe(0)
    expect(other.complaints).toEqual([])
    await other.close()
  })

  test('says so where the browser cannot decompress, and keeps the tables', async () => {
    const old = await browser.page(800, 600)
    await old.send('Page.addScriptToEvaluateOnNewDocument', {
      source: 'delete globalThis.DecompressionStream',
    })
    await old.send('Page.navigate', { url: save('old.html') })
    await old.until(`document.getElementById('status')?.textContent.includes('cannot decompress')`)
    expect(await text('.summary', old)).toContain('biggest tax')
    await old.close()
  })

  test('opens with nothing to show', async () => {
    const { document } = sample
    const nothing = {
      ranks: [],
      steps: [],
      groups: [],
      collectives: [],
      clocks: [],
      stragglers: [],
      candidates: [],
    }
    const other = await browser.page(800, 600)
    await other.open(
      save('nothing.html', {
        document: { ...document, ...nothing },
        timeline: { ranks: [], names: [] },
        clocks: [],
        partitions: [],
      }),
    )
    await other.evaluate(`document.getElementById('zoom-in').click()`)
    await other.frame()
    expect(other.complaints).toEqual([])
    await other.close()
  })

  test('leaves no complaint behind', () => {
    expect(page.complaints).toEqual([])
  })
})
