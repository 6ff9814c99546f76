/**
 * What is measured: the cells of every section, what no machine could undercut at each, and what was found. Plain data, which the
 * result file holds as it is.
 */
import { operations } from '../../src/ops/operations.ts'
import type { Quantity } from '../../src/runs/results.ts'
import { h200, h200Measured } from '../../src/world/machines.ts'

/** Operations that say where they are measured on a GPU. */
export const measured = operations.flatMap((definition) => {
  const { gpu } = definition.points
  return gpu ? [{ definition, gpu }] : []
})
type Measured = (typeof measured)[number]

/** Those of operations, then what is not an operation. */
export const sectionNames: readonly string[] = [
  ...measured.map(({ gpu }) => gpu.section),
  ...['gemm', 'attend', 'launch', 'scaling'],
]
export type SectionName = string

/** Whose cell it is: by its section, or where several share one by the extents of its shape. */
export function operationOf({ section, shape }: Pick<Cell, 'section' | 'shape'>): Measured | undefined {
  const names = Object.keys(shape).sort().join()
  return (
    measured.find(({ gpu }) => gpu.section === section) ??
    measured.find(({ definition }) => Object.keys(definition.defaults.shape).sort().join() === names)
  )
}

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

/** Of an operation on ranks that have so many multiprocessors each. */
export function leastTime(cell: Cell, multiprocessors: number): number {
  const { bytes, flops } = operationOf(cell)!.gpu.work(cell)
  return limitOf({ bytes, flops, multiprocessors: cell.ranks * multiprocessors })
}

/** Inputs take turns over more than the caches hold; a set of them that is larger is the only one. */
export const setsFor = (bytes: number): number => Math.min(8, Math.max(1, Math.ceil(200e6 / bytes)))

/**
 * Executions of a turn: so many that the turn takes some milliseconds, of which telling the time is little, and no more than a
 * queue holds where each is three launches (gate.ts). `limit` is in microseconds.
 */
export const repeatsFor = (limit: number): number => Math.max(1, Math.min(12, Math.floor(3000 / limit)))

export interface PlanOptions {
  readonly quick: boolean
  readonly shard: 'K' | 'M'
}

export function planCells({ quick, shard }: PlanOptions): Cell[] {
  return [
    ...measured.flatMap(({ gpu }) =>
      gpu
        .cells(quick, shard)
        .map((cell): Cell => ({ ...cell, section: gpu.section, key: `${gpu.section} ${cell.key}` })),
    ),
    ...gemmCells(quick),
    ...attendCells(quick),
    { section: 'launch', key: 'launch', ranks: 1, dtype: 'bf16', shape: {} },
    ...scalingCells(quick),
  ]
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
  const cells = [1, 2, 4, 8].flatMap((ranks) =>
    measured.flatMap(({ gpu }) =>
      gpu.scaling(ranks).map((cell): Cell => ({
        ...cell,
        section: 'scaling',
        key: `scaling ${cell.key}`,
        multiprocessors: 16,
      })),
    ),
  )
  return quick ? cells.filter(({ shape, ranks }) => shape.M === 8 && (ranks === 1 || ranks === 8)) : cells
}
