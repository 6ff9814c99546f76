/**
 * Tests the headline and the three sentences: the biggest tax, the culprit and the first thing to fix, each by its real
 * cost.
 */
import { describe, expect, it } from 'vitest'
import type {
  AuditDocument,
  CandidateDocument,
  RankDocument,
  StepDocument,
  StragglerDocument,
} from '../../src/report/document.ts'
import { sentenceOf } from '../../src/report/headline.ts'
import { describe as describeCandidate, headlineOf, summarise } from '../../src/report/summary.ts'

interface Costs {
  readonly dispatch?: number
  readonly gap?: number
  readonly wait?: number
  readonly transfer?: number
  readonly locality?: number
  readonly absent?: number
  readonly launches?: number
}

/** A rank with a wall time of 10 ms. */
function rank(number: number, costs: Costs): RankDocument {
  const { dispatch = 0, gap = 0, wait = 0, transfer = 0, locality = 0, absent = 0, launches = 100 } = costs
  const idleUs = dispatch + gap + absent
  const computeUs = 10_000 - idleUs - wait - transfer
  return {
    rank: number,
    startUs: 0,
    wallUs: 10_000,
    busyUs: 10_000 - idleUs,
    idleUs,
    computeUs,
    commUs: wait + transfer,
    copyUs: 0,
    overlapPct: 0,
    idle: {
      dispatchUs: dispatch,
      hostBlockedUs: 0,
      hostAbsentUs: absent,
      dependencyUs: 0,
      gapUs: gap,
      unattributedUs: 0,
    },
    taxes: {
      launchUs: dispatch + gap,
      waitUs: wait,
      exposedTransferUs: transfer,
      hiddenWaitUs: 0,
      localityBytes: 1000 * locality,
      localityUs: [0, locality],
      otherUs: absent,
    },
    other: {
      exposedCopyUs: 0,
      hostBlockedUs: 0,
      hostAbsentUs: absent,
      dependencyUs: 0,
      unattributedUs: 0,
      unsplitCommUs: 0,
    },
    exposedCommUs: wait + transfer,
    launches,
  }
}

const straggler = (number: number, keptWaitingUs: number, exposedWaitUs: number): StragglerDocument => ({
  rank: number,
  keptWaitingUs,
  exposedWaitUs,
  lateUs: keptWaitingUs,
  collectives: 1,
  waiters: [{ rank: 0, waitUs: keptWaitingUs, exposedWaitUs }],
  worst: [],
  meanwhile: [{ what: 'compute', name: 'gemm_kernel<int>(int)', operator: 'aten::mm', us: 40 }],
})

function candidate(
  saves: Partial<Record<'launch' | 'wait' | 'transfer' | 'locality', number>>,
  rest: Partial<CandidateDocument> = {},
): CandidateDocument {
  const { launch = 0, wait = 0, transfer = 0, locality = 0 } = saves
  return {
    kind: 'compute-collective-compute',
    chain: ['aten::mm', 'allReduce', 'aten::add'],
    count: 3,
    ranks: [0, 1],
    savesUs: launch + wait + transfer + locality,
    saves: {
      launchUs: launch,
      waitUs: wait,
      exposedTransferUs: transfer,
      unsplitCommUs: 0,
      localityUs: locality,
    },
    localityBytes: null,
    operation: null,
    example: { rank: 0, startUs: 0, durUs: 1 },
    ...rest,
  }
}

const sentences = (
  ranks: readonly RankDocument[],
  rest: Partial<Pick<AuditDocument, 'stragglers' | 'candidates' | 'steps'>> = {},
): string[] =>
  summarise({
    arke: '0',
    sources: [],
    chosenSteps: null,
    ranks,
    steps: [],
    groups: [],
    collectives: [],
    clocks: [],
    stragglers: [],
    candidates: [],
    warnings: [],
    ...rest,
  })

describe('the headline', () => {
  const said = (ranks: readonly RankDocument[], rest: Partial<AuditDocument> = {}): string =>
    sentenceOf(headlineOf({ ranks, stragglers: [], collectives: [], ...rest }))
  const collectives = { length: 3, [Symbol.iterator]: () => [][Symbol.iterator]() }

  it('is the share of the wall time of all ranks that taxes take, and who causes how much of the waiting', () => {
    // Of 20 ms: 400 us launch, 500 us wait, 300 us transfer. Other idle time is not a tax.
    const ranks = [rank(0, { dispatch: 400, wait: 500, absent: 900 }), rank(1, { transfer: 300 })]
    expect(said(ranks, { stragglers: [straggler(1, 900, 475), straggler(0, 30, 25)] })).toBe(
      '6.0 % of GPU time lost; rank 1 causes 95.0 % of the waiting.',
    )
  })

  it('gives the locality tax, which is an estimate, as a bound', () => {
    expect(said([rank(0, { gap: 1000, locality: 500 })])).toBe(
      '10.0 % of GPU time lost (at most 15.0 % with data locality); there are no collectives to wait in.',
    )
  })

  it('blames nobody where nobody is to blame, or where that is unknown', () => {
    const alone = [rank(0, { transfer: 100 })]
    const two = [rank(0, { transfer: 100 }), rank(1, {})]
    const doubtful = { collectives: 2, commUs: 5 }
    expect(said(two, { collectives })).toMatch(/no rank waits for another\.$/)
    expect(said(two, { stragglers: [straggler(1, 50, 0)] })).toMatch(
      /all waiting for other ranks is hidden\.$/,
    )
    expect(said(two, { doubtful })).toMatch(/which rank causes the waiting is unknown\.$/)
    expect(said(two, { doubtful, stragglers: [straggler(1, 50, 40)] })).toMatch(
      /rank 1 causes 100\.0 % of the waiting whose cause is known\.$/,
    )
    expect(said(alone, { collectives })).toMatch(
      /the trace of one rank does not show which rank causes the waiting\.$/,
    )
    expect(said([])).toBe('No rank has device work in the window.')
  })
})

describe('the culprit', () => {
  const ranks = [rank(0, { wait: 300 }), rank(1, {}), rank(2, { wait: 100 })]

  it('is who kept others waiting where that costs time, by its share of the exposed waiting', () => {
    const [, culprit] = sentences(ranks, { stragglers: [straggler(1, 900, 300), straggler(2, 5000, 100)] })
    expect(culprit).toBe(
      'Rank 1 arrived last at 1 collective; the other ranks together waited 300 us for it (75.0 % of all exposed ' +
        'waiting). While they waited, it was mostly running aten::mm (gemm_kernel) (40.0 us).',
    )
  })

  it('is nobody where all waiting is hidden, but what keeps devices idle', () => {
    const hidden = [rank(0, { gap: 30, absent: 70 }), rank(1, { gap: 50, absent: 90 })]
    const [, culprit, fix] = sentences(hidden, { stragglers: [straggler(1, 7000, 0)] })
    expect(culprit).toBe(
      'All waiting for other ranks is hidden; devices are idle for 120 us, most of it (80.0 us) because of ' +
        'the host doing something else (Python, data loading).',
    )
    expect(fix).not.toContain('late')
  })
})

describe('the first fix', () => {
  const ranks = [rank(0, { wait: 500, transfer: 500 }), rank(1, { transfer: 500 })]

  it('is the straggler where its waiting is more than fusing saves without the waiting', () => {
    const fused = candidate({ wait: 500, transfer: 400 })
    const [, , fix] = sentences(ranks, { stragglers: [straggler(1, 500, 500)], candidates: [fused] })
    expect(fix).toBe(
      'Fix first: find out why rank 1 is late. This saves at most 250 us of waiting per rank, ' +
        'including 33.3 % of the bulk synchronous tax. Then fuse aten::mm → allReduce → aten::add (3 times).',
    )
  })

  it('is to fuse where that saves more by itself, with the share of the biggest tax', () => {
    const candidates = [
      candidate({ wait: 500, transfer: 200 }, { chain: ['waits'] }),
      candidate({ transfer: 600, launch: 60 }, { count: 1 }),
    ]
    const [, , fix] = sentences(ranks, { stragglers: [straggler(1, 9000, 500)], candidates })
    expect(fix).toBe(
      'Fix first: fuse aten::mm → allReduce → aten::add. This saves at most 330 us per rank, ' +
        'including 40.0 % of the bulk synchronous tax.',
    )
  })

  it('says so where it is not about the biggest tax', () => {
    const local = [rank(0, { wait: 500, locality: 4000 }), rank(1, { locality: 4000 })]
    const [tax, , fix] = sentences(local, { stragglers: [straggler(1, 500, 500)] })
    expect(tax).toContain('data locality')
    expect(fix).toBe(
      'Fix first: find out why rank 1 is late. This saves at most 250 us of waiting per rank, but none of the data locality tax.',
    )
  })

  const step = (number: number, launches: number): StepDocument => ({
    name: `ProfilerStep#${number}`,
    number,
    ranks: [rank(0, { launches })],
  })

  it('is the host where dispatch is the biggest tax and nothing to fuse covers a fifth of it', () => {
    const slow = [rank(0, { dispatch: 4000, gap: 1000, transfer: 2000, launches: 1000 })]
    const candidates = [candidate({ launch: 999, transfer: 1900 })]
    const steps = [step(0, 400), step(1, 600)]
    expect(sentences(slow, { candidates, steps })[2]).toBe(
      'Fix first: the host (CUDA graphs, torch.compile, fewer and larger kernels): 500 launches per rank and step, ' +
        '4.00 us of dispatch each, 80.0 % of the kernel launch tax. Then fuse aten::mm → allReduce → aten::add (3 times).',
    )
    expect(sentences(slow, { candidates: [candidate({ launch: 1000 })], steps })[2]).toBe(
      'Fix first: fuse aten::mm → allReduce → aten::add (3 times). This saves at most 1.00 ms per rank, ' +
        'including 20.0 % of the kernel launch tax.',
    )
  })

  it('is the gaps where those are most of it', () => {
    expect(sentences([rank(0, { dispatch: 100, gap: 900, launches: 450 })])[2]).toBe(
      'Fix first: the gaps between kernels (CUDA graphs, fewer and larger kernels): 450 launches per rank, ' +
        '2.00 us of gap each, 90.0 % of the kernel launch tax.',
    )
  })

  it('stays on a line whatever operators are called', () => {
    const chain = Array.from({ length: 9 }, (_, i) => `${i}::${'very_long_operator_name'.repeat(9)}`)
    const fused = candidate({ launch: 10, transfer: 300 }, { chain })
    for (const costs of [{ dispatch: 4000 }, { gap: 4000 }, { wait: 900 }, { transfer: 900 }])
      for (const one of sentences([rank(0, costs), rank(1, costs)], {
        stragglers: [straggler(1, 900, 800)],
        candidates: [fused],
      }))
        expect(one.length, one).toBeLessThanOrEqual(220)
  })
})

it('a candidate is not said to be there "1 times"', () => {
  expect(describeCandidate(candidate({}, { count: 1 }))).toBe('aten::mm → allReduce → aten::add')
  expect(describeCandidate(candidate({}, { count: 96 }))).toBe('aten::mm → allReduce → aten::add (96 times)')
})
