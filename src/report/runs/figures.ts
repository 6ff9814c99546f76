/** All measured figures as tables, for the variants of each benchmark point and for the machine. */
import {
  runPartNames,
  type BenchResult,
  type Point,
  type Quantity,
  type VariantResult,
} from '../../runs/results.ts'
import { bytes, digits, percent } from '../format.ts'
import { html, scroll, type Markup } from '../markup.ts'
import { count, time } from '../units.ts'
import { localityText } from './bars.ts'
import { partLabels } from './parts.ts'
import { pointName, ratioInterval, timeInterval } from './points.ts'

type Figure = readonly [label: string, value: (result: VariantResult) => string]

const timed = (quantity: Quantity): string => `${time(quantity.median)} (${timeInterval(quantity)})`
const compared = (quantity: Quantity | null): string =>
  quantity === null ? '–' : `${digits(quantity.median)} (${ratioInterval(quantity)})`

const figures: readonly Figure[] = [
  ['Median, not recorded (95 % interval)', (result) => timed(result.time)],
  ['Over bsp, not recorded', ({ speedup }) => compared(speedup)],
  ['Of the limit', ({ ofLimit }) => compared(ofLimit)],
  ...runPartNames.map((part): Figure => [
    partLabels[part],
    ({ ledger: { parts, wall } }) => `${time(parts[part])} (${percent(parts[part], wall)})`,
  ]),
  ['Of useful: locality', ({ ledger }) => localityText(ledger.locality)],
  ['Deviation / bound', ({ deviation }) => deviationText(deviation)],
  ['Launches', ({ launches }) => count(launches)],
  ['Remote bytes', ({ remoteBytes }) => bytes(remoteBytes)],
  ['Host, to enqueue', ({ host }) => time(host.median)],
  ['Median, recorded', ({ recorded }) => timed(recorded)],
]

/** A row for benchmark points with a delayed rank: the time at which all ranks except the delayed rank had finished. */
const punctualFigure: Figure = ['Ranks not delayed', ({ punctual }) => timed(punctual)]

const deviationText = ({ largest, bound }: VariantResult['deviation']): string =>
  `${largest.toExponential(1)} of ${bound.toExponential(1)}${largest > bound ? ', too much' : ''}`

export function figuresSection(points: readonly Point[]): Markup {
  const shown = points.some(({ skew }) => skew > 0) ? [...figures, punctualFigure] : figures
  return html`<section aria-labelledby="figures-title">
    <h2 id="figures-title">All figures</h2>
    <p class="hint">
      Times are medians of interleaved rounds, with their 95 % confidence intervals. The parts are means over
      all ranks of recorded executions, which take a little longer than the others. The deviation is the
      largest difference from a float64 reference, relative to the deviation that the dtype allows.
    </p>
    ${points.map((point, place) => pointFigures(point, place, shown))}
  </section>`
}

/** The variants are the columns of the table, since a page is wide enough for all variants but not for all figures. */
const pointFigures = (point: Point, place: number, shown: readonly Figure[]): Markup =>
  html`<details ${place === 0 ? OPEN : null}>
    <summary>
      ${point.operation}
      <span class="kind">${pointName(point)}; limit: ${point.limit.name}, ${timed(point.limit.time)}</span>
    </summary>
    <p>
      <button
        type="button"
        class="jump"
        data-point="${place}"
        aria-label="Show the timelines of ${point.operation}, ${pointName(point)}"
      >
        Show the timelines
      </button>
    </p>
    ${scroll(
      `All figures of ${point.operation}, ${pointName(point)}`,
      html`<table class="figures measured">
        <thead>
          <tr>
            <th scope="col">Variant</th>
            ${point.variants.map(({ variant }) => html`<th scope="col" class="number">${variant}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${shown.map(
            ([label, value]) =>
              html`<tr>
                <th scope="row">${label}</th>
                ${point.variants.map((result) => html`<td class="number">${value(result)}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}
  </details>`

const OPEN = html`open`

export function machineSection({ arke, commit, date, target, machine }: BenchResult): Markup {
  const { node, platform, processor, cores, bandwidth, tick } = machine
  const facts: readonly (readonly [string, string])[] = [
    ['Target', target],
    ['Processor', `${processor}, ${count(cores)} ${machine.threads ? 'cores' : 'multiprocessors'}`],
    ['Platform', platform],
    ['Node', node],
    ['Memory', `${digits(bandwidth / 1e9)} GB/s, measured by reading more than the caches hold`],
    ['Clock', `resolution ${time(tick)}`],
    ['Date', date],
    ['Arke', commit === null ? arke : `${arke}, commit ${commit}`],
  ]
  return html`<section aria-labelledby="machine-title">
    <h2 id="machine-title">Measured on</h2>
    <dl>
      ${facts.map(
        ([label, value]) =>
          html`<dt>${label}</dt>
            <dd>${value}</dd>`,
      )}
    </dl>
  </section>`
}
