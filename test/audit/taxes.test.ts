/**
 * Tests the whole audit on traces whose taxes are known by construction: all parts of every rank's time, every step,
 * the wait and transfer of every collective, and the stragglers, to the nanosecond.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { AHEAD, CLOCK_OFFSET, demoJob, STRAGGLER, tracesOf } from '../../src/audit/demo/demo.ts'
import type { Laid } from '../../src/audit/demo/laid.ts'
import { layOut } from '../../src/audit/demo/layout.ts'
import { type Tally, truthOf } from '../../src/audit/demo/truth.ts'
import { ofRank } from '../../src/audit/demo/workload.ts'
import {
  kinetoTextOf,
  originOf,
  type Schema,
  schemas,
  type WriteOptions,
} from '../../src/audit/demo/write.ts'
import { readKineto } from '../../src/audit/kineto.ts'
import { type Audit, audit, type Ledger } from '../../src/taxes/audit.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import type { Timeline } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'
import { jobs, type JobShape } from './jobs.ts'
import { itForRuns, long } from '../long.ts'

interface Audited {
  readonly timeline: Timeline
  readonly found: Audit
  readonly warnings: readonly Warning[]
}

async function auditOf(texts: readonly { name: string; text: string }[]): Promise<Audited> {
  const builder = new TimelineBuilder()
  const read: Warning[] = []
  for (const { name, text } of texts)
    read.push(...(await readKineto(Buffer.from(text), builder, { name })).warnings)
  const timeline = builder.freeze()
  const warnings = new Warnings()
  const found = audit(timeline, warnings)
  return { timeline, found, warnings: [...read, ...warnings.list()] }
}

const written = (laid: Laid, known: readonly number[], options: WriteOptions) =>
  known.map((rank) => ({ name: `rank${rank}.json`, text: kinetoTextOf(laid, rank, options) }))

const everyRank = ({ ranks }: Laid): number[] => ranks.map(({ rank }) => rank)

const expected = ({ wall, busy, idle, compute, communication, copy, hiddenWait, parts }: Tally) => ({
  wall,
  busy,
  idle,
  compute,
  communication,
  copy,
  hiddenWait,
  parts,
})
const actual = (ledger: Ledger) => expected(ledger)

/** Compares all results of the audit with the truth. */
function check(
  laid: Laid,
  known: readonly number[],
  options: WriteOptions,
  { timeline, found }: Audited,
): void {
  const truth = truthOf(laid, known)
  expect(found.ranks.map(({ index }) => timeline.ranks[index].rank)).toEqual(
    truth.ranks.map(({ rank }) => rank),
  )
  truth.ranks.forEach((rank, i) => {
    expect(actual(found.ranks[i].ledger), `rank ${rank.rank}`).toEqual(expected(rank))
    if (options.steps ?? true)
      expect(
        found.ranks[i].steps.map(({ ledger }) => actual(ledger)),
        `steps of rank ${rank.rank}`,
      ).toEqual(rank.steps.map(expected))
  })

  const origin = originOf(options.schema ?? '2026')
  const onLayout = (index: number, time: number): number =>
    Number(timeline.ranks[index].base - origin) +
    time -
    ofRank(options.clockOffset ?? 0, timeline.ranks[index].rank)
  const order = (a: { rank: number; start: number }[], b: { rank: number; start: number }[]): number =>
    a[0].start - b[0].start || a[0].rank - b[0].rank
  expect(
    Array.from(found.collectives, ({ members }) =>
      members.map(({ rank, event, wait, transfer }) => ({
        rank: timeline.ranks[rank].rank,
        start: onLayout(rank, timeline.ranks[rank].events.start[event]),
        duration: timeline.ranks[rank].events.duration[event],
        wait,
        transfer,
      })),
    ).sort(order),
  ).toEqual(truth.collectives.map(({ perRank }) => [...perRank]).sort(order))

  if (truth.collectives.some(({ tied }) => tied)) return
  const keptWaiting = laid.ranks.map(() => laid.ranks.map(() => 0))
  for (const { rank, waiters, keptWaiting: total } of found.stragglers) {
    expect(waiters.reduce((sum, { wait }) => sum + wait, 0)).toBe(total)
    for (const waiter of waiters)
      keptWaiting[timeline.ranks[rank].rank][timeline.ranks[waiter.rank].rank] = waiter.wait
  }
  // If the trace does not list groups, the audit charges no rank in a tie, or if it cannot rule out that another rank
  // caused more waiting.
  const isListed = options.metadata !== false && (options.schema ?? '2026') === '2026'
  if (!isListed)
    keptWaiting.forEach((waits, rank) => {
      waits.forEach((wait, waiter) => expect(wait).toBeLessThanOrEqual(truth.keptWaiting[rank][waiter]))
    })
  else expect(keptWaiting).toEqual(truth.keptWaiting)
}

/** The traces are valid, so only the warnings in `allowed` may occur. */
const quiet = ({ warnings }: Audited, ...allowed: Warning['class'][]): void =>
  expect(warnings.filter((one) => !allowed.includes(one.class))).toEqual([])

/**
 * Calls without sequence numbers are matched by the times at which they end, so they must be as long as real calls and
 * not a few nanoseconds.
 */
const shapeOf = (schema: Schema): JobShape => ({
  unit: { '2021': 1000, '2023': 997, '2026': 1, rocm: 1003 }[schema],
  subgroups: schema === '2026',
})

describe('taxes that are known by construction', () => {
  const checkJobs = async (schema: Schema, numRuns: number): Promise<void> => {
    await fc.assert(
      fc.asyncProperty(jobs({ minRanks: 2, ...shapeOf(schema) }), async (job) => {
        const laid = layOut(job)
        const options = { schema }
        const audited = await auditOf(written(laid, everyRank(laid), options))
        check(laid, everyRank(laid), options, audited)
        quiet(audited, 'shapes', 'device', ...(schema === '2026' ? [] : ['groups' as const]))
      }),
      { seed: 21, numRuns },
    )
  }
  for (const schema of schemas) {
    const name = `of random jobs in the schema ${schema}`
    if (schema === '2026') itForRuns(name, 150, (runs) => checkJobs(schema, runs))
    else it(name, long, () => checkJobs(schema, 150))
  }

  itForRuns(
    'of one rank alone: its communication cannot be split, which a warning says',
    100,
    async (numRuns) => {
      await fc.assert(
        fc.asyncProperty(jobs({ minRanks: 2, subgroups: true }), fc.nat(7), async (job, some) => {
          const laid = layOut(job)
          const known = [some % job.ranks]
          const audited = await auditOf(written(laid, known, {}))
          check(laid, known, {}, audited)
          expect(audited.warnings.map((one) => one.class)).toContain('missing-ranks')
        }),
        { seed: 22, numRuns },
      )
    },
  )

  itForRuns('of some ranks: waits are lower bounds, which a warning says', 100, async (numRuns) => {
    await fc.assert(
      fc.asyncProperty(
        jobs({ minRanks: 4, subgroups: true }),
        fc.array(fc.boolean(), { minLength: 8, maxLength: 8 }),
        async (job, missing) => {
          const laid = layOut(job)
          const known = everyRank(laid).filter((rank) => !missing[rank])
          if (known.length === 0 || known.length === job.ranks) return
          const audited = await auditOf(written(laid, known, {}))
          check(laid, known, {}, audited)
          expect(audited.warnings.map((one) => one.class)).toContain('missing-ranks')
        },
      ),
      { seed: 23, numRuns },
    )
  })

  itForRuns('of ranks whose clocks are far apart', 150, async (numRuns) => {
    // Offsets below the scatter of collective ends are not corrected, so two clocks either agree or differ by much
    // more.
    const offset = fc.integer({ min: -500, max: 500 }).map((some) => some * 100_003)
    await fc.assert(
      fc.asyncProperty(
        jobs({ minRanks: 2, subgroups: true }),
        fc.array(offset, { minLength: 8, maxLength: 8 }),
        async (job, clockOffset) => {
          const laid = layOut(job)
          const options = { clockOffset }
          check(laid, everyRank(laid), options, await auditOf(written(laid, everyRank(laid), options)))
        },
      ),
      { seed: 24, numRuns },
    )
  })

  itForRuns(
    'of traces without annotated steps, without group metadata, with calls of Python',
    100,
    async (numRuns) => {
      await fc.assert(
        fc.asyncProperty(jobs({ minRanks: 2 }), fc.boolean(), fc.boolean(), async (job, steps, metadata) => {
          const laid = layOut(job)
          const options = { steps, metadata, python: 2 }
          check(laid, everyRank(laid), options, await auditOf(written(laid, everyRank(laid), options)))
        }),
        { seed: 25, numRuns },
      )
    },
  )
})

describe('the demo', () => {
  it('is audited to the nanosecond, its straggler named and its clock corrected', async () => {
    const laid = layOut(demoJob())
    const traces = tracesOf(laid)
    const audited = await auditOf(traces)
    const clockOffset = everyRank(laid).map((rank) => (rank === AHEAD ? CLOCK_OFFSET : 0))
    check(laid, everyRank(laid), { clockOffset }, audited)
    quiet(audited, 'aligned')
    expect(audited.found.stragglers[0].rank).toBe(STRAGGLER)
    expect(audited.found.clocks.filter(({ aligned }) => aligned)).toMatchObject([
      { rank: AHEAD, correction: -CLOCK_OFFSET },
    ])
    expect(audited.warnings.map((one) => one.class)).toEqual(['aligned'])
  })

  it.each(['2023', '2026', 'rocm'] as const)(
    'without metadata, in the schema %s, has its straggler named and its clock corrected',
    async (schema) => {
      const laid = layOut(demoJob({ unit: 1000 }))
      const audited = await auditOf(tracesOf(laid, { schema, metadata: false }))
      quiet(audited, 'aligned', 'groups', 'shapes', 'device')
      expect(audited.warnings.map((one) => one.class)).toContain('groups')
      expect(audited.found.stragglers[0].rank).toBe(STRAGGLER)
      expect(audited.found.clocks.filter(({ aligned }) => aligned)).toMatchObject([
        { rank: AHEAD, correction: -CLOCK_OFFSET },
      ])
    },
  )

  it('is audited within the drift of a clock that runs fast', async () => {
    const laid = layOut(demoJob({ steps: 16 }))
    const drift = 100e-6
    const audited = await auditOf(tracesOf(laid, { clockDrift: [0, 0, 0, 0, 0, 0, drift, 0] }))
    const truth = truthOf(laid)
    // The total error that the drift of a clock may still cause in the collectives after the alignment, in nanoseconds.
    const left = 500 * truth.collectives.length
    truth.ranks.forEach(({ wall, parts }, rank) => {
      const { ledger } = audited.found.ranks[rank]
      for (const [part, time] of Object.entries(parts)) {
        const error = Math.abs(ledger.parts[part as keyof typeof parts] - time)
        expect(error, `${part} of rank ${rank}`).toBeLessThanOrEqual(drift * wall + left)
      }
    })
    expect(audited.found.clocks[6].drift).toBeCloseTo(-drift, 5)
  })
})
