/**
 * Charts of the sweeps. One chart shows the speed-up of each variant over `bsp`, and one shows the distance of each
 * variant from the lower bound.
 */
import type { Point, Quantity, VariantResult } from '../../runs/results.ts'
import { html, type Markup } from '../markup.ts'
import { drawChart, type Line } from './chart.ts'
import { findSweeps, type Sweep } from './sweeps.ts'

const axisNames: Readonly<Record<string, string>> = {
  ranks: 'ranks',
  skew: 'delay of the last rank, % of the time of bsp',
}

export function sweepsSection(points: readonly Point[]): Markup {
  const sweeps = findSweeps(points)
  if (sweeps.length === 0) return html``
  return html`<section aria-labelledby="sweeps-title">
    <h2 id="sweeps-title">Over the sweep</h2>
    <p class="hint">Bars through the points are 95 % intervals. Choose a column to see its timelines.</p>
    ${sweeps.map((sweep) => sweepCharts(sweep, points))}
  </section>`
}

function sweepCharts(sweep: Sweep, all: readonly Point[]): Markup {
  const { operation, axis, fixed, points } = sweep
  const chart = {
    axis: axisNames[axis] ?? axis,
    at: points.map(({ at }) => at),
    places: points.map(({ point }) => all.indexOf(point)),
  }
  return html`<h3>${operation} <span class="kind">${fixed}</span></h3>
    <div class="charts">
      ${drawChart({
        ...chart,
        title: 'Speed-up over bsp',
        lines: linesOf(sweep, ({ speedup }) => speedup),
        one: 'as fast as bsp',
        below: 'slower than bsp',
        range: [0.9, 1.1],
      })}
      ${drawChart({
        ...chart,
        title: `Ratio to the limit: ${points[0].point.limit.name}`,
        lines: linesOf(sweep, ({ ofLimit }) => ofLimit),
        one: 'the limit',
        range: [0.5, 1],
      })}
    </div>`
}

/**
 * The lines of a chart. The chart has one line for each variant that was measured. A variant has the same line style in
 * the chart of speed-ups and in the chart of distances.
 */
function linesOf({ points }: Sweep, valueOf: (result: VariantResult) => Quantity | null): Line[] {
  const names = [...new Set(points.flatMap(({ point }) => point.variants.map(({ variant }) => variant)))]
  return names
    .map((name, look) => ({
      name,
      look,
      values: points.map(({ point }) => {
        const result = point.variants.find(({ variant }) => variant === name)
        return result === undefined ? null : valueOf(result)
      }),
    }))
    .filter(({ values }) => values.some((value) => value !== null))
}
