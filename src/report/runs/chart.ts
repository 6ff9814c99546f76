/**
 * Draws a chart with lines over a sweep as inline SVG. Each measured value is drawn with its 95 % confidence interval.
 * Each line has its own colour, dashes and marks, and its name at its end. The values of a column are shown when the
 * pointer is over the column or when the column has the focus.
 */
import type { Quantity } from '../../runs/results.ts'
import type { Description } from '../description.ts'
import { digits } from '../format.ts'
import { html, type Markup } from '../markup.ts'
import { ratioInterval } from './points.ts'

export interface Line {
  readonly name: string
  /** The index of the line's style. Style 0 is for the variant with which the other variants are compared. */
  readonly look: number
  /** The values of the line, one per benchmark point; null for each value that was not measured. */
  readonly values: readonly (Quantity | null)[]
}

export interface Chart {
  readonly title: string
  /** The label of the horizontal axis. */
  readonly axis: string
  readonly at: readonly number[]
  /** For each benchmark point: its index on the page, which is used to show the point. */
  readonly places: readonly number[]
  readonly lines: readonly Line[]
  /** The labels of the horizontal line at the value 1 and of the area below that line. */
  readonly one: string
  readonly below?: string
  /** The range of values that the chart always shows. */
  readonly range: readonly [number, number]
}

const [WIDTH, HEIGHT] = [580, 320]
const [LEFT, RIGHT, TOP, BOTTOM] = [46, 108, 14, 44]
const LABEL = 15
const LOOKS = 6

export function drawChart(chart: Chart): Markup {
  const { title, axis, at, lines, one, below, range } = chart
  const x = scaleOf(at)
  const values = lines.flatMap(({ values }) => values.flatMap((value) => value?.interval ?? []))
  const [low, high] = [Math.min(range[0], ...values), Math.max(range[1], ...values)]
  const room = 0.04 * (high - low)
  const [bottom, top] = [Math.max(0, low - room), high + room]
  const y = (value: number): number => TOP + ((top - value) / (top - bottom)) * (HEIGHT - TOP - BOTTOM)
  const right = WIDTH - RIGHT
  return html`<figure class="chart">
    <figcaption>${title}</figcaption>
    <div class="scroll">
      <svg viewBox="0 0 ${WIDTH} ${HEIGHT}" role="group" aria-label="${title}">
        ${
          below === undefined
            ? null
            : html`<rect
                  class="below"
                  x="${LEFT}"
                  y="${y(1).toFixed(1)}"
                  width="${right - LEFT}"
                  height="${Math.max(0, HEIGHT - BOTTOM - y(1)).toFixed(1)}"
                />
                <text
                  class="note"
                  x="${right - 4}"
                  y="${Math.min(y(1) + 15, HEIGHT - BOTTOM - 4).toFixed(1)}"
                  text-anchor="end"
                  >${below}</text
                >`
        }
        ${marks(bottom, top).map(
          (mark) =>
            html`<line
                class="grid"
                x1="${LEFT}"
                x2="${right}"
                y1="${y(mark).toFixed(1)}"
                y2="${y(mark).toFixed(1)}"
              />
              <text x="${LEFT - 7}" y="${(y(mark) + 4).toFixed(1)}" text-anchor="end">${digits(mark)}</text>`,
        )}
        <line class="one" x1="${LEFT}" x2="${right}" y1="${y(1).toFixed(1)}" y2="${y(1).toFixed(1)}" />
        <text class="note" x="${LEFT + 4}" y="${(y(1) - 5).toFixed(1)}">${one}</text>
        ${legible(at, x).map((value) => html`<text x="${x(value).toFixed(1)}" y="${HEIGHT - BOTTOM + 18}" text-anchor="middle">${value}</text>`)}
        <text class="note" x="${((LEFT + right) / 2).toFixed(1)}" y="${HEIGHT - 6}" text-anchor="middle">
          ${axis}
        </text>
        ${lines.map((line) => drawLine(line, at, x, y))} ${endLabels(lines, y)}
        ${at.map((value, i) => column(value, i, chart, x))}
      </svg>
    </div>
  </figure>`
}

/** The horizontal scale, which is logarithmic (base 2) if the benchmark points span several powers of two. */
function scaleOf(at: readonly number[]): (value: number) => number {
  const [first, last] = [at[0], at[at.length - 1]]
  const bent = first > 0 && last / first >= 8 ? Math.log2 : (value: number): number => value
  const [from, to] = [bent(first), bent(last)]
  const width = WIDTH - LEFT - RIGHT - 32
  return (value) => LEFT + 16 + (to > from ? ((bent(value) - from) / (to - from)) * width : width / 2)
}

function marks(bottom: number, top: number): number[] {
  const distance = [0.05, 0.1, 0.2, 0.25, 0.5, 1, 2, 5, 10].find((one) => (top - bottom) / one <= 7) ?? 50
  const found: number[] = []
  for (let n = Math.ceil(bottom / distance); n * distance <= top; n++) found.push(n * distance)
  return found
}

/** Selects points of the axis whose labels do not overlap. */
function legible(at: readonly number[], x: (value: number) => number): number[] {
  let free = -Infinity
  return at.filter((value) => {
    const half = 4 * String(value).length + 3
    if (x(value) - half < free) return false
    free = x(value) + half
    return true
  })
}

function drawLine(
  { values, look, name }: Line,
  at: readonly number[],
  x: (v: number) => number,
  y: (v: number) => number,
): Markup {
  const points = values.flatMap((value, i) =>
    value === null ? [] : [{ value, x: x(at[i]), y: y(value.median) }],
  )
  const path = points
    .map((one, i) => `${i === 0 ? 'M' : 'L'}${one.x.toFixed(1)} ${one.y.toFixed(1)}`)
    .join('')
  return html`<g class="line look-${look % LOOKS}" data-line="${name}">
    <path class="trace" d="${path}" />
    ${points.map(
      ({ value, x: px, y: py }) =>
        html`<path
            class="interval"
            d="M${px.toFixed(1)} ${y(value.interval[0]).toFixed(1)}V${y(value.interval[1]).toFixed(1)}"
          />
          <path class="mark" d="${markAt(look, px, py)}" />`,
    )}
  </g>`
}

/**
 * Draws the mark of a line style. The shapes of the marks differ, so that lines can be distinguished without colours.
 */
function markAt(look: number, x: number, y: number): string {
  const [cx, cy] = [x.toFixed(1), y.toFixed(1)]
  switch (look % LOOKS) {
    case 0:
      return `M${cx} ${cy}m-5 -1.5h10v3h-10z`
    case 1:
      return `M${cx} ${cy}m-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0 -9 0z`
    case 2:
      return `M${cx} ${cy}m-4 -4h8v8h-8z`
    case 3:
      return `M${cx} ${cy}m0 -5.5l5 9h-10z`
    case 4:
      return `M${cx} ${cy}m0 -5.5l5.5 5.5l-5.5 5.5l-5.5 -5.5z`
    default:
      return `M${cx} ${cy}m0 5.5l5 -9h-10z`
  }
}

/** Draws the names at the ends of the lines such that they do not overlap. */
function endLabels(lines: readonly Line[], y: (value: number) => number): Markup[] {
  const wanted = lines
    .flatMap((line) => {
      const last = line.values.filter((value) => value !== null).at(-1)
      return last ? [{ line, y: y(last.median) }] : []
    })
    .sort((a, b) => a.y - b.y)
  const lowest = HEIGHT - BOTTOM
  let free = TOP
  const placed = wanted.map(({ line, y: at }, i) => {
    const place = Math.min(Math.max(at, free), lowest - LABEL * (wanted.length - 1 - i))
    free = place + LABEL
    return { line, y: place }
  })
  const x = WIDTH - RIGHT + 4
  return placed.map(
    ({ line, y: place }) =>
      html`<g class="line look-${line.look % LOOKS}">
        <path class="mark" d="${markAt(line.look, x + 2, place)}" />
        <text class="end" x="${x + 11}" y="${(place + 4).toFixed(1)}">${line.name}</text>
      </g>`,
  )
}

/** The column of a benchmark point, whose tooltip lists the values of all lines. */
function column(
  value: number,
  i: number,
  { axis, at, places, lines }: Chart,
  x: (value: number) => number,
): Markup {
  const middle = x(value)
  const left = i === 0 ? LEFT : (middle + x(at[i - 1])) / 2
  const right = i === at.length - 1 ? WIDTH - RIGHT : (middle + x(at[i + 1])) / 2
  const description: Description = {
    title: `${axis} ${value}`,
    lines: lines.flatMap(({ name, values }) => {
      const one = values[i]
      return one === null ? [] : [[name, `${digits(one.median)} (${ratioInterval(one)})`] as const]
    }),
  }
  const said = `${description.title}: ${description.lines.map(([name, figure]) => `${name} ${figure}`).join(', ')}`
  return html`<rect
    class="column"
    x="${left.toFixed(1)}"
    y="${TOP}"
    width="${(right - left).toFixed(1)}"
    height="${HEIGHT - TOP - BOTTOM}"
    tabindex="0"
    role="button"
    aria-label="${said}; shows its timelines"
    data-point="${places[i]}"
    data-tip="${JSON.stringify(description)}"
  />`
}
