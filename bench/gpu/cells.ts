/**
 * Defines the measurement cells (rows of the results) of the GPU benchmark. The definitions include the cells of every
 * section, the lower bound on the time of each cell, and the type of a result. All definitions are plain data, and the
 * result file contains them unchanged.
 */
import { layoutOf } from '../../src/operation/choice.ts'
import { operations } from '../../src/ops/operations.ts'
import type { Layout } from '../../src/ops/points.ts'
import { mostBehindGateOnGpu } from '../../src/runs/gate.ts'
import type { Quantity } from '../../src/runs/results.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'

/** The operations that define measurement points for a GPU. */
export const measured = operations.flatMap((definition) => {
  const { gpu } = definition.points
  return gpu ? [{ definition, gpu }] : []
})
type Measured = (typeof measured)[number]

/** The operations that are also compared with libraries on one rank. */
export const withLibraries = measured.flatMap(({ definition, gpu }) =>
  gpu.libraries ? [{ definition, libraries: gpu.libraries }] : [],
)

/** The sections of the benchmark: first those of the operations, then all others. */
export const sectionNames: readonly string[] = [
  ...measured.map(({ gpu }) => gpu.section),
  'gemm',
  ...withLibraries.map(({ libraries }) => libraries.section),
  ...['launch', 'scaling'],
]
export type SectionName = string

/**
 * The operation that a cell of the benchmark measures. Cells of old result files do not name the operation; the section
 * then identifies it.
 */
export const operationOf = ({
  operation,
  section,
}: Pick<Cell, 'operation' | 'section'>): Measured | undefined =>
  measured.find(({ definition, gpu }) =>
    operation === undefined
      ? [gpu.section, gpu.libraries?.section].includes(section)
      : definition.name === operation,
  )

/** One point of measurement. All contestants (measured implementations) of a cell run interleaved. */
export interface Cell {
  readonly section: SectionName
  /** The name of the operation that the cell measures; absent if the cell measures no operation. */
  readonly operation?: string
  /** The name of the cell, which is unique among all cells. */
  readonly key: string
  readonly ranks: number
  /** The number of multiprocessors per rank, or undefined if each rank has an equal share of the device. */
  readonly multiprocessors?: number
  readonly dtype: 'bf16' | 'f16'
  readonly layout?: Layout
  readonly shape: Readonly<Record<string, number>>
}

/**
 * The role of a contestant (a measured implementation) in a cell of the results. The role `baseline` is a bulk
 * synchronous variant. The role `fused` is a variant that communicates inside its kernel. The role `between` is a
 * variant that fuses more than `baseline` and less than `fused`. A contestant with the role `alone` only computes, on
 * data that is already in place. The roles `ours` and `peer` occur in cells without communication.
 */
export type Role = 'baseline' | 'fused' | 'between' | 'alone' | 'ours' | 'peer'

/** The median of a measured time in microseconds. */
export interface Timing extends Quantity {
  readonly name: string
  readonly role: Role
  /**
   * States whether the contestant was launched kernel by kernel or as one CUDA graph; '' if the contestant's name says
   * so.
   */
  readonly form: 'launches' | 'graph' | ''
}

export interface CellResult extends Cell {
  /** The number of multiprocessors that each rank had. */
  readonly multiprocessors?: number
  /**
   * In cells with communication, the time is that of one execution, from the opening of a start gate on, minus the time
   * of an empty execution. In cells without communication, the time is that per execution in a loop.
   */
  readonly timings: readonly Timing[]
  /**
   * The time per execution in a loop of several executions, which one start gate holds until all are enqueued. Ranks
   * are not synchronised between the executions of a loop. The time per execution in a loop is undefined if a loop
   * would have only one execution.
   */
  readonly inLoop?: readonly Timing[]
  /**
   * The time of the fastest baseline divided by the time of the fastest fused contestant, computed per round of
   * `timings`.
   */
  readonly speedup?: Quantity
  /**
   * If the first rounds showed no significant difference, the two fastest contestants ran in additional rounds. The
   * field `duel` holds the times of the two fastest contestants in these rounds, and `speedup` is then their ratio.
   */
  readonly duel?: readonly [baseline: Timing, fused: Timing]
  /** The reasons why implementations (contestants) were not timed, keyed by name. */
  readonly failed: Readonly<Record<string, string>>
  /** The number of executions per loop. */
  readonly turn?: number
  /** The time of an empty execution in microseconds, which was subtracted from the measured times. */
  readonly telling?: number
  /** The lower bound on the time in microseconds, or undefined if there is none. */
  readonly limit?: number
  /** The least number of bytes that each rank must receive from other ranks. */
  readonly remoteBytes?: number
  /** True if the cell was measured in an earlier run than the other cells on the page. */
  readonly earlier?: boolean
  /** Further remarks about the cell as text. */
  readonly notes?: readonly string[]
}

/** The device whose measured bandwidths and speeds give the lower bounds. */
export const device = h200

/**
 * The larger of the time for memory accesses and the time for computation, in microseconds. A rank that has only a
 * share of the device still has the memory bandwidth of the whole device.
 */
export function limitOf(work: { bytes: number; flops: number; multiprocessors: number }): number {
  const devices = work.multiprocessors / device.processors
  return (
    1e6 *
    Math.max(work.bytes / (device.bandwidth * Math.max(1, devices)), work.flops / (device.flops * devices))
  )
}

/**
 * The lower bound on the time of an operation in microseconds, if each rank has the given number of multiprocessors.
 */
export function leastTime(cell: Cell, multiprocessors: number): number {
  const { bytes, flops } = operationOf(cell)!.gpu.work(cell)
  return limitOf({ bytes, flops, multiprocessors: cell.ranks * multiprocessors })
}

/**
 * The number of input sets of a cell. Successive executions use the input sets in rotation, and together they exceed
 * the L2 cache. If one input set has more than 200 MB, a single set is enough.
 */
export const setsFor = (bytes: number): number => Math.min(8, Math.max(1, Math.ceil(200e6 / bytes)))

/**
 * The number of executions per loop. A loop of executions takes some milliseconds, so that the cost of the start gate
 * is small, and that all launches of the loop can be enqueued while one start gate holds them. The argument `limit` is
 * in microseconds, and `launches` is the number of launches per execution.
 */
export const repeatsFor = (limit: number, launches: number): number =>
  Math.max(1, Math.min(12, Math.floor(3000 / limit), Math.floor(mostBehindGateOnGpu / launches)))

/** The layout options of the operations, each with its values. */
const layoutValues = new Map(measured.flatMap(({ definition }) => Object.entries(definition.layouts ?? {})))
export const layoutOptions = [...layoutValues]
  .map(([name, values]) => `${name}=${values.join('|')}`)
  .join(', ')

/** Every combination of values of the layout options, in which operations are measured. */
export function allLayouts(): Layout[] {
  let all: Layout[] = [{}]
  for (const [name, values] of layoutValues)
    all = values.flatMap((value) => all.map((layout) => ({ ...layout, [name]: value })))
  return all
}

/** Parses layout options, each as NAME=VALUE. */
export function layoutFrom(texts: readonly string[]): Layout {
  const pairs = texts.map((text) => {
    const [name, value] = text.split('=')
    if (!layoutValues.get(name)?.includes(value))
      throw new RangeError(`there is no layout ${text}; the layout options are ${layoutOptions}`)
    return [name, value] as const
  })
  return Object.fromEntries(pairs)
}

export interface PlanOptions {
  readonly quick: boolean
  /** The layout options that differ from the defaults of the operation. */
  readonly layout?: Layout
}

export function planCells({ quick, layout = {} }: PlanOptions): Cell[] {
  return [
    ...measured.flatMap(({ definition, gpu }) =>
      gpu.cells(quick, layoutOf(definition, { ...definition.defaults, ...layout })).map((cell): Cell => ({
        ...cell,
        section: gpu.section,
        operation: definition.name,
        key: `${gpu.section} ${cell.key}`,
      })),
    ),
    ...gemmCells(quick),
    ...withLibraries.flatMap(({ definition, libraries }) =>
      libraries.cells(quick).map((cell): Cell => ({
        ...cell,
        section: libraries.section,
        operation: definition.name,
        key: `${libraries.section} ${cell.key}`,
      })),
    ),
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

/**
 * Cells for strong scaling, in which the same work is done by more ranks. In strong scaling, the ranks divide the
 * columns of B among themselves, or the tokens of the cache.
 */
function scalingCells(quick: boolean): Cell[] {
  const cells = [1, 2, 4, 8].flatMap((ranks) =>
    measured.flatMap(({ definition, gpu }) =>
      gpu.scaling(ranks).map((cell): Cell => ({
        ...cell,
        section: 'scaling',
        operation: definition.name,
        key: `scaling ${cell.key}`,
        multiprocessors: 16,
      })),
    ),
  )
  return quick ? cells.filter(({ shape, ranks }) => shape.M === 8 && (ranks === 1 || ranks === 8)) : cells
}
