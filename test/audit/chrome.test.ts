/** Chrome traces that Arke writes: reading them back restores the timeline exactly, and other viewers can open them. */
import { writeFileSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { readArkeTrace } from '../../src/audit/arkeTrace.ts'
import { readTraces } from '../../src/audit/open.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { writeChrome } from '../../src/timeline/chrome.ts'
import { Kind, type Timeline } from '../../src/timeline/timeline.ts'
import { collectivesOf } from '../../src/taxes/collectives.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { jobOf, record } from '../taxes/job.ts'
import { contents, timelines } from '../timeline/drawn.ts'

const written = (timeline: Timeline, options = {}): string => [...writeChrome(timeline, options)].join('')
const readBack = async (text: string) => {
  const file = await readArkeTrace(Buffer.from(text))
  const timeline: Timeline = { ranks: file.ranks.map((one) => one.timeline), names: file.names }
  return { timeline, warnings: file.warnings }
}

describe('a Chrome trace that Arke wrote', () => {
  it('is read back unchanged: times to the nanosecond, links, tracks, communications, operands', async () => {
    await fc.assert(
      fc.asyncProperty(timelines, async (timeline) => {
        const { timeline: back, warnings } = await readBack(written(timeline))
        expect(warnings).toEqual([])
        expect(contents(back)).toEqual(contents(timeline))
      }),
      { seed: 7, numRuns: 300 },
    )
  })

  it('is JSON with one process per rank, one thread per track, and arrows from launches to work', () => {
    interface Event {
      ph: string
      pid: number
      tid: number
      ts: number
      id?: string
    }
    fc.assert(
      fc.property(timelines, (timeline) => {
        const { traceEvents } = JSON.parse(written(timeline)) as { traceEvents: Event[] }
        const spans = traceEvents.filter(({ ph }) => ph === 'X')
        expect(spans).toHaveLength(timeline.ranks.reduce((sum, { events }) => sum + events.length, 0))
        const threads = new Map(spans.map(({ pid, tid }) => [tid, pid]))
        for (const { pid, tid } of spans) expect(threads.get(tid)).toBe(pid)
        expect(spans.every(({ pid, tid, ts }) => pid > 0 && tid > 0 && ts >= 0)).toBe(true)
        const begins = traceEvents.filter(({ ph }) => ph === 's').map(({ id }) => id)
        const ends = traceEvents.filter(({ ph }) => ph === 'f').map(({ id }) => id)
        expect(begins).toEqual(ends)
        expect(new Set(begins).size).toBe(begins.length)
        expect(written(timeline, { flows: false })).not.toContain('"ph":"s"')
      }),
      { seed: 8, numRuns: 100 },
    )
  })

  const twoRanks = (): Timeline => {
    const builder = new TimelineBuilder()
    for (const number of [0, 1]) {
      const rank = builder.rank(number)
      rank.base = 1_700_000_000_000_000_000n + BigInt(number) * 5_000n
      rank.add(Kind.kernel, rank.track('stream', 0, 7), builder.intern('k'), 0, 10)
    }
    return builder.freeze()
  }

  it('places ranks on a common clock', async () => {
    // The time bases of the two ranks are 5000 ns apart. After alignment of the clocks, 10 ns of this distance remain.
    const clocks = [
      { offset: 0, drift: 0 },
      { offset: 10, drift: 0 },
    ]
    const text = written(twoRanks(), { clocks })
    const { traceEvents } = JSON.parse(text) as { traceEvents: { ph: string; ts: number }[] }
    expect(traceEvents.filter(({ ph }) => ph === 'X').map(({ ts }) => ts)).toEqual([0, 0.01])
    const { timeline } = await readBack(text)
    expect(timeline.ranks.map(({ base }) => base)).toEqual([
      1_700_000_000_000_000_000n,
      1_700_000_000_000_000_010n,
    ])
  })

  it('places ranks whose clocks drift or are centuries apart, and an audit then finds one clock', async () => {
    const options = { seed: 8, ranks: 4, layouts: ['world'], rounds: 300, compute: 40_000_000 } as const
    const { timeline } = record(jobOf(options), options.ranks, {
      metadata: 'ranks',
      offset: (rank) => [0n, 10n ** 19n, -1_600_000_000_000_000_000n, 40_000_000n][rank],
      drift: (rank) => [0, 40e-6, -40e-6, 0][rank],
    })
    const before = collectivesOf(timeline, new Warnings())
    const { timeline: back, warnings } = await readBack(written(timeline, { clocks: before.clocks }))
    expect(warnings).toEqual([])
    const after = collectivesOf(back, new Warnings())
    for (const clock of after.clocks) expect(clock).toMatchObject({ aligned: false, correction: 0, drift: 0 })
    expect(after.collectives).toHaveLength(before.collectives.length)
    const found = [...after.collectives]
    Array.from(before.collectives, ({ members }, i) =>
      members.forEach(({ wait }, k) => {
        // On the common clock, a wait is stretched or shortened by the drift, and both its ends are rounded.
        expect(Math.abs((wait ?? 0) - (found[i].members[k].wait ?? 0))).toBeLessThan(3 + 50e-6 * (wait ?? 0))
      }),
    )
  })

  it('is audited like any other trace', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'arke-chrome-'))
    try {
      writeFileSync(join(folder, 'run.json'), written(twoRanks()))
      const { timeline, sources, warnings } = await readTraces([folder])
      expect(sources).toMatchObject([{ format: 'arke', ranks: [0, 1] }])
      expect(warnings).toEqual([])
      expect(contents(timeline)).toEqual(contents(twoRanks()))
    } finally {
      rmSync(folder, { recursive: true })
    }
  })

  it('yields its readable part and a warning if it is damaged', async () => {
    const text = written(twoRanks())
    const cut = await readBack(text.slice(0, text.lastIndexOf('{"ph":"X"') + 20))
    expect(cut.timeline.ranks.map(({ events }) => events.length)).toEqual([1, 0])
    expect(cut.warnings.map((one) => one.class)).toContain('truncated')
    const future = await readBack(text.replace('"version":2', '"version":3'))
    expect(future.timeline.ranks).toEqual([])
    const strange = await readBack(text.replace('"tracks":[["', '"tracks":[["no '))
    expect(strange.timeline.ranks).toHaveLength(1)
    expect(strange.warnings.map((one) => one.class)).toContain('garbage')
    expect(future.warnings.map((one) => one.class)).toContain('garbage')
  })
})
