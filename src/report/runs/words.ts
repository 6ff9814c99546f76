/** What a measurement says, in sentences that ask for no knowledge of the field. */
import { compareLedgers } from '../../runs/compare.ts'
import { runPartNames, type Point, type RunLedger, type RunPart } from '../../runs/results.ts'
import { bytes, digits, percent, plural } from '../format.ts'
import { time } from '../units.ts'
import { bestOf, bulkOf, extentsOf, groupedBy, ratioInterval, verdict, type Compared } from './points.ts'

interface PartWords {
  /** What a rank does in it. */
  readonly doing: string
  readonly name: string
}

const partWords: Readonly<Record<RunPart, PartWords>> = {
  useful: { doing: 'computing', name: 'useful work' },
  launch: { doing: 'launching kernels', name: 'launch tax' },
  wait: { doing: 'waiting for other ranks', name: 'bulk synchronous tax' },
  transfer: { doing: 'copying with nothing else to do', name: 'exposed transfer' },
  other: { doing: 'having no work', name: 'other' },
}

/** Of the wall time of `bsp`; less is not worth a word. */
const WORTH_A_WORD = 0.01

const listed = (things: readonly string[]): string =>
  things.length < 2 ? things.join('') : `${things.slice(0, -1).join(', ')} and ${things.at(-1)}`

/** `bsp` against the fastest of the others: which is faster, which taxes went, what is left. Two to four sentences. */
export function ledgerInWords(point: Point): string[] {
  const [bulk, best] = [bulkOf(point), bestOf(point)]
  if (bulk === null || best === null)
    return [
      `${listed(point.variants.map(({ variant, time: taken }) => `${variant} takes ${time(taken.median)}`))}.`,
      limitSentence(point, null),
    ]
  return [
    speedSentence(bulk.time.median, best),
    taxSentence(bulk.ledger, best),
    ...localitySentence(bulk.ledger, best),
    limitSentence(point, best),
  ]
}

function speedSentence(bulk: number, { variant, time: { median }, speedup }: Compared): string {
  const fast = `${digits(speedup.median)} times as fast as bsp, which ends each kernel on all ranks before it starts the next`
  const times = `${time(median)} in place of ${time(bulk)} (95 % interval of the ratio ${ratioInterval(speedup)})`
  const how = verdict(speedup)
  switch (how) {
    case 'faster':
      return `${variant} is ${fast}: ${times}.`
    case 'slower':
      return `${variant}, the fastest of the others, is only ${fast}: ${times}.`
    case 'alike':
      return `${variant} is ${fast}: ${times}, which is no difference that this measurement can tell.`
    default:
      return how satisfies never
  }
}

function taxSentence(before: RunLedger, { variant, ledger: after, launches }: Compared): string {
  const { parts } = compareLedgers(before, after)
  const changes = runPartNames
    .map((part) => ({ part, ...parts[part] }))
    .filter(({ difference }) => Math.abs(difference) > WORTH_A_WORD * before.wall)
    .sort((a, b) => Math.abs(b.difference) - Math.abs(a.difference))
  const told = ({ part, difference, before: was, after: is }: (typeof changes)[number]): string =>
    `${time(Math.abs(difference))} of ${partWords[part].doing} (${partWords[part].name}: ${time(was)}, now ${time(is)})`
  const gone = changes.filter(({ difference }) => difference < 0).map(told)
  const come = changes.filter(({ difference }) => difference > 0).map(told)
  const clauses = [
    ...(gone.length > 0 ? [`it saves ${listed(gone)}`] : []),
    ...(come.length > 0 ? [`it adds ${listed(come)}`] : []),
  ]
  if (clauses.length === 0)
    return `Where time goes differs by less than ${percent(WORTH_A_WORD, 1)} between ${variant} and bsp.`
  const recorded = `in executions that were recorded, of ${time(before.wall)} (bsp) and ${time(after.wall)}`
  return `With ${plural(launches, 'kernel')} on each rank, ${clauses.join('; ')}, ${recorded}.`
}

function localitySentence(before: RunLedger, { variant, ledger: after }: Compared): string[] {
  const [old, now] = [before.locality, after.locality]
  if (old.bytes === now.bytes) return []
  const handed = now.bytes === 0 ? 'nothing' : bytes(now.bytes)
  return [
    `Kernels of bsp hand ${bytes(old.bytes)} to each other through memory (the locality tax, up to ${time(old.time[1])} of useful work), those of ${variant} ${handed}.`,
  ]
}

function limitSentence({ limit }: Point, best: Compared | null): string {
  const reached = best === null ? '' : `; ${best.variant} reaches ${digits(best.ofLimit.median)} of it`
  return `The limit is ${limit.name}, ${time(limit.time.median)}${reached}.`
}

export interface Headline {
  readonly operation: string
  readonly text: string
}

/** One for each operation, over all its points. */
export function headlines(points: readonly Point[]): Headline[] {
  return [...groupedBy(points, ({ operation }) => operation)].map(([operation, own]) => ({
    operation,
    text: own.length === 1 ? headlineOfOne(own[0]) : headlineOfMany(own),
  }))
}

function headlineOfOne(point: Point): string {
  const [bulk, best] = [bulkOf(point), bestOf(point)]
  if (bulk === null || best === null) return ledgerInWords(point).join(' ')
  return `${speedSentence(bulk.time.median, best)} ${mostGone([{ bulk: bulk.ledger, best: best.ledger }])}`
}

function headlineOfMany(points: readonly Point[]): string {
  const compared = points.flatMap((point) => {
    const [bulk, best] = [bulkOf(point), bestOf(point)]
    return bulk && best ? [{ point, bulk: bulk.ledger, best: best.ledger, speedup: best.speedup }] : []
  })
  if (compared.length === 0) return `${plural(points.length, 'point')}, of which none was compared with bsp.`
  const sorted = [...compared].sort((a, b) => a.speedup.median - b.speedup.median)
  const [least, most] = [sorted[0], sorted[sorted.length - 1]]
  const mean = Math.exp(
    compared.reduce((sum, { speedup }) => sum + Math.log(speedup.median), 0) / compared.length,
  )
  const counted = (how: ReturnType<typeof verdict>): number =>
    compared.filter(({ speedup }) => verdict(speedup) === how).length
  const place = ({ point, speedup }: (typeof compared)[number]): string =>
    `${digits(speedup.median)} at ${difference(point, points)}`
  return (
    `the best variant is ${digits(mean)} times as fast as bsp over ${plural(compared.length, 'point')} ` +
    `(geometric mean; from ${place(least)} to ${place(most)}): faster at ${counted('faster')}, ` +
    `not to be told apart at ${counted('alike')}, slower at ${counted('slower')}. ${mostGone(compared)}`
  )
}

/** What sets a point apart from the others. */
function difference(point: Point, all: readonly Point[]): string {
  const told = Object.keys(point.shape).filter((name) =>
    all.some(({ shape }) => shape[name] !== point.shape[name]),
  )
  const shape = Object.fromEntries(told.map((name) => [name, point.shape[name]]))
  const more = [
    ...(all.some(({ skew }) => skew !== point.skew) ? [`skew ${point.skew} %`] : []),
    ...(all.some(({ ranks }) => ranks !== point.ranks) ? [plural(point.ranks, 'rank')] : []),
  ]
  return [extentsOf({ shape }), ...more].filter(Boolean).join(', ') || extentsOf(point)
}

/** Shares of the time that go to each tax, before and after, the greatest fall first. */
function mostGone(pairs: readonly { readonly bulk: RunLedger; readonly best: RunLedger }[]): string {
  const share = (of: 'bulk' | 'best', part: RunPart): number =>
    pairs.reduce((sum, pair) => sum + pair[of].parts[part] / pair.bulk.wall, 0) / pairs.length
  const fallen = (['launch', 'wait', 'transfer'] as const)
    .map((part) => ({ part, before: share('bulk', part), after: share('best', part) }))
    .filter(({ before, after }) => before - after > WORTH_A_WORD)
    .sort((a, b) => b.before - b.after - (a.before - a.after))
  if (fallen.length === 0) return 'None of its taxes is smaller by more than 1 % of the time.'
  return `What went, as shares of bsp's time: ${listed(
    fallen.map(
      ({ part, before, after }) =>
        `${partWords[part].doing} (${partWords[part].name}), from ${percent(before, 1)} to ${percent(after, 1)}`,
    ),
  )}.`
}
