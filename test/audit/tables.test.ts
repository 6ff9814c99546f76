/** Tests the tables of kernels, operators and collectives, and their CSV files, against jobs with known times. */
import { describe, expect, it } from 'vitest'
import { layOut } from '../../src/audit/demo/layout.ts'
import { collective, dispatch, type Job, kernel } from '../../src/audit/demo/workload.ts'
import { kinetoTextOf } from '../../src/audit/demo/write.ts'
import { readKineto } from '../../src/audit/kineto.ts'
import { compare, verdict } from '../../src/report/compare.ts'
import { csvNames, csvTables } from '../../src/report/csv.ts'
import type { AuditDocument } from '../../src/report/document.ts'
import { toDocument } from '../../src/report/toDocument.ts'
import { audit, type AuditOptions } from '../../src/taxes/audit.ts'
import { busFactor } from '../../src/taxes/bandwidth.ts'
import { linkBandwidth } from '../../src/taxes/devices.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { Kind } from '../../src/timeline/timeline.ts'
import { type Warning, Warnings } from '../../src/timeline/warnings.ts'
import { makeTrace } from './trace.ts'

async function documentOf(job: Job): Promise<AuditDocument> {
  const laid = layOut(job)
  const builder = new TimelineBuilder()
  for (const { rank } of laid.ranks)
    await readKineto(Buffer.from(kinetoTextOf(laid, rank)), builder, { name: `rank${rank}.json` })
  const timeline = builder.freeze()
  const found = audit(timeline, new Warnings())
  return toDocument({ timeline, audit: found, options: {}, sources: [], warnings: [], version: '0' })
}

const mm = {
  name: 'aten::mm',
  shapes: [
    [4, 8],
    [8, 2],
  ],
}
/** A job of 4 ranks in which rank 3 arrives 1 ms late at the collective. */
const job = (slow = 0): Job => ({
  ranks: 4,
  groups: [{ name: '0', description: 'tp', ranks: [0, 1, 2, 3] }],
  steps: [0, 1, 2].map(() => [
    dispatch(20_000),
    kernel('gemm, "big"', [1e6 + slow, 1e6 + slow, 1e6 + slow, 2e6 + slow], { operator: mm }),
    dispatch(10_000),
    collective('allReduce', 0, 500_000, { elementsIn: 1e6, elementsOut: 1e6 }),
    dispatch(10_000),
    collective('allGather', 0, 250_000, { elementsIn: 1e6, elementsOut: 4e6 }),
  ]),
})

describe('the table of kernels and operators', () => {
  it('has the time, the calls, the share and the launch latency', async () => {
    const { kernels = [], operators = [], ranks } = await documentOf(job())
    const wall = ranks.reduce((sum, { wallUs }) => sum + wallUs, 0)
    const gemm = kernels.find(({ name }) => name === 'gemm, "big"')
    expect(gemm).toMatchObject({ kind: 'kernel', us: 3 * 5000, calls: 12, longestUs: 2000 })
    expect(gemm?.pct).toBeCloseTo((100 * 15_000) / wall, 9)
    // The launch call takes the second half of an operator of 20 us, at whose end the kernel starts.
    expect([gemm?.latencyUs, gemm?.leastLatencyUs]).toEqual([10, 10])
    expect(operators.find(({ name }) => name === 'aten::mm')).toMatchObject({ us: 15_000, calls: 12 })
    const communication = kernels.filter(({ kind }) => kind === 'communication')
    expect(communication.reduce((sum, { calls }) => sum + calls, 0)).toBe(24)
  })
})

describe('the bandwidth of collectives', () => {
  it('is measured from the last arrival, as nccl-tests does', async () => {
    const { bandwidths = [] } = await documentOf(job())
    // 2 MB in 500 us are 4 GB/s. In an all-reduce, each of 4 ranks sends and receives 2 * 3/4 of the data. The time of
    // the all-reduce does not include the wait of 1 ms for the last rank.
    expect(bandwidths.find(({ kind }) => kind === 'allReduce')).toMatchObject({
      group: 'tp',
      ranks: 4,
      count: 3,
      bytes: 2e6,
      medianUs: 500,
      algorithmGBs: 4,
      busGBs: 6,
      linkGBs: 450,
    })
    // 8 MB are gathered in 250 us, and 3/4 of these bytes come from the other ranks.
    expect(bandwidths.find(({ kind }) => kind === 'allGather')).toMatchObject({
      bytes: 8e6,
      medianUs: 250,
      algorithmGBs: 32,
      busGBs: 24,
    })
  })

  it('has the factors of nccl-tests', () => {
    const factors = [
      'allReduce',
      'allGather',
      'reduceScatter',
      'allToAll',
      'broadcast',
      'reduce',
      'sendRecv',
      'x',
    ]
    expect(factors.map((kind) => busFactor(kind, 8))).toEqual([1.75, 0.875, 0.875, 0.875, 1, 1, 1, null])
  })

  it('knows a link only where the name of the device states one', () => {
    const names = [
      'NVIDIA H100 80GB HBM3',
      'NVIDIA H100 PCIe',
      'NVIDIA A100-SXM4-80GB',
      'NVIDIA A100 80GB PCIe',
      'AMD Instinct MI300X',
      'Tesla T4',
    ]
    expect(names.map(linkBandwidth)).toEqual([450e9, null, 300e9, null, 448e9, null])
  })
})

it('CSV files have a heading, one line per row, and quotes where needed', async () => {
  const document = await documentOf(job())
  const files = new Map([...csvTables(document)].map(([name, lines]) => [name, [...lines].join('')]))
  expect([...files.keys()]).toEqual(csvNames)
  const lines = (name: string): string[] => (files.get(name) ?? '').trimEnd().split('\r\n')
  expect(lines('ranks.csv')).toHaveLength(1 + 4)
  expect(lines('steps.csv')).toHaveLength(1 + 12)
  expect(lines('kernels.csv')[0]).toMatch(/^name,kind,time_us,share_pct,calls,/)
  expect(lines('kernels.csv')).toContainEqual(expect.stringMatching(/^"gemm, ""big""",kernel,15000,/))
  expect(lines('collectives.csv')[1]).toBe('allReduce,tp,BFloat16,4,3,2000000,500,4,6,450')
  for (const [name, text] of files) {
    const rows = text.trimEnd().split('\r\n')
    const width = rows[0].split(',').length
    for (const row of rows)
      expect(row.replace(/"(?:[^"]|"")*"/g, '').split(','), `${name}: ${row}`).toHaveLength(width)
  }
  const [name] = [
    ...csvTables({ ...document, kernels: document.kernels?.map((one) => ({ ...one, name: '=1+1' })) }),
  ]
    .filter(([one]) => one === 'kernels.csv')
    .map(([, rows]) => [...rows][1])
  expect(name).toMatch(/^'=1\+1,/)
})

describe('a comparison', () => {
  it('calls a loss a loss, and names what grew', async () => {
    const [fast, slow] = [await documentOf(job()), await documentOf(job(400_000))]
    expect(verdict(compare(fast, slow))).toMatch(
      /^A loss: a step takes 1\.\d+ times as long .* compute \(\+\d+ µs\)\.$/,
    )
    expect(verdict(compare(slow, fast))).toMatch(
      /^A gain: a step is 1\.\d+ times as fast .* compute \(−\d+ µs\)\.$/,
    )
    expect(verdict(compare(fast, fast))).toMatch(/^No difference: /)
  })
})

describe('the window', () => {
  it('keeps device work without a recorded launch if the user asks for it', () => {
    const builder = new TimelineBuilder()
    const rank = builder.rank(0)
    const stream = rank.track('stream', 0, 7)
    rank.add(Kind.kernel, stream, builder.intern('before'), 0, 1000)
    const launch = rank.add(Kind.launch, rank.track('thread', 1, 1), builder.intern('launch'), 500, 100)
    rank.linkLaunch(rank.add(Kind.kernel, stream, builder.intern('after'), 2000, 9000), launch)
    const timeline = builder.freeze()
    const audited = (options: AuditOptions): readonly [number, string[]] => {
      const warnings = new Warnings()
      const [{ ledger }] = audit(timeline, warnings, options).ranks
      return [ledger.wall, warnings.list().map((one) => one.class)]
    }
    expect(audited({})).toEqual([9000, ['before-recording', 'shapes']])
    expect(audited({ window: 'all' })).toEqual([11_000, ['shapes']])
  })
})

it('a trace with stacks is warned of, and only its long frames are kept', async () => {
  const read = async (python: number): Promise<Warning[]> => {
    const builder = new TimelineBuilder()
    const { warnings } = await readKineto(Buffer.from(makeTrace({ kernels: 50, python }).text), builder)
    return warnings.filter((one) => one.class === 'stacks')
  }
  expect(await read(0)).toEqual([])
  expect(await read(2)).toHaveLength(1)
  const frame = (name: string, micros: string, first: string): string =>
    `{"ph": "X", "cat": "python_function", ${first}"name": ${JSON.stringify(name)}, "pid": 1, "tid": 1, "ts": 5, "dur": ${micros}, "args": {}}`
  const events = [
    frame('short', '499.999', ''),
    frame('short, with a key "dur": 900 in its name', '3', ''),
    frame('long', '500', ''),
    frame('long {with a bracket}', '512.5', ''),
    frame('long, after its duration', '900', '"dur": 900, '),
  ]
  const builder = new TimelineBuilder()
  await readKineto(Buffer.from(`{"traceEvents": [${events.join(', ')}]}`), builder)
  const { ranks, names } = builder.freeze()
  expect([...ranks[0].events.name].map((name) => names[name]).sort()).toEqual([
    'long',
    'long {with a bracket}',
    'long, after its duration',
  ])
})
