/** Tests the text of the HTML report: self-contained, deterministic, and safe for any kernel names in the traces. */
import { describe, expect, test } from 'vitest'
import { writeReport } from '../../src/report/html.ts'
import { html } from '../../src/report/markup.ts'
import { makeSample } from './sample.ts'

const write = (options: Parameters<typeof makeSample>[0] = {}): string =>
  [...writeReport(makeSample(options))].join('')

/** The text that a reader sees without scripts. */
const plain = (text: string): string =>
  text
    .replace(/<(script|style)[^>]*>.*?<\/\1>/gs, '')
    .replace(/<[^>]*>/g, ' ')
    .replace(/\s+/g, ' ')

describe('the report', () => {
  const text = write()

  test('is the same for the same audit', () => {
    expect(write()).toBe(text)
  })

  test('refers to nothing outside itself, and forbids it', () => {
    expect(text).toContain("default-src 'none'")
    expect(text).not.toMatch(/(?:src|href)="(?!#|data:,)/)
    expect(text).not.toMatch(/url\(|@import|https?:/)
  })

  test('tells the summary, the warnings, the stragglers, the candidates and the figures without a script', () => {
    const { document } = makeSample()
    const seen = plain(text)
    for (const sentence of document.summary) expect(seen).toContain(sentence)
    for (const { message } of document.warnings) expect(seen).toContain(message)
    for (const { rank } of document.ranks) expect(seen).toContain(`rank ${rank}`)
    expect(seen).toContain('gemmReduceScatter')
    expect(seen).toContain('41.0 MB')
    expect(seen).toContain('12 collectives')
  })

  test('has a cell for each pair of a rank that waited and a rank that was waited for', () => {
    const { document } = makeSample()
    const matrix = /<table class="matrix">.*?<\/table>/s.exec(text)?.[0] ?? ''
    expect(matrix.match(/<td class="self"/g)?.length).toBe(document.stragglers.length)
    expect(matrix.match(/--heat:/g)?.length).toBe(
      document.stragglers.reduce(
        (sum, { waiters }) => sum + waiters.filter(({ waitUs }) => waitUs > 0).length,
        0,
      ),
    )
  })

  test('sums what a rank waited over all that it waited for, also those without a column', () => {
    const input = makeSample()
    const [one] = input.document.stragglers
    const stragglers = Array.from({ length: 40 }, (_, i) => ({
      ...one,
      rank: 100 + i,
      waiters: [{ rank: 0, waitUs: 1000, exposedWaitUs: 400 }],
    }))
    const many = [...writeReport({ ...input, document: { ...input.document, stragglers } })].join('')
    const row = /<th scope="row">rank 0<\/th>(.*?)<\/tr>/s.exec(many)?.[1] ?? ''
    expect(row.match(/--heat:/g)).toHaveLength(32)
    expect(/class="sum">([^<]*)</.exec(row)?.[1]).toBe('40.0 ms')
    expect(plain(many)).toContain('the worst 32 of 40')
  })

  test('counts one thing in the singular, and shows no correction of a clock that was not set', () => {
    const input = makeSample()
    const { document } = input
    const one = {
      ...document,
      steps: document.steps.slice(0, 1),
      collectives: document.collectives.slice(0, 1),
      warnings: [{ class: 'steps', message: 'a warning', count: 1 }],
      clocks: [0, 1].map((rank) => ({
        rank,
        aligned: false,
        correctionUs: 0,
        driftPpm: 0,
        residualUs: null,
      })),
    }
    const seen = plain([...writeReport({ ...input, document: one })].join(''))
    expect(seen).toContain('· 1 step · 1 collective ·')
    expect(seen).toContain('1 warning: assumptions and missing data')
    expect(seen).toContain('rank 1 no – – –')
  })

  test('folds candidates beyond the first dozen away, and the links of a long chain', () => {
    const input = makeSample()
    const [one] = input.document.candidates
    const chain = Array.from({ length: 20 }, (_, i) => `kernel${i}`)
    const candidates = Array.from({ length: 15 }, () => ({ ...one, chain }))
    const many = [...writeReport({ ...input, document: { ...input.document, candidates } })].join('')
    expect(plain(many)).toContain('3 more, each of which saves at most')
    expect(plain(many)).toContain('and 14 more')
    expect(many.match(/<code>kernel19<\/code>/g)).toHaveLength(15)
  })

  test('shows an audit of nothing', () => {
    const empty = makeSample()
    const document = {
      ...empty.document,
      sources: [],
      ranks: [],
      steps: [],
      groups: [],
      collectives: [],
      clocks: [],
      stragglers: [],
      candidates: [],
      summary: [],
      warnings: [],
    }
    const seen = plain(
      [...writeReport({ document, timeline: { ranks: [], names: [] }, clocks: [], partitions: [] })].join(''),
    )
    expect(seen).toContain('no rank kept another rank waiting')
    expect(seen).toContain('No chain of kernels stands out')
  })
})

test('text becomes markup nowhere', () => {
  expect(html`<b title="${'"><i>'}">${"<script>&'"}</b>`.text).toBe(
    '<b title="&quot;&gt;&lt;i&gt;">&lt;script&gt;&amp;&#39;</b>',
  )
  const hostile = '</script><img src=x onerror="document.title=1">'
  const text = write({ text: hostile })
  expect(text).not.toContain('<img')
  expect(text.match(/<script/g)?.length).toBe(text.match(/<\/script>/g)?.length)
})
