/**
 * Tests the advice on what to fix, for generated jobs with known truth: the biggest cost is named with its evidence,
 * wherever it is in the ledger, and the bounds never exceed the time that the job loses.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { demoJob, STRAGGLER } from '../../src/audit/demo/demo.ts'
import { FRAME, layOut, LOADER } from '../../src/audit/demo/layout.ts'
import { truthOf } from '../../src/audit/demo/truth.ts'
import {
  collective,
  copy,
  dependency,
  dispatch,
  gap,
  type HostActivity,
  type Idle,
  type Job,
  kernel,
  type PerRank,
  type Phase,
} from '../../src/audit/demo/workload.ts'
import { kinetoTextOf, type WriteOptions } from '../../src/audit/demo/write.ts'
import { readKineto } from '../../src/audit/kineto.ts'
import type { AuditDocument } from '../../src/report/document.ts'
import { worthwhile } from '../../src/report/summary.ts'
import { screen } from '../../src/report/terminal.ts'
import { toDocument } from '../../src/report/toDocument.ts'
import { type Audit, audit } from '../../src/taxes/audit.ts'
import { hostParts } from '../../src/taxes/hostActivity.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { Warnings } from '../../src/timeline/warnings.ts'
import { jobs } from './jobs.ts'
import { itForRuns } from '../long.ts'

interface Audited {
  readonly timeline: Timeline
  readonly found: Audit
  readonly document: AuditDocument
}

async function audited(job: Job, options: WriteOptions = {}): Promise<Audited> {
  const laid = layOut(job)
  const builder = new TimelineBuilder()
  for (const { rank } of laid.ranks)
    await readKineto(Buffer.from(kinetoTextOf(laid, rank, options)), builder, {
      name: `rank${rank}.json`,
      detail: 'needed',
    })
  const timeline = builder.freeze()
  const found = audit(timeline, new Warnings())
  const document = toDocument({
    timeline,
    audit: found,
    options: {},
    sources: [],
    warnings: [],
    version: '0',
  })
  return { timeline, found, document }
}

const sum = <T>(values: Iterable<T>, of: (value: T) => number): number =>
  [...values].reduce((total, one) => total + of(one), 0)

/** A phase in which the device is idle because the host is busy with the given activities. */
const idle = (...host: (readonly [HostActivity, PerRank])[]): Idle => ({
  phase: 'idle',
  host: [...host, ['operator', 20_000]],
})
const job = (ranks: number, steps: readonly (readonly Phase[])[]): Job => ({
  ranks,
  groups: [{ name: '0', description: 'default_pg', ranks: Array.from({ length: ranks }, (_, rank) => rank) }],
  steps,
})
const steps = (count: number, step: (number: number) => readonly Phase[]): Phase[][] =>
  Array.from({ length: count }, (_, i) => [...step(i)])

describe('the bounds of all fixes', () => {
  itForRuns(
    'are disjoint times of the ledger: together, they are all time that is not compute',
    120,
    async (numRuns) => {
      await fc.assert(
        fc.asyncProperty(jobs({ minRanks: 1, subgroups: true }), async (random) => {
          const { timeline, found } = await audited(random)
          const wall = sum(found.ranks, ({ ledger }) => ledger.wall)
          for (const { time, saves, least } of found.fixes) {
            expect(saves).toBeGreaterThanOrEqual(0)
            expect(saves).toBeLessThanOrEqual(time)
            expect(least).toBeLessThanOrEqual(time)
          }
          expect(sum(found.fixes, ({ saves }) => saves)).toBeLessThanOrEqual(wall)
          const inside = found.fixes.filter(({ cause }) => cause === 'locality' || cause === 'outlier')
          const outside = found.fixes.filter(({ cause }) => cause !== 'locality' && cause !== 'outlier')
          const compute = sum(found.ranks, ({ ledger }) => ledger.compute)
          expect(sum(outside, ({ time }) => time)).toBe(wall - compute)
          expect(sum(inside, ({ time }) => time)).toBeLessThanOrEqual(compute)

          for (const { rank, times } of found.host) {
            const { ledger } = found.ranks.find(({ index }) => index === rank) ?? { ledger: null }
            for (const part of hostParts)
              expect(
                sum(
                  times.filter((one) => one.part === part),
                  ({ time }) => time,
                ),
                `${part} of rank ${timeline.ranks[rank].rank}`,
              ).toBe(ledger?.parts[part])
          }
        }),
        { seed: 30, numRuns },
      )
    },
  )

  itForRuns(
    'for a late rank, are at most the time after the arrival of the second-latest rank',
    80,
    async (numRuns) => {
      await fc.assert(
        fc.asyncProperty(jobs({ minRanks: 2, subgroups: true }), async (random) => {
          const laid = layOut(random)
          const { timeline, found } = await audited(random)
          const bounds = laid.ranks.map(() => 0)
          for (const { perRank, lastRank } of truthOf(laid).collectives) {
            const arrivals = perRank.map(({ start }) => start).sort((a, b) => b - a)
            if (lastRank !== null) bounds[lastRank] += (perRank.length - 1) * (arrivals[0] - arrivals[1])
          }
          for (const { cause, ranks, saves } of found.fixes)
            if (cause === 'straggler')
              expect(saves).toBeLessThanOrEqual(bounds[timeline.ranks[ranks[0]].rank])
        }),
        { seed: 31, numRuns },
      )
    },
  )
})

describe('what to fix first', () => {
  const first = ({ document }: Audited) => worthwhile(document)[0]

  it('is a copy from pageable memory, where that takes nearly all the time', async () => {
    const name = 'Memcpy HtoD (Pageable -> Device)'
    const result = await audited(
      job(
        1,
        steps(4, () => [idle(), copy(name, 9_700_000, { bytes: 1e8 }), kernel('gemm', 200_000)]),
      ),
    )
    expect(first(result)).toMatchObject({ cause: 'copy', us: 4 * 9700, savesUs: 4 * 9700, once: false })
    expect(first(result).advice).toContain('pin_memory=True')
    expect(first(result).evidence).toContain(
      '100.0 % Memcpy HtoD (Pageable -> Device) in aten::op (4 times, 400 MB)',
    )
    expect(result.document.summary[0]).toContain('none of the three taxes but copies')
    expect(result.document.summary[2]).toMatch(/^Fix first: copies from the host to the device/)
  })

  it('is the data loader that the trace names', async () => {
    const result = await audited(
      job(
        2,
        steps(4, () => [idle(['loading', 700_000], ['absent', 90_000]), kernel('gemm', 700_000)]),
      ),
    )
    // The idle time before the first kernel of the recording is not in the window.
    expect(first(result)).toMatchObject({ cause: 'dataLoading', us: 2 * 3 * 700, count: 6 })
    expect(first(result).evidence).toContain('DataLoader')
    expect(first(result).seen[0]).toMatchObject({ activity: 'dataLoading', name: LOADER, us: 4200 })
    expect(result.document.host?.find(({ part }) => part === 'hostAbsent')?.activities).toMatchObject([
      { activity: 'dataLoading', us: 2100, count: 3 },
      { activity: 'notRecorded', us: 270, count: 3 },
    ])
  })

  it('is Python code, an allocation or a synchronisation, each with its call', async () => {
    const cases: [HostActivity, Partial<ReturnType<typeof first>>, string][] = [
      ['python', { cause: 'hostAbsent' }, FRAME],
      ['allocate', { cause: 'allocation' }, 'cudaMalloc in aten::empty'],
      ['item', { cause: 'hostBlocked' }, 'cudaStreamSynchronize in aten::item'],
    ]
    for (const [activity, expected, evidence] of cases) {
      const result = await audited(
        job(
          1,
          steps(5, () => [idle([activity, 700_000]), kernel('gemm', 300_000)]),
        ),
      )
      expect(first(result)).toMatchObject(expected)
      expect(first(result).evidence).toContain(evidence)
    }
  })

  it('says how long devices stay idle after the host waited for them', async () => {
    const result = await audited(
      job(
        2,
        steps(4, () => [idle(['synchronize', 500_000], ['absent', 80_000]), kernel('gemm', 300_000)]),
      ),
    )
    // Three steps of two ranks: 80 us without host events and 20 us of dispatch follow each synchronisation.
    expect(first(result)).toMatchObject({ cause: 'hostBlocked', us: 6 * 500, followingUs: 6 * 100 })
    expect(first(result).advice).toContain('the fix also saves the 300 µs of idle time per rank')
  })

  it('is one hole, which is kept out of the means', async () => {
    const result = await audited(
      job(
        1,
        steps(6, (step) => [idle(['python', step === 1 ? 30_000_000 : 5_000]), kernel('gemm', 900_000)]),
      ),
    )
    expect(first(result)).toMatchObject({ cause: 'hole', once: true, count: 1 })
    expect(first(result).evidence).toContain(FRAME)
    expect(result.document.summary[0]).toContain(
      'One-off idle intervals, which are left out here, take 30.0 ms more',
    )
    const others = worthwhile(result.document).filter(({ once }) => !once)
    expect(sum(others, ({ us }) => us)).toBeLessThan(200)
  })

  it('is a straggler that computes more, by its shapes, or that is slower at equal work', async () => {
    const tokens = [1024, 1024, 4096, 1024]
    const experts = (rows: readonly number[]) =>
      rows.map((count) => ({
        name: 'aten::_grouped_mm',
        shapes: [
          [count, 512],
          [8, 512, 2048],
        ],
      }))
    const layer = (rows: readonly number[], times: readonly number[]): Phase[] => [
      dispatch(20_000),
      kernel('grouped_gemm', times, { operator: experts(rows) }),
      dispatch(20_000),
      collective('allToAll', 0, 40_000),
    ]
    const busy = job(
      4,
      steps(4, () => [
        ...layer(
          tokens,
          tokens.map((count) => count * 200),
        ),
      ]),
    )
    const more = await audited(busy)
    expect(more.document.stragglers[0].rank).toBe(2)
    expect(first(more)).toMatchObject({ cause: 'straggler', ranks: [2] })
    expect(first(more).advice).toContain('4.00 times the work in aten::_grouped_mm')
    expect(first(more).evidence).toContain('4096x512 against 1024x512')
    const because = more.document.stragglers[0].because
    expect(because?.moreWorkUs).toBeCloseTo(3 * 3072 * 0.2, 0)
    expect(because?.slowerUs).toBeCloseTo(0, 3)

    const even = [1024, 1024, 1024, 1024]
    const slow = await audited(
      job(
        4,
        steps(4, () => [
          ...layer(
            even,
            tokens.map((count) => count * 200),
          ),
        ]),
      ),
    )
    expect(first(slow)).toMatchObject({ cause: 'straggler', ranks: [2] })
    expect(first(slow).advice).toContain('4.00 times as long for equal work')
    expect(slow.document.stragglers[0].because?.moreWorkUs).toBe(0)

    const unknown = await audited(
      job(
        4,
        steps(4, () => [
          dispatch(20_000),
          kernel(
            'gemm',
            tokens.map((count) => count * 200),
          ),
          collective('allReduce', 0, 40_000),
        ]),
      ),
    )
    expect(first(unknown).advice).toContain('record_shapes=True')
  })

  it('is a straggler whose host is late, with what its host did', async () => {
    const result = await audited(
      job(
        4,
        steps(4, () => [
          idle(['loading', [0, 0, 0, 800_000]], ['absent', [0, 0, 0, 50_000]]),
          kernel('gemm', 100_000),
          collective('allReduce', 0, 40_000),
        ]),
      ),
    )
    expect(first(result)).toMatchObject({ cause: 'straggler', ranks: [3], once: false })
    expect(first(result).advice).toContain(`the host of rank 3 is late, mostly in ${LOADER.slice(0, 20)}`)
    expect(result.document.stragglers[0].host?.[0]).toMatchObject({ activity: 'dataLoading', name: LOADER })
  })

  it('keeps one long copy apart from the copies of every step', async () => {
    const name = 'Memcpy HtoD (Pageable -> Device)'
    const result = await audited(
      job(
        1,
        steps(6, (step) => [idle(), copy(name, step === 2 ? 9_000_000 : 50_000), kernel('gemm', 200_000)]),
      ),
    )
    const copies = result.document.fixes?.filter(({ cause }) => cause === 'copy')
    expect(copies?.map(({ once, us, count }) => [once, us, count])).toEqual([
      [true, 9000, 1],
      [false, 5 * 50, 5],
    ])
  })

  it('keeps one call of a kernel apart that took far longer than the others', async () => {
    const result = await audited(
      job(
        1,
        steps(6, (step) => [dispatch(9_000), kernel('tuned', step === 0 ? 30_000_000 : 100_000)]),
      ),
    )
    const outlier = result.document.fixes?.find(({ cause }) => cause === 'outlier')
    expect(outlier).toMatchObject({ once: true, us: 30_000, savesUs: 29_900, count: 1 })
    expect(outlier?.evidence).toContain('one of 6 calls')
  })

  it('is no single rank where two ranks are equally late, and none is blamed for the first collective', async () => {
    const two = await audited(
      job(
        4,
        steps(3, () => [
          dispatch(20_000),
          kernel('gemm', [1e6, 1e6, 3e6, 3e6]),
          collective('allReduce', 0, 40_000),
        ]),
      ),
    )
    expect(two.document.stragglers).toEqual([])
    expect(first(two)).toMatchObject({ cause: 'imbalance' })
    expect(first(two).evidence).toBe('100.0 % while rank 2 was last')

    const once = await audited(
      job(4, [
        [
          dispatch(20_000),
          kernel('gemm', [1e6, 9e6, 1e6, 1e6]),
          collective('allReduce', 0, 40_000),
          dispatch(20_000),
          kernel('gemm', 1e6),
        ],
      ]),
    )
    expect(once.document.stragglers).toEqual([])
    const fix = once.document.fixes?.find(({ cause }) => cause === 'firstCollective')
    expect(fix).toMatchObject({ us: 24_000, savesUs: 0 })
  })

  itForRuns('is the cause that takes most of the time, whichever it is', 60, async (numRuns) => {
    const big = 900_000
    /** For each cause of lost time, the phases of a step in which this cause costs `size` nanoseconds. */
    const planted: Record<string, (size: number) => readonly Phase[]> = {
      copy: (size) => [dispatch(9_000), copy('Memcpy DtoH (Device -> Pinned)', size), gap(700)],
      dataLoading: (size) => [idle(['loading', size]), kernel('a', 9_000)],
      hostAbsent: (size) => [idle(['absent', size]), kernel('a', 9_000)],
      hostBlocked: (size) => [idle(['synchronize', size]), kernel('a', 9_000)],
      allocation: (size) => [idle(['allocate', size]), kernel('a', 9_000)],
      dispatch: (size) => [dispatch(size), kernel('a', 9_000)],
      gap: (size) =>
        Array.from({ length: 20 }, () => [kernel('b', 2_000), gap(Math.round(size / 20))]).flat(),
      dependency: (size) => [kernel('a', 9_000), dependency(size), kernel('b', 9_000, { stream: 9 })],
      transfer: (size) => [collective('allReduce', 0, size), dispatch(9_000)],
      straggler: (size) => [
        collective('allReduce', 0, 9_000),
        dispatch(9_000),
        kernel('c', [20_000, 20_000, 20_000 + size, 20_000]),
        dispatch(9_000),
        collective('allReduce', 0, 9_000),
        dispatch(9_000),
      ],
      imbalance: (size) => [
        collective('allReduce', 0, 9_000),
        dispatch(9_000),
        kernel('c', [20_000, 20_000 + size, 20_000 + size, 20_000]),
        dispatch(9_000),
        collective('allReduce', 0, 9_000),
        dispatch(9_000),
      ],
    }
    const names = Object.keys(planted)
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...names),
        fc.array(fc.constantFrom(...names), { maxLength: 3 }),
        fc.integer({ min: 3, max: 6 }),
        async (main, others, count) => {
          const step = [
            dispatch(9_000),
            kernel('start', 50_000),
            dispatch(9_000),
            ...planted[main](2 * big),
            kernel('middle', 30_000),
            ...others
              .filter((one) => one !== main)
              .flatMap((one) => [dispatch(9_000), ...planted[one](big / 20)]),
            dispatch(9_000),
            kernel('end', 30_000),
          ]
          const result = await audited(
            job(
              4,
              steps(count, () => step),
            ),
          )
          expect(first(result).cause, `${main} beside ${others.join(', ')}`).toBe(main)
        },
      ),
      { seed: 32, numRuns },
    )
  })

  it('is nothing, where no cause takes 1 % of the time', async () => {
    const result = await audited(
      job(
        2,
        steps(2, () => [dispatch(2_000), kernel('gemm', 5_000_000), collective('allReduce', 0, 10_000)]),
      ),
    )
    expect(worthwhile(result.document)).toEqual([])
    expect(result.document.summary[2]).toMatch(/^Nothing here is worth fixing/)
    expect(screen(result.document, null).join('\n')).toContain('Nothing here is worth fixing')
  })

  it('of the demo is the transfers, with the command that tries the operation, and then the slow rank', async () => {
    const { document } = await audited(demoJob())
    const [transfer, late] = worthwhile(document)
    expect(transfer.cause).toBe('transfer')
    expect(late).toMatchObject({ cause: 'straggler', ranks: [STRAGGLER] })
    expect(late.advice).toMatch(/2\.\d+ times as long for equal work in aten::_flash_attention_forward/)
  })
})
