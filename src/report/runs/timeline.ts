/**
 * Draws the recorded executions of a benchmark point in a terminal: one row of characters per rank, with all variants
 * on one time scale. The ratio above the rows is computed from the executions that are drawn.
 */
import { runPartNames, type Picture, type Point, type RunPart } from '../../runs/results.ts'
import { digits } from '../format.ts'
import { headed, plain, type Style } from '../style.ts'
import { time } from '../units.ts'
import { partLabels } from './parts.ts'
import { bulkOf, drawnRatio, pointName, ratioInterval } from './points.ts'

const WIDTH = 80

const characters: Readonly<Record<RunPart, string>> = {
  useful: '█',
  launch: '·',
  wait: '░',
  transfer: '▒',
  other: '-',
}

export const timelineLegend: string = runPartNames
  .map((part) => `${characters[part]} ${partLabels[part].toLowerCase()}`)
  .join('   ')

/**
 * The lines for one benchmark point: the name of the point, and for each variant a line with its time and one row per
 * rank.
 */
export function timelineRows(point: Point, style: Style = plain): string[] {
  const bulk = bulkOf(point)
  const longest = Math.max(...point.variants.map(({ picture }) => picture.wall))
  const lines = point.variants.flatMap((result) => {
    const { variant, picture } = result
    const ratio = bulk === null || bulk === result ? null : drawnRatio(bulk, result)
    const compared =
      ratio === null
        ? ''
        : `, ${digits(ratio.median)}× as fast as bsp (95 % interval ${ratioInterval(ratio)})`
    return [`${variant}: ${time(picture.wall)}${compared}`, ...rankRows(picture, longest)]
  })
  return headed([`${point.operation} ${pointName(point)}`, ...lines.map((line) => `  ${line}`)], style)
}

function rankRows({ ranks, wall }: Picture, longest: number): string[] {
  const column = longest / WIDTH
  const width = Math.max(1, Math.round(wall / column))
  const label = Math.max(...ranks.map(({ rank }) => String(rank).length))
  return ranks.map(({ rank, tracks }) => {
    const spans = tracks.flatMap((track) => track.spans)
    const row = Array.from({ length: width }, (_, place) =>
      characterOf(spans, place * column, (place + 1) * column),
    )
    return `rank ${String(rank).padStart(label)} ${row.join('')}`
  })
}

type Spans = Picture['ranks'][number]['tracks'][number]['spans']

/** Returns the character for the category of time in which the workers of a rank spend most of the interval. */
function characterOf(spans: Spans, from: number, to: number): string {
  const spent = Object.fromEntries(runPartNames.map((part) => [part, 0])) as Record<RunPart, number>
  for (const span of spans) spent[span.part] += Math.max(0, Math.min(span.to, to) - Math.max(span.from, from))
  const most = runPartNames.reduce((best, part) => (spent[part] > spent[best] ? part : best))
  return spent[most] > 0 ? characters[most] : ' '
}
