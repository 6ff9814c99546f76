/**
 * Tests the headline and the three sentences (the biggest cost, the culprit and the first thing to fix), and the text
 * of a fix.
 */
import { describe, expect, it } from 'vitest'
import type {
  AuditDocument,
  CandidateDocument,
  FixDocument,
  RankDocument,
  StragglerDocument,
} from '../../src/report/document.ts'
import { costOf, describeFix, type FixContext, type FixFigures } from '../../src/report/fixes.ts'
import { sentenceOf } from '../../src/report/headline.ts'
import { describe as describeCandidate, headlineOf, savingsOf, summarise } from '../../src/report/summary.ts'
import { causes } from '../../src/taxes/fix.ts'

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

const fix = (more: Partial<FixDocument>): FixDocument => ({
  cause: 'dispatch',
  once: false,
  what: 'the devices wait',
  advice: 'use CUDA graphs',
  evidence: '',
  us: 100,
  savesUs: 100,
  count: 1,
  ranks: [0],
  seen: [],
  example: null,
  command: null,
  ...more,
})

const sentences = (
  ranks: readonly RankDocument[],
  rest: Partial<Pick<AuditDocument, 'stragglers' | 'candidates' | 'steps' | 'fixes' | 'untraced'>> = {},
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
    // In 20 ms of rank time, launches take 400 us, waits 500 us and transfers 300 us. Other idle time is not a tax.
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
    expect(said(two, { doubtful })).toMatch(/the rank that causes the waiting is unknown\.$/)
    expect(said(two, { doubtful, stragglers: [straggler(1, 50, 40)] })).toMatch(
      /rank 1 causes 100\.0 % of the waiting whose cause is known\.$/,
    )
    expect(said(alone, { collectives })).toMatch(
      /the trace of one rank does not show which rank causes the waiting\.$/,
    )
    expect(said([])).toBe('No rank has device work in the window.')
  })
})

describe('collectives with ranks without recorded work', () => {
  const ranks = [rank(0, { wait: 300, transfer: 700 }), rank(1, { transfer: 900 })]
  const stragglers = [straggler(1, 300, 300)]
  const untraced = { ranks: [5, 6, 7], unlisted: 0, collectives: 4, complete: 0 }
  const headline = (more: Partial<AuditDocument>): string =>
    sentenceOf(headlineOf({ ranks, stragglers, collectives: [], ...more }))

  it('have bounds instead of a verdict, with the missing ranks first', () => {
    expect(headline({ untraced })).toMatch(
      /; ranks 5-7 have no recorded work, so waiting and transfer cannot be told apart\.$/,
    )
    expect(headline({ untraced: { ...untraced, ranks: [], unlisted: 1, complete: 2 } })).toMatch(
      /; 1 other rank has no recorded work; of the waiting between the others, rank 1 causes 100\.0 %\.$/,
    )
    const [cost, culprit] = sentences(ranks, { stragglers, untraced })
    expect(cost).toMatch(
      /at least 150 µs of it waiting and at most 800 µs exposed transfer, since ranks 5-7 have no recorded work\.$/,
    )
    expect(culprit).toMatch(
      /^Ranks 5-7 have no recorded work, so the last rank is unknown at 4 of 4 collectives, .*Among the recorded ranks, rank 1 /,
    )
  })
})

describe('the culprit', () => {
  const ranks = [rank(0, { wait: 300 }), rank(1, {}), rank(2, { wait: 100 })]

  it('is who kept others waiting where that costs time, by its share of the exposed waiting', () => {
    const [, culprit] = sentences(ranks, { stragglers: [straggler(1, 900, 300), straggler(2, 5000, 100)] })
    expect(culprit).toBe(
      'Rank 1 arrived last at 1 collective; the other ranks together waited 300 µs for it (75.0 % of all exposed ' +
        'waiting). While the others waited, rank 1 was mostly running aten::mm (gemm_kernel) (40.0 µs).',
    )
  })

  it('is nobody where all waiting is hidden, but what keeps devices idle', () => {
    const hidden = [rank(0, { gap: 30, absent: 70 }), rank(1, { gap: 50, absent: 90 })]
    const [, culprit, fix] = sentences(hidden, { stragglers: [straggler(1, 7000, 0)] })
    expect(culprit).toBe(
      'All waiting for other ranks is hidden; devices are idle for 120 µs, most of it (80.0 µs) because of ' +
        'the host doing something else (Python, data loading).',
    )
    expect(fix).not.toContain('late')
  })
})

describe('the first sentence', () => {
  it('names the biggest cost, also if it is none of the three taxes', () => {
    const [tax] = sentences([rank(0, { dispatch: 900, absent: 100 })])
    expect(tax).toBe(
      'The biggest tax is kernel launch: rank 0 loses 900 µs (9.0 % of 10.0 ms), 900 µs of it while the host was still ' +
        'in operators and launches, 0 µs in gaps between work already enqueued.',
    )
    const [other] = sentences([rank(0, { dispatch: 900, absent: 1000 })])
    expect(other).toMatch(
      /^The biggest cost is none of the three taxes but host absent: rank 0 loses 1\.00 ms \(10\.0 % of 10\.0 ms\)/,
    )
  })

  it('leaves out one-off idle intervals and says so', () => {
    const once = {
      dispatchUs: 0,
      gapUs: 0,
      hostBlockedUs: 0,
      hostAbsentUs: 900,
      dependencyUs: 0,
      unattributedUs: 0,
    }
    const [first] = sentences([{ ...rank(0, { dispatch: 300, absent: 1000 }), once }], {
      fixes: [fix({ cause: 'hole', once: true, us: 900, savesUs: 900 })],
    })
    expect(first).toContain('The biggest tax is kernel launch: rank 0 loses 300 µs')
    expect(first).toMatch(/One-off idle intervals, which are left out here, take 900 µs more\.$/)
  })
})

describe('the first fix', () => {
  const ranks = [rank(0, { wait: 500 }), rank(1, {})]

  it('is the most important one, with the most that it saves per rank', () => {
    const fixes = [
      fix({ what: 'the devices wait for input data', advice: 'load batches ahead of time', savesUs: 500 }),
      fix({ savesUs: 400 }),
    ]
    expect(sentences(ranks, { fixes })[2]).toBe(
      'Fix first: the devices wait for input data; load batches ahead of time. The fix saves at most 250 µs per rank ' +
        '(2.5 % of wall).',
    )
  })

  it('tells the most that its cause costs from the most that a fusion saves of it', () => {
    const candidates = [candidate({ transfer: 400, locality: 90 }, { ranks: [0, 1] })]
    const cause: FixFigures = {
      cause: 'transfer',
      once: false,
      us: 1000,
      leastUs: 1000,
      savesUs: 1000,
      count: 1,
      ranks: [0, 1],
      seen: [],
      example: null,
    }
    const context = { stragglers: [], candidates, ranks, steps: [], isDoubtful: false }
    expect(sentences(ranks, { fixes: [describeFix(cause, context)] })[2]).toBe(
      'Fix first: collectives move data while nothing is computed; fuse aten::mm → allReduce → aten::add (3 times). ' +
        'The cause costs at most 500 µs per rank (5.0 % of wall), of which the fusion saves at most 200 µs.',
    )
  })

  it('is sorted by a cost that is printed, which is an interval if it is an estimate', () => {
    expect(costOf(fix({ savesUs: 500 }), 10_000)).toBe('5.0 %')
    expect(costOf(fix({ savesUs: 500, leastUs: 360 }), 10_000)).toBe('3.6 to 5.0 %')
  })

  it('is nothing if no cause takes 1 % of the time, and where there is no fix', () => {
    for (const fixes of [[], [fix({ savesUs: 199 })]])
      expect(sentences(ranks, { fixes })[2]).toBe(
        'Nothing here is worth fixing: no single cause takes 1.0 % of the time.',
      )
  })

  it('stays on a line whatever operators are called, and ends with a clause or a word', () => {
    const advice = `use CUDA graphs; for example, fuse ${'very::long_operator_name '.repeat(20)}`
    const sentence = sentences(ranks, { fixes: [fix({ advice, savesUs: 900 })] })[2]
    expect(sentence.length).toBeLessThanOrEqual(220)
    expect(sentence).toContain('; use CUDA graphs. The fix saves')
    const words = sentences(ranks, { fixes: [fix({ advice: 'word '.repeat(90), savesUs: 900 })] })[2]
    expect(words).toMatch(/word …\. The fix saves/)
  })
})

describe('what a fix says', () => {
  const figures = (more: Partial<FixFigures>): FixFigures => ({
    cause: 'dispatch',
    once: false,
    us: 1000,
    leastUs: 1000,
    savesUs: 1000,
    count: 10,
    ranks: [0],
    seen: [],
    example: null,
    ...more,
  })
  const context: FixContext = {
    stragglers: [],
    candidates: [],
    ranks: [rank(0, { launches: 250 })],
    steps: [],
    isDoubtful: false,
  }

  it('has a remedy, and a cause in words, for every cause', () => {
    for (const cause of causes) {
      const { what, advice } = describeFix(figures({ cause }), context)
      for (const text of [what, advice]) expect(text, cause).toMatch(/^[a-zA-Z].*[^.]$/)
    }
  })

  it('names the launches per step, and what the host did, by share', () => {
    const seen = [
      {
        activity: 'operator',
        name: 'aten::mm',
        inside: 'forward',
        us: 700,
        count: 7,
        longestUs: 300,
        bytes: null,
      },
      {
        activity: 'launching',
        name: 'cudaLaunchKernel',
        inside: null,
        us: 30,
        count: 3,
        longestUs: 10,
        bytes: null,
      },
    ]
    const example = { rank: 0, startUs: 5000, durUs: 300 }
    expect(describeFix(figures({ seen, example }), context).evidence).toBe(
      '250 launches per rank, 4.00 µs of dispatch each; 70.0 % aten::mm in forward (7 times); ' +
        'the longest one 300 µs on rank 0 at 5.00 ms',
    )
    const steps = [{ name: 'ProfilerStep#1', number: 1, ranks: [rank(0, { launches: 125 })] }]
    expect(describeFix(figures({ seen }), { ...context, steps }).evidence).toMatch(
      /^125 launches per rank and step/,
    )
  })

  it('names a chain to fuse if it covers a fifth of the time, and the command of an operation from a twentieth on', () => {
    const operation = { name: 'gemmReduceScatter', shapes: 'M=1', otherShapes: 0, command: 'arke bench x' }
    const described = (launch: number) =>
      describeFix(figures({}), { ...context, candidates: [candidate({ launch }, { operation })] })
    expect(described(200).advice).toBe(
      'use CUDA graphs or torch.compile, or fewer and larger kernels; for example, fuse aten::mm → allReduce → ' +
        'aten::add (3 times), as gemmReduceScatter does, which saves at most 200 µs of the cost per rank',
    )
    expect([described(200).fusionSavesUs, described(199).fusionSavesUs]).toEqual([200, undefined])
    expect(described(199).advice).not.toContain('fuse')
    expect([described(50).command, described(49).command]).toEqual(['arke bench x', null])
  })

  it('tells the directions of copies, and pageable memory, apart', () => {
    const copied = (name: string) =>
      describeFix(
        figures({
          cause: 'copy',
          seen: [{ activity: 'copy', name, inside: null, us: 1000, count: 1, longestUs: 1, bytes: 5 }],
        }),
        context,
      )
    expect(copied('Memcpy HtoD (Pageable -> Device)').advice).toContain('pinned memory')
    expect(copied('Memcpy HtoD (Pinned -> Device)').advice).toContain('on a stream of its own')
    expect(copied('MEMORY_COPY_DEVICE_TO_HOST').what).toContain('from the device to the host')
    expect(copied('Memcpy DtoD').what).toContain('within the device')
  })

  it('says that gaps of milliseconds point at the recording', () => {
    expect(describeFix(figures({ cause: 'gap', us: 20_000, count: 10 }), context).advice).toMatch(
      /^first check the recording/,
    )
    expect(describeFix(figures({ cause: 'gap', us: 20, count: 10 }), context).advice).toMatch(
      /^use CUDA graphs/,
    )
  })
})

it('the saving of a candidate is the sum of what it saves in each tax, per rank', () => {
  expect(savingsOf(candidate({ launch: 10, transfer: 400, locality: 90 }), 2)).toBe(
    '200 µs transfer + 45.0 µs data locality + 5.00 µs launches',
  )
})

it('a candidate is not said to be there "1 times"', () => {
  expect(describeCandidate(candidate({}, { count: 1 }))).toBe('aten::mm → allReduce → aten::add')
  expect(describeCandidate(candidate({}, { count: 96 }))).toBe('aten::mm → allReduce → aten::add (96 times)')
})
