/**
 * What is measured: the cells of every section, what no machine could undercut at each, and what was found. Plain data, which the
 * result file holds as it is.
 */
import type { Quantity } from '../../src/runs/results.ts'
import { h200, h200Measured } from '../../src/world/machines.ts'

export const sectionNames = ['gather', 'decode', 'gemm', 'attend', 'launch', 'scaling'] as const
export type SectionName = (typeof sectionNames)[number]

/** One point: everything that is compared there is measured in turns. */
export interface Cell {
  readonly section: SectionName
  /** Unique among all cells. */
  readonly key: string
  readonly ranks: number
  /** Multiprocessors of each rank; undefined: an equal share of the device. */
  readonly multiprocessors?: number
  readonly dtype: 'bf16' | 'f16'
  /** All-Gather + GEMM: where A is cut. */
  readonly shard?: 'K' | 'M'
  readonly shape: Readonly<Record<string, number>>
}

/**
 * What a contestant is in its cell. `baseline`: bulk synchronous; `fused`: communicates from inside its kernel; `between`: steps
 * of the ladder; `alone`: computes on data that is there already; `ours` and `peer`: where nothing is communicated.
 */
export type Role = 'baseline' | 'fused' | 'between' | 'alone' | 'ours' | 'peer'

/** Microseconds. */
export interface Timing extends Quantity {
  readonly name: string
  readonly role: Role
  /** Launched one by one, as one graph, or what the name says. */
  readonly form: 'launches' | 'graph' | ''
}

export interface CellResult extends Cell {
  /** Those that each rank had. */
  readonly multiprocessors?: number
  /** Where ranks communicate: of one execution behind a gate, less what a turn of nothing takes. Otherwise in loops. */
  readonly timings: readonly Timing[]
  /** Of one execution in a loop of several behind one gate, after which ranks need not meet; undefined: a turn has only one. */
  readonly inLoop?: readonly Timing[]
  /** The fastest baseline's time over that of the fastest fused one, round by round, of `timings`. */
  readonly speedup?: Quantity
  /** Where that did not tell which is faster: the times of two that took turns alone, and whose `speedup` it is. */
  readonly duel?: readonly [baseline: Timing, fused: Timing]
  /** Why something was not timed: by its name. */
  readonly failed: Readonly<Record<string, string>>
  /** Executions of a loop. */
  readonly turn?: number
  /** Microseconds of a turn of nothing, which were taken off. */
  readonly telling?: number
  /** Microseconds that the device needs at least; undefined: no such figure. */
  readonly limit?: number
  /** Bytes that cross between ranks for each, at least. */
  readonly remoteBytes?: number
  /** Of another run than most of the results that it stands among. */
  readonly earlier?: boolean
  /** What else is to be said, in words. */
  readonly notes?: readonly string[]
}

/** What one H200 was measured to do. */
export const device = { multiprocessors: h200.processors, ...h200Measured } as const

/** The larger of both, in microseconds; a part of a device has the whole one's memory. */
export function limitOf(work: { bytes: number; flops: number; multiprocessors: number }): number {
  const devices = work.multiprocessors / device.multiprocessors
  return (
    1e6 *
    Math.max(work.bytes / (device.bandwidth * Math.max(1, devices)), work.flops / (device.flops * devices))
  )
}

/** Of all ranks, which have so many multiprocessors each: every B and every shard of A read once, every C written once. */
export function gatherLimit({ ranks, shape: { M, N, K } }: Cell, multiprocessors: number): number {
  return limitOf({
    bytes: 2 * (ranks * (K * N + M * N) + M * K),
    flops: ranks * 2 * M * N * K,
    multiprocessors: ranks * multiprocessors,
  })
}

/** Of all ranks: keys and values. */
export const cacheBytes = ({ ranks, shape: { batch, kvHeads, D, tokens } }: Cell): number =>
  ranks * 2 * 2 * batch * kvHeads * D * tokens

/** Inputs take turns over more than the caches hold; a set of them that is larger is the only one. */
export const setsFor = (bytes: number): number => Math.min(8, Math.max(1, Math.ceil(200e6 / bytes)))

/**
 * Executions of a turn: so many that the turn takes some milliseconds, of which telling the time is little, and no more than a
 * queue holds where each is three launches (gate.ts). `limit` is in microseconds.
 */
export const repeatsFor = (limit: number): number => Math.max(1, Math.min(12, Math.floor(3000 / limit)))

export const decodeLimit = (cell: Cell, multiprocessors: number): number =>
  limitOf({ bytes: cacheBytes(cell), flops: 0, multiprocessors: cell.ranks * multiprocessors })

const K = 1024
const powers = (from: number, to: number): number[] =>
  Array.from({ length: Math.log2(to / from) + 1 }, (_, n) => from * 2 ** n)

export interface PlanOptions {
  readonly quick: boolean
  readonly shard: 'K' | 'M'
}

export function planCells({ quick, shard }: PlanOptions): Cell[] {
  return [
    ...gatherCells(quick, shard),
    ...decodeCells(quick),
    ...gemmCells(quick),
    ...attendCells(quick),
    { section: 'launch', key: 'launch', ranks: 1, dtype: 'bf16', shape: {} },
    ...scalingCells(quick),
  ]
}

function gatherCells(quick: boolean, shard: 'K' | 'M'): Cell[] {
  const rows = quick ? [1, 16, 64, 512] : powers(1, 8192)
  const dtypes = quick ? (['bf16'] as const) : (['bf16', 'f16'] as const)
  return dtypes.flatMap((dtype) =>
    rows.map((M): Cell => {
      const key = `gather ${dtype} ${shard} M=${M}`
      return { section: 'gather', key, ranks: 8, dtype, shard, shape: { M, N: 3584, K: 8192 } }
    }),
  )
}

/** Tokens of all batch entries together that a rank has memory for. */
const mostTokens = 2 * K * K

function decodeCells(quick: boolean): Cell[] {
  const all = [1, 4, 8, 16].flatMap((batch) =>
    powers(8 * K, 512 * K)
      .filter((tokens) => batch * tokens <= mostTokens)
      .map((tokens): Cell => {
        const shape = { batch, queryHeads: 96, kvHeads: 12, D: 128, tokens }
        return {
          section: 'decode',
          key: `decode batch=${batch} KV=${tokens / K}K`,
          ranks: 8,
          dtype: 'bf16',
          shape,
        }
      }),
  )
  const few = ['batch=1 KV=8K', 'batch=1 KV=64K', 'batch=16 KV=8K']
  return quick ? all.filter(({ key }) => few.some((end) => key.endsWith(end))) : all
}

function gemmCells(quick: boolean): Cell[] {
  const shapes = [
    ...[8, 64, 512, 4096].map((M) => [M, 8192, 8192]),
    ...[16, 128].map((M) => [M, 28672, 8192]),
    [16, 4096, 4096],
  ]
  return shapes
    .filter(([M, N]) => !quick || (N === 8192 && (M === 8 || M === 512)))
    .map(([M, N, K]) => ({
      section: 'gemm',
      key: `gemm M=${M} N=${N} K=${K}`,
      ranks: 1,
      dtype: 'bf16',
      shape: { M, N, K },
    }))
}

function attendCells(quick: boolean): Cell[] {
  return (quick ? [16384] : [16384, 131072]).map((tokens) => ({
    section: 'attend',
    key: `attend KV=${tokens}`,
    ranks: 1,
    dtype: 'bf16',
    shape: { batch: 1, queryHeads: 32, kvHeads: 8, D: 128, tokens },
  }))
}

/** The same work on more ranks: columns of B, tokens of the cache. */
function scalingCells(quick: boolean): Cell[] {
  const N = 28672
  const tokens = 256 * K
  const cells = [1, 2, 4, 8].flatMap((ranks): Cell[] => [
    ...[8, 1024].map((M): Cell => ({
      section: 'scaling',
      key: `scaling gemm M=${M} ranks=${ranks}`,
      ranks,
      multiprocessors: 16,
      dtype: 'bf16',
      shard: 'K',
      shape: { M, N: N / ranks, K: 8192 },
    })),
    {
      section: 'scaling',
      key: `scaling decode ranks=${ranks}`,
      ranks,
      multiprocessors: 16,
      dtype: 'bf16',
      shape: { batch: 1, queryHeads: 96, kvHeads: 12, D: 128, tokens: tokens / ranks },
    },
  ])
  return quick ? cells.filter(({ shape, ranks }) => shape.M === 8 && (ranks === 1 || ranks === 8)) : cells
}
