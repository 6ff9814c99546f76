/**
 * Formats the results of the GPU benchmark as tables. A row shows the best contestant of each role at a cell, their
 * ratio, and the distance to the lower bound.
 */
import { columns, digits } from '../../src/report/format.ts'
import { quantityOf } from '../../src/runs/quantity.ts'
import type { Quantity } from '../../src/runs/results.ts'
import {
  device,
  measured,
  withLibraries,
  operationOf,
  type CellResult,
  type Role,
  type SectionName,
  type Timing,
} from './cells.ts'

export interface Table {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
  /** The lines of text that are printed below the table. */
  readonly notes: readonly string[]
}

function ranksOf({ ranks, multiprocessors = 0 }: CellResult): string {
  const isShared = ranks * multiprocessors <= device.processors
  return isShared
    ? `${ranks} virtual ranks on one H200, without links between them`
    : `${ranks} ranks, one GPU each`
}

/** The measured implementation (contestant) with the lowest median time in a role, or undefined if there is none. */
export function bestOf({ timings }: Pick<CellResult, 'timings'>, role: Role): Timing | undefined {
  const own = timings.filter((timing) => timing.role === role)
  return own.length === 0 ? undefined : own.reduce((a, b) => (b.median < a.median ? b : a))
}

/**
 * The speed-up of the fastest fused contestant over the fastest baseline, computed per round. The two compared
 * implementations ran in each round, so a disturbance that slows a round slows both. The argument `rounds` contains the
 * times of each contestant per round.
 */
export function speedupOf(
  timings: readonly Timing[],
  rounds: readonly (readonly number[])[],
): Quantity | undefined {
  const [baseline, fused] = (['baseline', 'fused'] as const).map((role) => bestOf({ timings }, role))
  if (!baseline || !fused) return undefined
  const [slower, faster] = [baseline, fused].map((one) => rounds[timings.indexOf(one)])
  return quantityOf(slower.map((time, round) => time / faster[round]))
}

/**
 * The indices of the fastest baseline and of the fastest fused contestant, judged by the 25th percentile of their
 * rounds. Small differences, such as the time to start a CUDA graph, are visible in the 25th percentile even if they
 * are smaller than the spread of the rounds.
 */
export function fastestTwo(
  all: readonly Pick<Timing, 'role'>[],
  rounds: readonly (readonly number[])[],
): readonly [baseline: number, fused: number] {
  const quarter = (n: number): number =>
    [...rounds[n]].sort((a, b) => a - b)[Math.floor(rounds[n].length / 4)]
  const fastest = (role: Role): number =>
    all
      .flatMap((one, n) => (one.role === role ? [n] : []))
      .reduce((best, n) => (quarter(n) < quarter(best) ? n : best))
  return [fastest('baseline'), fastest('fused')]
}

export interface Comparison {
  readonly baseline: Timing
  readonly fused: Timing
  /** The lower bound on the time in microseconds, which is the GEMM alone, or bytes divided by bandwidth. */
  readonly floor: number
  /**
   * The speed-up of the fused variant over the baseline: the median over rounds if this was measured, and otherwise the
   * ratio of the two median times.
   */
  readonly ratio: number
  /**
   * The share of the baseline's time beyond the lower bound that the fused variant saves, or 1 if the baseline is at
   * the bound.
   */
  readonly recovered: number
}

/** Compares the best fused variant with the best baseline at a cell. */
export function compare(cell: CellResult): Comparison | undefined {
  const [baseline, fused] = cell.duel ?? [bestOf(cell, 'baseline'), bestOf(cell, 'fused')]
  const alone = bestOf(cell, 'alone')
  const floor = operationOf(cell)?.gpu.floor === 'least work' ? cell.limit : alone?.median
  if (!baseline || !fused || floor === undefined) return undefined
  return {
    baseline,
    fused,
    floor,
    ratio: cell.speedup?.median ?? baseline.median / fused.median,
    recovered: baseline.median > floor ? (baseline.median - fused.median) / (baseline.median - floor) : 1,
  }
}

const percent = (share: number): string => `${Math.round(100 * share)} %`
const named = ({ name, form }: Timing): string => (form === 'graph' ? `${name} (graph)` : name)
const spread = ({ interval: [low, high] }: Quantity, text: (value: number) => string = digits): string =>
  `${text(low)}…${text(high)}`
const ratioText = (ratio: number): string => ratio.toFixed(3)
const us = (timing: Timing | undefined): string => (timing ? digits(timing.median) : '–')

/** All times of the cells in a section, with one column per contestant. */
export function timesTable(title: string, cells: readonly CellResult[]): Table {
  const names = [...new Set(cells.flatMap(({ timings }) => timings.map(named)))]
  const isTold = cells.some(({ telling }) => telling !== undefined)
  return {
    title: `${title}: median times in microseconds`,
    head: ['', ...names, 'limit', ...(isTold ? ['gate cost, subtracted'] : [])],
    rows: cells.map((cell) => [
      cell.key,
      ...names.map((name) => us(cell.timings.find((timing) => named(timing) === name))),
      cell.limit === undefined ? '–' : digits(cell.limit),
      ...(isTold ? [digits(cell.telling ?? 0)] : []),
    ]),
    notes: cells.flatMap(({ key, failed }) =>
      Object.entries(failed).map(([name, why]) => `${key}: ${name} was not timed: ${why.split('\n')[0]}`),
    ),
  }
}

/** Compares the best fused variant with the faster bulk-synchronous variant, with one row per cell. */
export function fusedTable(title: string, floor: string, cells: readonly CellResult[]): Table {
  const isInRounds = cells.some(({ speedup }) => speedup !== undefined)
  const rows = cells.map((cell) => {
    const found = compare(cell)
    if (!found) return [cell.key, ...Array<string>(isInRounds ? 10 : 9).fill('–')]
    const { baseline, fused, ratio, recovered } = found
    return [
      cell.key,
      named(baseline),
      us(baseline),
      spread(baseline),
      named(fused),
      us(fused),
      spread(fused),
      ratioText(ratio),
      ...(isInRounds ? [cell.speedup ? spread(cell.speedup, ratioText) : '–'] : []),
      digits(found.floor),
      percent(recovered),
    ]
  })
  return {
    title: `${title} (${ranksOf(cells[0])})`,
    head: [
      ...['', 'bsp', 'us', '95 % interval', 'best fused', 'us', '95 % interval', 'bsp / fused'],
      ...(isInRounds ? ['95 % interval'] : []),
      ...[floor, 'recovered'],
    ],
    rows,
    notes: [
      `The column _recovered_ is the time that the best fused variant saves compared with bsp, as a fraction of the difference between bsp and ${floor.replace(/, us$/, '')}. The column shows 100 % if bsp is not slower than ${floor.replace(/, us$/, '')}.`,
    ],
  }
}

/**
 * Tables of the times in loops, with the same columns as the tables of single executions. The tables for loops contain
 * the cells that were measured in loops.
 */
function loopTables(title: string, floor: string, cells: readonly CellResult[]): Table[] {
  const looped = cells.flatMap((cell): CellResult[] => {
    const { inLoop, turn, key } = cell
    return inLoop
      ? [
          {
            ...cell,
            timings: inLoop,
            speedup: undefined,
            duel: undefined,
            key: `${key}, ${turn} in a loop`,
            failed: {},
          },
        ]
      : []
  })
  if (looped.length === 0) return []
  return [
    fusedTable(`${title} in loops`, floor, looped),
    timesTable(`${title} in loops, per execution`, looped),
  ]
}

/** Compares Arke with the best of its peers. */
export function peerTable(title: string, cells: readonly CellResult[]): Table {
  return {
    title,
    head: ['', 'Arke', 'us', '95 % interval', 'best peer', 'us', '95 % interval', 'peer / Arke', 'limit, us'],
    rows: cells.map((cell) => {
      const [ours, peer] = [bestOf(cell, 'ours'), bestOf(cell, 'peer')]
      return [
        cell.key,
        ours ? named(ours) : '–',
        us(ours),
        ours ? spread(ours) : '–',
        peer ? named(peer) : '–',
        us(peer),
        peer ? spread(peer) : '–',
        ours && peer ? (peer.median / ours.median).toFixed(3) : '–',
        cell.limit === undefined ? '–' : digits(cell.limit),
      ]
    }),
    notes: [],
  }
}

/** The times of the same work on more ranks, and the speed-up over one rank. */
export function scalingTable(title: string, cells: readonly CellResult[]): Table {
  const workOf = ({ key }: CellResult): string => key.replace(/ ranks=\d+$/, '')
  const one = (cell: CellResult, role: Role): number | undefined => {
    const first = cells.find((other) => workOf(other) === workOf(cell) && other.ranks === 1)
    return first && bestOf(first, role)?.median
  }
  const scaled = (cell: CellResult, role: Role): string[] => {
    const [best, alone] = [bestOf(cell, role), one(cell, role)]
    return [us(best), best && alone ? `${(alone / best.median).toFixed(2)}x` : '–']
  }
  return {
    title: `${title} (16 multiprocessors per rank; virtual ranks on one H200, without links between them)`,
    head: ['', 'bsp, us', 'speed-up over 1 rank', 'best fused, us', 'speed-up over 1 rank', 'limit, us'],
    rows: cells.map((cell) => [
      cell.key,
      ...scaled(cell, 'baseline'),
      ...scaled(cell, 'fused'),
      digits(cell.limit ?? NaN),
    ]),
    notes: [],
  }
}

const launchLegend =
  "The rows _host_ show the host's time per call. The rows _with the device_ include the time of the kernel, in a long sequence of launches. In the rows _a rank_, the time is divided by the number of ranks. The rows _made ready early_ show launches with programmatic dependent launch."

export function tablesOf(section: SectionName, cells: readonly CellResult[]): Table[] {
  if (cells.length === 0) return []
  const own = measured.find(({ gpu }) => gpu.section === section)
  if (own) return operationTables(own, cells)
  const peers = withLibraries.find(({ libraries }) => libraries.section === section)
  if (peers) {
    const { title, extents } = peers.libraries
    return [peerTable(`${title} on the whole GPU, ${extents}`, cells), timesTable(title, cells)]
  }
  switch (section) {
    case 'gemm':
      return [peerTable('GEMM, bf16, one rank on the whole GPU', cells), timesTable('GEMM', cells)]
    case 'launch':
      return cells.map(({ timings, notes = [] }) => ({
        title: 'Cost of a launch',
        head: ['', 'us per launch', '95 % interval'],
        rows: timings.map((timing) => [named(timing), us(timing), spread(timing)]),
        notes: [launchLegend, ...notes],
      }))
    case 'scaling':
      return [scalingTable('Strong scaling', cells), timesTable('Strong scaling', cells)]
    default:
      throw new Error(`unknown section ${section}`)
  }
}

function operationTables(
  { definition: { title }, gpu }: (typeof measured)[number],
  cells: readonly CellResult[],
): Table[] {
  const floor = gpu.floor === 'alone' ? `${gpu.alone} alone, us` : 'bytes / bandwidth, us'
  return [
    fusedTable(gpu.heading, floor, cells),
    timesTable(title, cells),
    ...loopTables(title, floor, cells),
    ...(gpu.floor === 'alone' ? [linkTable(cells)] : []),
  ]
}

/**
 * The bytes that each rank must receive from other ranks, and the time that a link between GPUs would need for them.
 */
const linkTable = (cells: readonly CellResult[]): Table => ({
  title: 'Bytes that each rank would receive over links',
  head: ['', 'received per rank', `time at ${device.link / 1e9} GB/s, us`],
  rows: cells.map(({ key, remoteBytes = 0 }) => [
    key,
    `${digits(remoteBytes / 1e6)} MB`,
    digits((1e6 * remoteBytes) / device.link),
  ]),
  notes: [],
})

/** Formats a table of text for a terminal. */
export const asText = ({ title, head, rows, notes }: Table): string =>
  [`\n${title}`, ...columns([head, ...rows], [0]), ...notes.map((note) => `  ${note}`)].join('\n')

/** Summarises a cell that was just measured in one line. */
export function summaryOf(cell: CellResult): string {
  const found = compare(cell)
  const failures = Object.keys(cell.failed)
  const wrong = failures.length > 0 ? `; FAILED ${failures.join(', ')}` : ''
  if (found) {
    const { baseline, fused, floor, ratio, recovered } = found
    const looped = cell.inLoop && compare({ ...cell, timings: cell.inLoop })
    const inLoop = looped
      ? `; in a loop bsp ${us(looped.baseline)} us, fused ${us(looped.fused)} us, ${looped.ratio.toFixed(3)}x, recovered ${percent(looped.recovered)}, lower bound ${digits(looped.floor)} us`
      : ''
    return `bsp ${us(baseline)} us (${named(baseline)}), fused ${us(fused)} us (${named(fused)}), ${ratio.toFixed(3)}x, recovered ${percent(recovered)}, lower bound ${digits(floor)} us${inLoop}${wrong}`
  }
  const [ours, peer] = [bestOf(cell, 'ours'), bestOf(cell, 'peer')]
  if (ours && peer)
    return `Arke ${us(ours)} us (${named(ours)}), peer ${us(peer)} us (${named(peer)}), ${(peer.median / ours.median).toFixed(3)}x${wrong}`
  return `${cell.timings.map((timing) => `${named(timing)} ${us(timing)} us`).join(', ')}${wrong}`
}
