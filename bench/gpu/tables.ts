/** Results as tables: the best of each role at every cell, their ratio, and what is left to the limit. */
import { columns, digits } from '../../src/report/format.ts'
import { quantityOf } from '../../src/runs/quantity.ts'
import type { Quantity } from '../../src/runs/results.ts'
import {
  device,
  measured,
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
  /** Lines below it. */
  readonly notes: readonly string[]
}

function ranksOf({ ranks, multiprocessors = 0 }: CellResult): string {
  const isShared = ranks * multiprocessors <= device.multiprocessors
  return isShared ? `${ranks} virtual ranks on one H200: no link between them` : `${ranks} ranks, a GPU each`
}

/** The fastest of a role. */
export function bestOf({ timings }: Pick<CellResult, 'timings'>, role: Role): Timing | undefined {
  const own = timings.filter((timing) => timing.role === role)
  return own.length === 0 ? undefined : own.reduce((a, b) => (b.median < a.median ? b : a))
}

/**
 * How many times as fast the fastest fused one is as the fastest baseline: the ratio in each round, in which both had their turns. What
 * makes a round slow, makes both. `rounds` are those of each timing.
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
 * The fastest baseline and the fastest fused one, by number: by the faster quarter of their rounds, where what differs by less than a
 * round's spread, such as a graph's start, still shows.
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
  /** GEMM alone, or the bytes over the bandwidth: microseconds that no variant undercuts. */
  readonly floor: number
  /** How many times as fast as the baseline: round by round, where that is known. */
  readonly ratio: number
  /** Of what the baseline takes more than the floor; all of it where that is nothing. */
  readonly recovered: number
}

/** The best fused variant against the best baseline. */
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

/** All times of the cells of a section: one column a contestant. */
export function timesTable(title: string, cells: readonly CellResult[]): Table {
  const names = [...new Set(cells.flatMap(({ timings }) => timings.map(named)))]
  const isTold = cells.some(({ telling }) => telling !== undefined)
  return {
    title: `${title}, microseconds, medians`,
    head: ['', ...names, 'limit', ...(isTold ? ['taken off'] : [])],
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

/** The best fused variant against the faster bulk-synchronous one, cell by cell. */
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
      ...['', 'bsp', 'us', '95 %', 'best fused', 'us', '95 %', 'bsp / fused'],
      ...(isInRounds ? ['95 %'] : []),
      ...[floor, 'recovered'],
    ],
    rows,
    notes: [],
  }
}

/** The same in loops, of those that were measured so. */
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
    timesTable(`${title} in loops, one execution`, looped),
  ]
}

/** Ours against the best peer. */
export function peerTable(title: string, cells: readonly CellResult[]): Table {
  return {
    title,
    head: ['', 'ours', 'us', '95 %', 'best peer', 'us', '95 %', 'peer / ours', 'limit'],
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

/** Times of the same work on more ranks, over the time on one. */
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
    title: `${title} (16 multiprocessors a rank; virtual ranks on one H200: no link between them)`,
    head: ['', 'bsp us', 'over 1 rank', 'best fused us', 'over 1 rank', 'limit'],
    rows: cells.map((cell) => [
      cell.key,
      ...scaled(cell, 'baseline'),
      ...scaled(cell, 'fused'),
      digits(cell.limit ?? NaN),
    ]),
    notes: [],
  }
}

export function tablesOf(section: SectionName, cells: readonly CellResult[]): Table[] {
  if (cells.length === 0) return []
  const own = measured.find(({ gpu }) => gpu.section === section)
  if (own) return operationTables(own, cells)
  switch (section) {
    case 'gemm':
      return [peerTable('GEMM, bf16, one rank, the whole GPU', cells), timesTable('GEMM', cells)]
    case 'attend':
      return [
        peerTable('Flash decode, one rank, the whole GPU, 32 query and 8 kv heads of 128', cells),
        timesTable('Flash decode, one rank', cells),
      ]
    case 'launch':
      return cells.map(({ timings, notes = [] }) => ({
        title: 'What a launch costs',
        head: ['', 'us', '95 %'],
        rows: timings.map((timing) => [named(timing), us(timing), spread(timing)]),
        notes,
      }))
    case 'scaling':
      return [scalingTable('Strong scaling', cells), timesTable('Strong scaling', cells)]
    default:
      throw new Error(`there is no section ${section}`)
  }
}

function operationTables(
  { definition: { title }, gpu }: (typeof measured)[number],
  cells: readonly CellResult[],
): Table[] {
  const floor = gpu.floor === 'alone' ? `${gpu.alone} alone` : 'bytes / bandwidth'
  return [
    fusedTable(gpu.heading, floor, cells),
    timesTable(title, cells),
    ...loopTables(title, floor, cells),
    ...(gpu.floor === 'alone' ? [linkTable(cells)] : []),
  ]
}

/** Where the step alone is the floor, what crosses links is a whole input. */
const linkTable = (cells: readonly CellResult[]): Table => ({
  title: 'Bytes that would cross links',
  head: ['', 'to each rank', `at ${device.link / 1e9} GB/s, us`],
  rows: cells.map(({ key, remoteBytes = 0 }) => [
    key,
    `${digits(remoteBytes / 1e6)} MB`,
    digits((1e6 * remoteBytes) / device.link),
  ]),
  notes: [],
})

/** For a terminal. */
export const asText = ({ title, head, rows, notes }: Table): string =>
  [`\n${title}`, ...columns([head, ...rows], [0]), ...notes.map((note) => `  ${note}`)].join('\n')

/** One line for a cell that was just measured. */
export function summaryOf(cell: CellResult): string {
  const found = compare(cell)
  const failures = Object.keys(cell.failed)
  const wrong = failures.length > 0 ? `; FAILED ${failures.join(', ')}` : ''
  if (found) {
    const { baseline, fused, floor, ratio, recovered } = found
    const looped = cell.inLoop && compare({ ...cell, timings: cell.inLoop })
    const inLoop = looped
      ? `; in a loop ${us(looped.baseline)}, ${us(looped.fused)}, ${looped.ratio.toFixed(3)}x, ${percent(looped.recovered)} down to ${digits(looped.floor)}`
      : ''
    return `bsp ${us(baseline)} us (${named(baseline)}), fused ${us(fused)} (${named(fused)}), ${ratio.toFixed(3)}x, recovered ${percent(recovered)} down to ${digits(floor)}${inLoop}${wrong}`
  }
  const [ours, peer] = [bestOf(cell, 'ours'), bestOf(cell, 'peer')]
  if (ours && peer)
    return `ours ${us(ours)} us (${named(ours)}), peer ${us(peer)} (${named(peer)}), ${(peer.median / ours.median).toFixed(3)}x${wrong}`
  return `${cell.timings.map((timing) => `${named(timing)} ${us(timing)} us`).join(', ')}${wrong}`
}
