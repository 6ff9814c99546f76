/** Prints the ledger of a recorded run in a terminal: one row per rank, and their mean. */
import { ledgerOf } from '../../runs/ledger.ts'
import { runPartNames, runParts, type Picture, type RunLedger } from '../../runs/results.ts'
import { bytes, columns, percent, wrap } from '../format.ts'
import { headed, plain, type Style } from '../style.ts'
import { time } from '../units.ts'
import type { Headline } from '../headline.ts'
import { partLabels } from './parts.ts'

const taxes = ['launch', 'wait', 'transfer'] as const

/** The headline states the share of the ranks' time that the taxes cost, in total and for each tax. */
export function recordedHeadline(picture: Picture): Headline {
  if (picture.ranks.length === 0 || !(picture.wall > 0)) return { figure: '', text: 'Nothing was launched.' }
  const { parts, wall } = ledgerOf(picture)
  const lost = taxes.reduce((sum, part) => sum + parts[part], 0)
  const each = taxes.map((part) => `${partLabels[part].toLowerCase()} ${percent(parts[part], wall)}`)
  return {
    figure: percent(lost, wall),
    text: `of the ranks' time of ${time(wall)} is lost to taxes (${each.join(', ')}).`,
  }
}

const row = (name: string, { wall, parts, locality }: RunLedger): string[] => [
  name,
  time(wall),
  ...runPartNames.map((part) => percent(parts[part], wall)),
  locality.bytes === 0 ? '–' : `${bytes(locality.bytes)}, up to ${time(locality.time[1])}`,
]

/** The ledger of each rank as a table with percentages of the wall time. */
export function ledgerTable(picture: Picture, style: Style = plain): string {
  const rows = picture.ranks.map(({ rank, ledger }) => row(String(rank), ledger))
  const mean = rows.length > 1 ? [row('mean', ledgerOf(picture))] : []
  return tableOf('rank', [...rows, ...mean], style)
}

/** A table with one row per recorded execution: the mean ledger over its ranks. */
export const ledgersTable = (
  of: string,
  pictures: readonly (readonly [name: string, picture: Picture])[],
  style: Style = plain,
): string =>
  tableOf(
    of,
    pictures.map(([name, picture]) => row(name, ledgerOf(picture))),
    style,
  )

const tableOf = (of: string, rows: string[][], style: Style): string =>
  headed(columns([[of, 'wall', ...runPartNames, 'locality'], ...rows]), style).join('\n')

/** Explains the columns of the ledger tables. */
export const ledgerLegend: readonly string[] = [
  ...runPartNames.map((part) => `${part}: ${runParts[part]}`),
  'locality: bytes that one kernel writes and a later kernel reads back, and the useful time that they cost at most',
].flatMap((line) => wrap(line))
