/**
 * Tests the page of measured runs without its script, the table in a terminal, and the sentences of page and terminal.
 */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { runsPage } from '../../src/report/runs/html.ts'
import { packPictures } from '../../src/report/runs/pictures.ts'
import { findSweeps } from '../../src/report/runs/sweeps.ts'
import { sentenceOf } from '../../src/report/headline.ts'
import { contentionText } from '../../src/report/runs/points.ts'
import { benchTable, tableLegend } from '../../src/report/runs/terminal.ts'
import { findings, headlineOf, headlineOfPoint, ledgerInWords } from '../../src/report/runs/words.ts'
import {
  runPartNames,
  runParts,
  type BenchResult,
  type Point,
  type Quantity,
  type VariantResult,
} from '../../src/runs/results.ts'
import { makeBench } from './benchSample.ts'

const sweepOfM = [1, 8, 64, 512]
const between = (low: number, median: number, high: number): Quantity => ({
  median,
  interval: [low, high],
  samples: 41,
})

/** A benchmark point in which only the fields that matter for a test are set. */
function pointWith(changes: Partial<VariantResult>, bulkChanges: Partial<VariantResult> = {}): Point {
  const [point] = makeBench().points
  const [bulk, other] = point.variants
  return {
    ...point,
    variants: [
      { ...bulk, ...bulkChanges },
      { ...other, variant: 'fused', ...changes },
    ],
  }
}

const ledger = (parts: readonly number[], bytes = 0): VariantResult['ledger'] => {
  const [useful, launch, wait, transfer, other] = parts
  return {
    wall: parts.reduce((sum, part) => sum + part, 0),
    parts: { useful, launch, wait, transfer, other },
    locality: { bytes, time: [0, bytes / 10] },
  }
}

describe('the page', () => {
  const bench = makeBench({ M: sweepOfM, warnings: ['the machine was busy'] })
  const text = runsPage(bench)
  /** The text that a reader sees without scripts. */
  const plain = (page: string): string =>
    page
      .replace(/<(script|style)[^>]*>.*?<\/\1>/gs, '')
      .replace(/<[^>]*>/g, ' ')
      .replaceAll('&#39;', "'")
      .replace(/\s+/g, ' ')

  test('is the same for the same measurement', () => {
    expect(runsPage(makeBench({ M: sweepOfM, warnings: ['the machine was busy'] }))).toBe(text)
  })

  test('refers to nothing outside itself, and forbids it', () => {
    expect(text).toContain("default-src 'none'")
    expect(text).not.toMatch(/(?:src|href)="(?!#|data:,)/)
    expect(text).not.toMatch(/url\(|@import|https?:/)
  })

  test('tells what was found, how it was measured, and what the parts mean, without a script', () => {
    const seen = plain(text)
    expect(seen.replaceAll('× ', '×')).toContain(sentenceOf(headlineOf(bench.points)).replaceAll('× ', '×'))
    for (const { text: found } of findings(bench.points)) expect(seen).toContain(found)
    for (const point of bench.points)
      for (const sentence of [sentenceOf(headlineOfPoint(point)), ...ledgerInWords(point)])
        expect(seen).toContain(sentence)
    expect(seen).toContain(
      'Contention before the run: steal time 1.2 %, 1.50 other runnable threads on 2 cores',
    )
    for (const name of runPartNames) expect(seen).toContain(runParts[name])
    for (const fact of [
      'the machine was busy',
      'AMD EPYC 9B14, 2 worker threads',
      'v20.19.4',
      '11.8 GB/s',
      '41 ns',
    ])
      expect(seen).toContain(fact)
  })

  test('has a column of figures for each variant of each point', () => {
    const tables = text.match(/<table class="figures measured">.*?<\/thead>/gs) ?? []
    expect(tables).toHaveLength(bench.points.length)
    const columns = tables.flatMap((table) =>
      [...table.matchAll(/<th scope="col" class="number">([^<]*)<\/th>/g)].map(([, variant]) => variant),
    )
    expect(columns).toEqual(bench.points.flatMap(({ variants }) => variants.map(({ variant }) => variant)))
  })

  test('says that ranks on a CPU share one memory, and only of those', () => {
    for (const target of ['wasm', 'native'])
      expect(plain(runsPage(makeBench({ target })))).toContain('threads that share one memory')
    expect(plain(runsPage(makeBench({ target: 'cuda' })))).not.toContain('share one memory')
  })

  test('says when the ranks that were not delayed ended, where one was', () => {
    expect(plain(text)).not.toContain('Ranks not delayed')
    expect(plain(runsPage(makeBench({ skew: [0, 20] })))).toContain('Ranks not delayed')
  })

  test('states once, collapsed, how the recorded kernels differ from the timed ones', () => {
    const recordedUnlike = ['gate reads a flag up to 256 times before it records that it waits']
    const points = bench.points.map((point) => ({ ...point, recordedUnlike }))
    const warnings = ['the machine was busy', `Recorded, ${recordedUnlike[0]}.`]
    const page = runsPage({ ...bench, points, warnings })
    expect(points.length).toBeGreaterThan(1)
    expect(page.match(/gate reads a flag/g)).toHaveLength(1)
    const note = /<details class="recorded-note">.*?<\/details>/s.exec(page)?.[0] ?? ''
    expect(plain(note)).toMatch(
      /^\s*Times in the table are of executions without recording\..*gate reads a flag/,
    )
    expect(page).toContain('<summary>1 warning</summary>')
    expect(text).not.toContain('class="recorded-note"')
  })

  test('says so where a deviation is too large', () => {
    const point = pointWith({ deviation: { largest: 0.5, bound: 0.01 } })
    expect(plain(runsPage({ ...bench, points: [point] }))).toContain('5.0e-1 of 1.0e-2, too much')
  })

  test('shows text from outside as text', () => {
    const hostile = '</script><img src=x onerror="document.title=1">'
    const page = runsPage(makeBench({ text: hostile, M: sweepOfM }))
    expect(page).not.toContain('<img')
    expect(page.match(/<script/g)?.length).toBe(page.match(/<\/script>/g)?.length)
  })

  test('shows a measurement of nothing', () => {
    const nothing: BenchResult = { ...bench, points: [], warnings: [] }
    expect(plain(runsPage(nothing))).toContain('nothing measured')
  })
})

test('a picture keeps every span, and each label once', () => {
  const { points } = makeBench({ workers: 2 })
  const { labels, variants } = packPictures(points[0])
  expect(new Set(labels).size).toBe(labels.length)
  const unpacked = variants.map(({ variant, ranks }) => ({
    variant,
    ranks: ranks.map(({ tracks }) =>
      tracks.map(({ from, to, part, label }) =>
        from.map((start, i) => ({
          from: start,
          to: to[i],
          part: runPartNames[part[i]],
          label: labels[label[i]],
        })),
      ),
    ),
  }))
  expect(unpacked).toEqual(
    points[0].variants.map(({ variant, picture }) => ({
      variant,
      ranks: picture.ranks.map(({ tracks }) => tracks.map(({ spans }) => spans)),
    })),
  )
})

describe('sweeps', () => {
  const axes = (points: readonly Point[]): (readonly [string, string, readonly number[]])[] =>
    findSweeps(points).map(({ operation, axis, points: own }) => [operation, axis, own.map(({ at }) => at)])

  test('are points that differ in one extent alone, in its order', () => {
    const { points } = makeBench({ M: [64, 1, 8] })
    expect(axes(points)).toEqual([['allGatherGemm', 'M', [1, 8, 64]]])
  })

  test('are one for each way in which the others differ', () => {
    const { points } = makeBench({ M: [1, 8, 64], skew: [0, 20] })
    expect(axes(points)).toEqual([
      ['allGatherGemm', 'M', [1, 8, 64]],
      ['allGatherGemm', 'M', [1, 8, 64]],
    ])
    expect(findSweeps(points).map(({ fixed }) => fixed)).toEqual([
      'N=1024 K=2048, shard K, bf16, 2 ranks',
      'N=1024 K=2048, shard K, bf16, 2 ranks, last rank 20 % late',
    ])
  })

  test('go along the delay of a rank too', () => {
    expect(axes(makeBench({ skew: [0, 5, 20] }).points)).toEqual([['allGatherGemm', 'skew', [0, 5, 20]]])
  })

  test('are none where points stand alone', () => {
    expect(axes(makeBench().points)).toEqual([])
  })
})

describe('the ledger in words', () => {
  const point = pointWith(
    {
      time: between(295e3, 300e3, 305e3),
      speedup: between(1.2, 1.25, 1.3),
      launches: 1,
      ledger: ledger([240e3, 10e3, 30e3, 20e3, 0]),
    },
    { time: between(370e3, 375e3, 380e3), ledger: ledger([239e3, 40e3, 76e3, 20e3, 0], 1e6) },
  )

  test('says what the best variant saves, and how far the limit is', () => {
    const [taxes, locality, limit, ...more] = ledgerInWords(point)
    expect(more).toEqual([])
    expect(taxes).toBe(
      'With 1 kernel on each rank, fused saves 46.0 µs of waiting for other ranks (bulk synchronous tax: 76.0 µs, now 30.0 µs) ' +
        'and 30.0 µs of launching kernels (launch tax: 40.0 µs, now 10.0 µs), in recorded executions of 375 µs (bsp) and 300 µs.',
    )
    expect(locality).toContain('pass 1.00 MB to each other through memory')
    expect(locality).toContain('up to 100 µs of useful work); kernels of fused pass nothing')
    expect(limit).toContain('GEMM on data already gathered')
  })

  test('tells what it adds', () => {
    const { variants } = point
    const slower = { ...variants[1], ledger: ledger([260e3, 10e3, 30e3, 20e3, 0]) }
    expect(ledgerInWords({ ...point, variants: [variants[0], slower] })[0]).toContain(
      '; adds 21.0 µs of computing (useful work: 239 µs, now 260 µs)',
    )
  })
})

describe('the headline', () => {
  const walls = (wall: number): Partial<VariantResult> => ({
    ledger: ledger([wall, 0, 0, 0, 0]),
    picture: { ...makeBench().points[0].variants[0].picture, wall },
    recorded: between(0.98 * wall, wall, 1.02 * wall),
  })
  /**
   * A measured point at which the fastest variant has the given speed-up over `bsp`. The point's recorded executions
   * take 300 us with bsp, and the given time with the other variant.
   */
  const compared = (speedup: Quantity, recordedUs: number): Point =>
    pointWith(
      { time: between(295e3, 300e3, 305e3), speedup, ...walls(1e3 * recordedUs) },
      { time: between(370e3, 375e3, 380e3), ...walls(300e3) },
    )
  const said = (point: Point): string => sentenceOf(headlineOfPoint(point))

  test('begins with the ratio of the best variant, and has its interval', () => {
    expect(said(compared(between(1.2, 1.25, 1.3), 250))).toBe(
      '1.25× as fast as bsp: fused takes 300 µs, bsp 375 µs (95 % interval of the ratio 1.20 to 1.30).',
    )
  })

  test('says where a difference is not significant, hides no loss, and claims nothing that is not confirmed', () => {
    expect(said(compared(between(0.98, 1.01, 1.03), 250))).toContain('which is not statistically significant')
    expect(said(compared(between(0.9, 0.92, 0.95), 320))).toMatch(
      /^0.92× as fast as bsp, so bsp is the fastest/,
    )
    expect(said(compared(between(0.88, 0.89, 0.95), 250))).toMatch(
      /^0.89× as fast as bsp, which is not confirmed: .* but 1.20× \(1.15 to 1.25\) in the recorded executions.$/,
    )
  })

  test('never contradicts the timelines that are drawn', () => {
    const positive = fc.double({ min: 0.2, max: 5, noNaN: true })
    fc.assert(
      fc.property(
        fc.tuple(positive, positive, positive),
        fc.integer({ min: 60, max: 1500 }),
        fc.integer({ min: 60, max: 1500 }),
        (ratios, drawnUs, meanUs) => {
          const [low, median, high] = [...ratios].sort((a, b) => a - b)
          const point = compared(between(low, median, high), drawnUs)
          const [bulk, own] = point.variants
          const text = said({
            ...point,
            variants: [bulk, { ...own, ledger: ledger([1e3 * meanUs, 0, 0, 0, 0]) }],
          })
          if (/not statistically significant|not confirmed/.test(text)) return
          const claimed = text.includes('so bsp is the fastest') ? -1 : 1
          expect(Math.sign(300 - drawnUs), text).toBe(claimed)
          expect(Math.sign(300 - meanUs), text).toBe(claimed)
        },
      ),
      { seed: 1, numRuns: 500 },
    )
  })

  test('compares nothing where bsp was not measured', () => {
    const point = compared(between(1.2, 1.25, 1.3), 250)
    const alone = { ...point, variants: [{ ...point.variants[1], speedup: null }] }
    expect(said(alone)).toBe('fused takes 300 µs (295 µs to 305 µs); nothing was compared with bsp.')
  })

  test('of several points is the geometric mean, with the wins and the losses', () => {
    const cases = [
      [between(1.9, 2, 2.1), 200],
      [between(0.4, 0.5, 0.6), 400],
      [between(0.9, 1, 1.1), 300],
      [between(3.9, 4, 4.1), 100],
    ] as const
    const points = cases.map(([speedup, us], i) => ({ ...compared(speedup, us), shape: { M: 2 ** i, N: 8 } }))
    const text = sentenceOf(headlineOf(points))
    // The geometric means: the fourth roots of 2 * 0.5 * 1 * 4, of 1.9 * 0.4 * 0.9 * 3.9 and of 2.1 * 0.6 * 1.1 * 4.1.
    expect(text).toMatch(/^1.41× as fast as bsp: the geometric mean of the best variant over 4 points/)
    expect(text).toContain('(1.28 to 1.54, from the 95 % intervals)')
    expect(text).toContain(
      'faster at 2 points, slower at 1 point and not statistically significant at 1 point',
    )
    expect(findings(points)[0].text).toContain(
      'from 0.50× (0.40 to 0.60) at M=2 to 4.00× (3.90 to 4.10) at M=8',
    )
  })
})

test('contention is said with its unit, and as unknown where it is', () => {
  const measured = { interval: 5e8, cores: 8, steal: 0.05, runnable: 3 }
  expect(contentionText(measured)).toBe(
    'steal time 5.0 %, 3.00 other runnable threads on 8 cores, over 500 ms',
  )
  expect(contentionText({ ...measured, steal: null })).toContain('steal time unknown, 3.00 other')
  expect(contentionText({ ...measured, steal: null, runnable: null })).toMatch(/^unknown/)
})

describe('the table of a terminal', () => {
  const { points } = makeBench({ M: [1, 1024], skew: [0, 20] })

  test('fits 100 columns', () => {
    const lines = [...points.flatMap((point) => benchTable(point).split('\n')), ...tableLegend]
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(100)
  })

  test('has a row for each variant, with its figures under their names', () => {
    const point = pointWith({
      time: between(290e3, 300e3, 315e3),
      speedup: between(1.2, 1.25, 1.3),
      ofLimit: between(0.7, 0.8, 0.9),
      ledger: ledger([240, 10, 30, 20, 0], 2e6),
      deviation: { largest: 0.001, bound: 0.004 },
    })
    const [title, ...lines] = benchTable(point).split('\n')
    const at = lines.findIndex((line) => line.startsWith('  variant'))
    const [head, row] = [lines[at], lines[at + 2]]
    expect(title).toBe('allGatherGemm M=64 N=1024 K=2048, shard K, bf16, 2 ranks')
    expect(row.trim().split(/\s{2,}/)[1]).toBe('300 µs ±5%')
    /** The table cell that ends in the same column as the heading `name`. */
    const under = (name: string): string =>
      row
        .slice(0, head.indexOf(name) + name.length)
        .split(' ')
        .at(-1) ?? ''
    expect(runPartNames.map(under)).toEqual(['80', '3', '10', '7', '0'])
    expect([under('over bsp'), under('limit'), under('locality'), under('error')]).toEqual([
      '±4%',
      '0.80',
      'MB',
      '0.25',
    ])
  })

  test('tells when the others ended where a rank was late', () => {
    const late = points.find(({ skew }) => skew > 0)
    expect(late && benchTable(late)).toContain('The ranks that were not late ended after')
    expect(benchTable(points[0])).not.toContain('late')
  })
})
