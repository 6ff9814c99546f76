/**
 * Generates a plausible benchmark result from a crude model of ranks that gather, wait and multiply. Equal options
 * yield equal results. The ledgers of the result are the sums of its spans, so tests can compare ledgers and spans on a
 * page.
 */
import {
  runPartNames,
  type BenchResult,
  type Picture,
  type Point,
  type Quantity,
  type RunLedger,
  type RunPart,
  type Span,
  type VariantResult,
} from '../../src/runs/results.ts'

export interface BenchSampleOptions {
  readonly target?: string
  readonly workers?: number
  /** The values of M for All-Gather + GEMM, one benchmark point each. */
  readonly M?: readonly number[]
  readonly skew?: readonly number[]
  /** A text that is added to every string from external sources. */
  readonly text?: string
  readonly warnings?: readonly string[]
}

const RANKS = 2

/** Returns a number between 0 and 1. */
type Random = () => number

function randomFrom(seed: number): Random {
  let state = (seed * 2654435761) >>> 0 || 1
  return () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) / 2 ** 32
  }
}

/** One worker of a rank. The spans of a worker follow each other without gaps. */
class Worker {
  readonly spans: Span[] = []
  now = 0

  spend(part: RunPart, duration: number, label: string): void {
    if (duration <= 0) return
    this.spans.push({ from: this.now, to: this.now + duration, part, label })
    this.now += duration
  }

  until(time: number, part: RunPart, label: string): void {
    this.spend(part, time - this.now, label)
  }
}

interface Model {
  /** The time that one program takes. `tiles` is the number of programs per rank. */
  readonly tile: number
  readonly tiles: number
  /** The total transfer time of a rank. */
  readonly transfer: number
  readonly launch: number
  /** The delay with which the last rank starts. */
  readonly late: number
  /** The names of the two kernels of the bulk synchronous variant. */
  readonly kernels: readonly [first: string, second: string]
  readonly file: string
  readonly text: string
  readonly random: Random
  readonly workers: number
}

type Play = (model: Model) => Worker[][]

const crew = ({ workers }: Model): Worker[][] =>
  Array.from({ length: RANKS }, () => Array.from({ length: workers }, () => new Worker()))

const jitter = ({ random }: Model, time: number): number => Math.round(time * (0.94 + 0.12 * random()))

const last = (ranks: readonly (readonly Worker[])[]): number =>
  Math.max(...ranks.flat().map(({ now }) => now))

const each = (
  ranks: readonly Worker[][],
  visit: (worker: Worker, rank: number, index: number) => void,
): void => ranks.forEach((workers, rank) => workers.forEach((worker, index) => visit(worker, rank, index)))

function begin(model: Model, ranks: Worker[][], kernel: string): void {
  each(ranks, (worker, rank) => {
    if (rank === RANKS - 1) worker.spend('launch', model.late, 'the rank starts late')
    worker.spend('launch', jitter(model, model.launch), `launch ${kernel}${model.text}`)
  })
}

function compute(model: Model, worker: Worker, kernel: string, index: number, factor = 1): void {
  const own = Math.ceil((model.tiles - index) / model.workers)
  for (let tile = 0; tile < own; tile++)
    worker.spend(
      'useful',
      jitter(model, model.tile * factor),
      `${kernel} program ${tile * model.workers + index}${model.text}, ${model.file}:${58 + (tile % 3)}`,
    )
}

/** The bulk synchronous variant: a kernel, a barrier, a kernel. */
const bulk: Play = (model) => {
  const ranks = crew(model)
  const [first, second] = model.kernels
  begin(model, ranks, first)
  each(ranks, (worker, rank) =>
    worker.spend('transfer', jitter(model, model.transfer), `copy of 262 kB from rank ${1 - rank}`),
  )
  const met = last(ranks)
  each(ranks, (worker, rank) =>
    worker.until(met, 'wait', `flag left[${1 - rank}] of rank ${rank}, ${model.file}:41`),
  )
  each(ranks, (worker, rank, index) => {
    worker.spend('launch', jitter(model, model.launch), `launch ${second}`)
    compute(model, worker, second, index)
  })
  return ranks
}

/** A fused variant: one kernel whose programs fetch their data, or wait for it, before each of the first few tiles. */
const fused =
  (exposed: number, kernels = 1): Play =>
  (model) => {
    const ranks = crew(model)
    begin(model, ranks, 'fused')
    each(ranks, (worker, rank, index) => {
      for (let kernel = 1; kernel < kernels; kernel++)
        worker.spend('launch', jitter(model, model.launch), 'launch multiply')
      const own = Math.ceil((model.tiles - index) / model.workers)
      const remote = Math.ceil(own / 2)
      for (let tile = 0; tile < own; tile++) {
        const program = `fused program ${tile * model.workers + index}${model.text}`
        worker.spend('useful', jitter(model, model.tile), `${program}, ${model.file}:73`)
        if (tile < own - remote) continue
        worker.spend(
          'transfer',
          jitter(model, (exposed * model.transfer) / remote),
          `copy of 8192 B from rank ${1 - rank}`,
        )
        if (model.random() < 0.5)
          worker.spend(
            'wait',
            jitter(model, 0.04 * model.tile),
            `flag arrived[${tile}] of rank ${rank}, ${model.file}:69`,
          )
      }
    })
    return ranks
  }

const operations = {
  allGatherGemm: {
    file: 'src/ops/gathered/gather.ts',
    kernels: ['gather', 'multiply'],
    limit: 'GEMM on data already gathered',
    plays: { bsp: bulk, pull: fused(0.8), push: fused(0.25, 2), fused: fused(0.15) },
  },
  flashDecode: {
    file: 'src/ops/flashDecode/ladder.ts',
    kernels: ['attend', 'combine'],
    limit: 'attention to its own part of the cache alone',
    plays: {
      bsp: bulk,
      'gather-kernel': bulk,
      'fine-grained': fused(0.7, 3),
      'fused-coarse': fused(0.5),
      fused: fused(0.2),
    },
  },
} as const satisfies Record<
  string,
  { file: string; kernels: readonly [string, string]; limit: string; plays: Record<string, Play> }
>

const quantity = (median: number, spread = 0.02): Quantity => ({
  median,
  interval: [median * (1 - spread), median * (1 + 1.4 * spread)],
  samples: 41,
})

const emptyParts = (): Record<RunPart, number> => ({ useful: 0, launch: 0, wait: 0, transfer: 0, other: 0 })

function ledgerOf(
  tracks: readonly { readonly spans: readonly Span[] }[],
  wall: number,
  bytes: number,
): RunLedger {
  const parts = emptyParts()
  for (const { spans } of tracks)
    for (const { part, from, to } of spans) parts[part] += (to - from) / tracks.length
  return { wall, parts, locality: { bytes, time: [0, bytes / 12] } }
}

function pictureOf(ranks: readonly (readonly Worker[])[], bytes: number): Picture {
  const wall = last(ranks)
  each(ranks as Worker[][], (worker) => worker.until(wall, 'wait', 'finished, waiting for the last rank'))
  return {
    wall,
    ranks: ranks.map((workers, rank) => {
      const tracks = workers.map(({ spans }, index) => ({ name: `worker ${index}`, spans }))
      return { rank, ledger: ledgerOf(tracks, wall, bytes), tracks }
    }),
  }
}

function meanLedger({ wall, ranks }: Picture): RunLedger {
  const parts = emptyParts()
  for (const name of runPartNames)
    for (const { ledger } of ranks) parts[name] += ledger.parts[name] / ranks.length
  return { wall, parts, locality: ranks[0].ledger.locality }
}

interface Place {
  readonly operation: keyof typeof operations
  readonly shape: Readonly<Record<string, number>>
  readonly choices: Point['choices']
  readonly dtype: string
  readonly skew: number
  readonly tile: number
  readonly tiles: number
  readonly transfer: number
  readonly handedOn: number
}

function pointOf(place: Place, options: BenchSampleOptions, seed: number): Point {
  const { operation, shape, choices, dtype, skew, tile, tiles, transfer, handedOn } = place
  const { file, kernels, plays, limit: limitName } = operations[operation]
  const { text = '', workers = 1 } = options
  const limit = (tile * tiles) / workers
  const model: Model = {
    ...{ tile, tiles, transfer, kernels, file, text, workers },
    launch: 9000,
    late: Math.round((skew / 100) * (limit + transfer + 18000)),
    random: randomFrom(seed),
  }
  const variants = Object.entries<Play>(plays).map(([variant, play]): VariantResult => {
    const handed = variant.startsWith('fused') || variant === 'pull' ? 0 : handedOn
    const picture = pictureOf(play(model), handed)
    const time = picture.wall * 0.97
    return {
      variant: variant === 'fused' ? variant : `${variant}${text}`,
      time: quantity(time),
      punctual: quantity(time - 0.5 * model.late),
      speedup: null,
      ofLimit: quantity(limit / time),
      host: quantity(7400),
      deviation: { largest: 0.0021 + 0.001 * model.random(), bound: 0.0156 },
      launches: variant === 'bsp' ? 2 : variant === 'push' ? 2 : 1,
      remoteBytes: 262144,
      ledger: meanLedger(picture),
      recorded: quantity(picture.wall),
      picture,
    }
  })
  const [{ time: bulkTime }] = variants
  const measured = variants.map((one, i) =>
    i === 0
      ? { ...one, variant: 'bsp' }
      : { ...one, speedup: quantity(bulkTime.median / one.time.median, 0.025) },
  )
  return {
    ...{ operation, shape, choices, dtype, skew },
    ranks: RANKS,
    contention: { interval: 512e6, cores: 2, steal: 0.012, runnable: 1.5 },
    limit: { name: `${limitName}${text}`, time: quantity(limit, 0.01) },
    variants: measured,
    recordedUnlike: [],
    auto: { variant: 'fused', reason: `the fastest of those measured at the nearest shape${text}` },
  }
}

export function makeBench(options: BenchSampleOptions = {}): BenchResult {
  const { target = 'wasm', M = [64], skew = [0], text = '', warnings = [] } = options
  const products = skew.flatMap((late) =>
    M.map((extent): Place => ({
      operation: 'allGatherGemm',
      shape: { M: extent, N: 1024, K: 2048 },
      choices: { shard: 'K' },
      dtype: 'bf16',
      skew: late,
      tile: 1500 + 260 * extent,
      tiles: 16,
      // The constant is the cost of synchronisation, which dominates for small shapes; the other term is the cost of
      // pulling data.
      transfer: 22000 + 300 * extent,
      handedOn: 4096 * extent,
    })),
  )
  const decode: Place = {
    operation: 'flashDecode',
    shape: { batch: 4, queryHeads: 32, kvHeads: 8, D: 128, tokens: 4096 },
    choices: {},
    dtype: 'bf16',
    skew: 0,
    tile: 11000,
    tiles: 24,
    transfer: 31000,
    handedOn: 67584,
  }
  return {
    arke: '0.1.0',
    commit: 'abc1234',
    date: '2026-11-18',
    target,
    machine: {
      node: 'v20.19.4',
      platform: 'linux x64',
      processor: `AMD EPYC 9B14${text}`,
      cores: 2,
      bandwidth: 11.8e9,
      tick: 41,
      threads: target !== 'cuda',
      memories: 1,
    },
    points: [...products, decode].map((place, i) => pointOf(place, options, 7 + i)),
    warnings: [...warnings, ...(text === '' ? [] : [text])],
  }
}
