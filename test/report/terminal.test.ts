/** Tests the terminal output: rows that add up, merged and complete warnings, and wording that fits the number. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import type { AuditDocument, RankDocument, WarningDocument } from '../../src/report/document.ts'
import { columns, shares, wrap } from '../../src/report/format.ts'
import { jsonPieces } from '../../src/report/json.ts'
import { screen } from '../../src/report/terminal.ts'
import { warningLines } from '../../src/report/warningLines.ts'
import { makeSample } from './sample.ts'

const { document: sample } = makeSample()
const shown = (document: Partial<AuditDocument>, page: string | null = null): string =>
  screen({ ...sample, ...document }, page).join('\n')

/** A rank of 1000 us: 300 us compute, 100 us launch, and the given communication. */
function rankOf(rank: number, wait: number | null, transfer: number | null, unsplit: number): RankDocument {
  const exposedCommUs = (wait ?? 0) + (transfer ?? 0) + unsplit
  return {
    ...sample.ranks[0],
    rank,
    wallUs: 1000,
    computeUs: 300,
    exposedCommUs,
    taxes: {
      ...sample.ranks[0].taxes,
      launchUs: 100,
      waitUs: wait,
      exposedTransferUs: transfer,
      otherUs: 600 - exposedCommUs + unsplit,
    },
    other: { ...sample.ranks[0].other, unsplitCommUs: unsplit },
  }
}
/** The cells of the table, by row. */
const table = (ranks: RankDocument[]): string[][] =>
  shown({ ranks })
    .split('\n')
    .slice(4, 5 + ranks.length)
    .map((line) => line.trim().split(/ {2,}/))

describe('the table of ranks', () => {
  it('has wait and transfer where they are known', () => {
    const [head, row] = table([rankOf(0, 200, 150, 0)])
    expect(head.slice(2, 7)).toEqual(['compute', 'launch', 'wait', 'transfer', 'other'])
    expect(row.slice(2, 7)).toEqual(['30.0 %', '10.0 %', '20.0 %', '15.0 %', '25.0 %'])
  })

  it('has bounds if ranks of the collectives have no recorded work', () => {
    const untraced = { ranks: [2], unlisted: 0, collectives: 3, complete: 0 }
    const text = shown({ ranks: [rankOf(0, 200, 150, 0), rankOf(1, 0, 350, 0)], untraced })
    expect(text).toContain('≥ 20.0 %  ≤ 15.0 %')
    expect(text).toContain('≥, ≤: rank 2 has no recorded work')
  })

  it('has one figure in their place where no rank knows them', () => {
    const [head, row, silent] = table([rankOf(0, null, null, 400), rankOf(1, 0, 0, 0)])
    expect(head.slice(2, 6)).toEqual(['compute', 'launch', 'exposed comm', 'other'])
    expect(row.slice(2, 6)).toEqual(['30.0 %', '10.0 %', '40.0 %', '20.0 %'])
    expect(silent.slice(2, 6)).toEqual(['30.0 %', '10.0 %', '0.0 %', '60.0 %'])
  })

  it('has one more beside them where some ranks do', () => {
    const [head, row, part] = table([rankOf(0, null, null, 400), rankOf(1, 200, 100, 50)])
    expect(head.slice(2, 8)).toEqual(['compute', 'launch', 'wait', 'transfer', 'unsplit', 'other'])
    expect(row.slice(2, 8)).toEqual(['30.0 %', '10.0 %', '?', '?', '40.0 %', '20.0 %'])
    expect(part.slice(2, 8)).toEqual(['30.0 %', '10.0 %', '20.0 %', '10.0 %', '5.0 %', '25.0 %'])
  })

  it('has shares that add up to 100.0, each within a tenth of what it is', () => {
    fc.assert(
      fc.property(fc.array(fc.nat(1_000_000), { minLength: 1, maxLength: 7 }), (parts) => {
        const whole = parts.reduce((sum, part) => sum + part, 0)
        fc.pre(whole > 0)
        const written = shares(parts, whole).map((share) => Math.round(10 * parseFloat(share)))
        expect(written.reduce((sum, share) => sum + share, 0)).toBe(1000)
        written.forEach((share, i) => expect(Math.abs(share - (1000 * parts[i]) / whole)).toBeLessThan(1))
      }),
      { seed: 1, numRuns: 300 },
    )
    expect(shares([1, 1, 1], 3)).toEqual(['33.4 %', '33.3 %', '33.3 %'])
  })

  it('names the clocks that collectives set, and no others', () => {
    const clock = { rank: 0, aligned: false, correctionUs: 0, driftPpm: 0, residualUs: 0 }
    const set = { ...clock, aligned: true, correctionUs: -3000, residualUs: 2 }
    const wild = { ...clock, rank: 3, residualUs: 99 }
    expect(shown({ clocks: [clock, { ...set, rank: 2 }, wild] })).toContain(
      'Clock of rank 2 was set by collective ends, by up to 3.00 ms; ends then agree to 2.00 µs.',
    )
    expect(shown({ clocks: [clock, { ...set, rank: 1 }, { ...set, rank: 2 }] })).toContain(
      'Clocks of ranks 1-2 were',
    )
    expect(shown({ clocks: [clock, wild] })).not.toContain('collective ends')
  })
})

it('begins with the headline', () => {
  expect(shown({}).split('\n')[0]).toMatch(
    /^[\d.]+ % of GPU time lost .*; rank 5 causes [\d.]+ % of the waiting\.$/,
  )
})

it('shows the rank that was waited for most first, also among many that wait as long', () => {
  const ranks = Array.from({ length: 64 }, (_, rank) => rankOf(rank, 100 + Math.abs(rank - 50), 0, 0))
  const [culprit] = sample.stragglers
  const middling = ranks.findIndex(({ taxes }) => taxes.waitUs === 120)
  const lines = shown({ ranks, stragglers: [{ ...culprit, rank: middling, exposedWaitUs: 9 }] }).split('\n')
  expect(lines[5]).toMatch(new RegExp(`^ {2}${middling}\\* `))
  expect(lines[15]).toBe(`  *: rank ${middling} was waited for most`)
})

it('ranks whose lateness cost nobody time are not blamed', () => {
  const [one] = sample.stragglers
  const stragglers = [
    { ...one, rank: 7, keptWaitingUs: 900, exposedWaitUs: 400, collectives: 1 },
    { ...one, rank: 8, keptWaitingUs: 5000, exposedWaitUs: 0 },
  ]
  expect(shown({ stragglers })).toMatch(/rank 7 {2}400 µs {2}last at 1 collective\b/)
  expect(shown({ stragglers })).not.toContain('rank 8 ')
})

it('text stands on the left of its column, figures on the right', () => {
  expect(
    columns(
      [
        ['a', '1', 'x'],
        ['bb', '10', 'long'],
      ],
      [0, 2],
    ),
  ).toEqual(['  a    1  x', '  bb  10  long'])
})

describe('warnings', () => {
  const sources = [0, 1, 2].map((rank) => ({
    path: `job/rank${rank}.json`,
    format: 'kineto',
    bytes: 1,
    ranks: [rank],
  }))
  const warning = (of: string, message: string, count = 1): WarningDocument => ({ class: of, message, count })

  it('that several files give are one line, with their number', () => {
    const warnings = [0, 1, 2].map((rank) =>
      warning('correlation', `rank${rank}.json: device work without the host call that enqueued it`, 5),
    )
    expect(warningLines({ sources, warnings })).toEqual([
      'device work without the host call that enqueued it (15 times in 3 files)',
    ])
    expect(warningLines({ sources, warnings: warnings.slice(1, 2) })).toEqual([
      'rank1.json: device work without the host call that enqueued it (5 times)',
    ])
    const named = [0, 1].map((rank) =>
      warning('time', `rank${rank}.json: k${rank} has no readable time; left out`),
    )
    expect(warningLines({ sources, warnings: named })).toEqual([
      'k0 has no readable time; left out (2 times in 2 files)',
    ])
  })

  it('count what they are about, and nothing that the message says itself', () => {
    const warnings = [
      warning('missing-ranks', 'there is no trace of ranks 1-7', 7),
      warning('shapes', 'the trace of rank 0 has no shapes', 2),
    ]
    expect(warningLines({ sources, warnings })).toEqual([
      'there is no trace of ranks 1-7',
      'the trace of rank 0 has no shapes (2 ranks)',
    ])
  })

  it('come the gravest first; the others are where the reader can find them', () => {
    const names = ['one', 'two', 'three', 'four', 'five']
    const warnings = [
      ...names.map((name) => warning('overlap', `${name} overlaps`)),
      warning('truncated', 'the input ends inside a document'),
      warning('missing-ranks', 'there is no trace of rank 1'),
    ]
    const text = shown({ warnings, sources }, 'x.html')
    expect(text).toMatch(
      /Warnings\n {2}there is no trace of rank 1\n {2}the input ends inside a document\n {2}one overlaps/,
    )
    expect(text).toContain('… 2 more warnings, in x.html')
    expect(shown({ warnings: warnings.slice(1), sources })).toContain('… 1 more warning, shown by --json')
  })

  it('about clocks that the table mentions are left out', () => {
    const warnings = [
      warning('aligned', 'the clock of rank 3 disagrees with collective ends by 3 µs; aligned'),
      warning('clock', 'no matched collective connects rank 2 to rank 0'),
    ]
    expect(shown({ warnings, sources })).not.toContain('disagrees')
    expect(shown({ warnings, sources })).toContain('no matched collective connects rank 2')
  })

  it('are wrapped, never cut', () => {
    const message = Array.from({ length: 60 }, (_, i) => `word${i}`).join(' ')
    const lines = wrap(message)
    for (const line of lines) expect(line.length).toBeLessThanOrEqual(100)
    expect(lines.map((line) => line.trim()).join(' ')).toBe(message)
    expect(lines.slice(1).every((line) => /^ {4}\S/.test(line))).toBe(true)
  })
})

it('JSON in pieces is the JSON of the whole', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      expect([...jsonPieces(value)].join('')).toBe(JSON.stringify(value))
    }),
    { seed: 3, numRuns: 300 },
  )
  expect([...jsonPieces({ a: undefined, b: [1] })].join('')).toBe('{"b":[1]}')
  const pieces = [...jsonPieces({ rows: Array.from({ length: 50_000 }, (_, i) => ({ i })) })]
  expect(Math.max(...pieces.map(({ length }) => length))).toBeLessThan(70_000)
})
