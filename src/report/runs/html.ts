/**
 * Writes the measurement as one self-contained HTML file. The HTML file has sentences, bars, charts and tables that
 * need no script, and timelines of the variants whose spans are embedded and compressed.
 */
import {
  runPartNames,
  runParts,
  type BenchResult,
  type Point,
  type VariantResult,
} from '../../runs/results.ts'
import { digits, plural } from '../format.ts'
import { headlineMarkup, sentenceOf } from '../headline.ts'
import { html, type Markup } from '../markup.ts'
import { dataBlock, writePage, zoomButtons } from '../shell.ts'
import { time } from '../units.ts'
import { taxBars } from './bars.ts'
import { figuresSection, machineSection } from './figures.ts'
import { categoryOf, localityMeaning, partLabels } from './parts.ts'
import { blockOfPoint, packPictures } from './pictures.ts'
import {
  bulkOf,
  contentionText,
  drawnRatio,
  groupedBy,
  pointName,
  ratioInterval,
  timeInterval,
} from './points.ts'
import { recordedMarkup, recordedWarning, unlikeOf } from './recordedNote.ts'
import { ranksText } from './provenance.ts'
import { sweepsSection } from './sweepCharts.ts'
import { findings, headlineOf, headlineOfPoint, ledgerInWords } from './words.ts'

export const runsPage = (result: BenchResult): string => [...writeRunsPage(result)].join('')

/** Yields the text of the HTML file in chunks. The largest chunk is the data of one benchmark point. */
export function writeRunsPage(result: BenchResult): Generator<string, void> {
  return writePage({ name: 'runs', title: `arke bench: ${titleOf(result)}`, arke: result.arke }, body(result))
}

function* body(result: BenchResult): Generator<Markup | string, void> {
  const { points, arke } = result
  yield '<a class="skip" href="#timeline">Skip to the timelines</a>\n'
  yield headerSection(result)
  yield '<main>\n'
  yield pointsSection(points)
  yield sweepsSection(points)
  yield figuresSection(points)
  yield machineSection(result)
  yield html`</main>\n<footer><p>Written by arke ${arke}. The parts of a bar add up to its time; locality lies inside useful time.</p></footer>\n`
  for (const [place, point] of points.entries())
    yield dataBlock(blockOfPoint(place), Buffer.from(JSON.stringify(packPictures(point))))
}

const titleOf = ({ points }: BenchResult): string =>
  [...new Set(points.map(({ operation }) => operation))].join(', ') || 'nothing measured'

function headerSection(result: BenchResult): Markup {
  const { points, target, machine, warnings } = result
  const recorded = new Set(unlikeOf(points).map(recordedWarning))
  const others = warnings.filter((one) => !recorded.has(one))
  const ranks = [...new Set(points.map((point) => point.ranks))].sort((a, b) => a - b)
  const facts = [
    `target ${target}`,
    ...(ranks.length === 0
      ? []
      : [ranks.length === 1 ? plural(ranks[0], 'rank') : `${ranks.join(', ')} ranks`]),
    plural(points.length, 'point'),
    `${machine.processor}, ${plural(machine.cores, machine.threads ? 'worker thread' : 'multiprocessor')}`,
    `node ${machine.node}`,
  ]
  const found = findings(points)
  return html`<header>
    <div class="top">
      <p class="brand">arke bench: <b>${titleOf(result)}</b></p>
      <button type="button" id="theme">Theme</button>
    </div>
    ${headlineMarkup(headlineOf(points))}
    <p class="facts">${facts.join(' · ')}</p>
    ${
      found.length === 0
        ? null
        : html`<ol class="summary">
            ${found.map(({ operation, text }) => html`<li><b>${operation}</b>: ${text}</li>`)}
          </ol>`
    }
    <p class="facts">${ranksText(result)}</p>
    ${warningsMarkup(others)} ${recordedMarkup(points)}
  </header>`
}

export const warningsMarkup = (warnings: readonly string[]): Markup | null =>
  warnings.length === 0
    ? null
    : html`<details class="warnings" open>
        <summary>${plural(warnings.length, 'warning')}</summary>
        <ul>
          ${warnings.map((warning) => html`<li>${warning}</li>`)}
        </ul>
      </details>`

function pointsSection(points: readonly Point[]): Markup {
  return html`<section id="timeline" aria-labelledby="timeline-title">
    <h2 id="timeline-title">The variants, side by side</h2>
    <div class="controls">
      ${points.length > 1 ? chooser(points) : null}
      <span role="toolbar" aria-label="Timelines">${zoomButtons}</span>
    </div>
    ${legend}
    <p id="status" role="status"></p>
    <noscript><p>The timelines need JavaScript. Everything else on this page works without it.</p></noscript>
    ${points.map(pointArticle)}
    <p class="hint">
      All variants of a point are on one scale of time. Drag to move; Ctrl and wheel, or the wheel alone after
      a click, to zoom; Shift and drag to zoom into an interval. Keys: ← → to the span before and the next, ↑
      ↓ to another worker, + − 0 to zoom, a d to move.
    </p>
    <p class="visually-hidden" id="told" role="status"></p>
  </section>`
}

function chooser(points: readonly Point[]): Markup {
  const placed = points.map((point, place) => ({ point, place }))
  return html`<label class="which"
      >Point
      <select id="point">
        ${[...groupedBy(placed, ({ point }) => point.operation)].map(
          ([operation, group]) =>
            html`<optgroup label="${operation}">
              ${group.map(({ point, place }) => html`<option value="${place}">${operation}: ${pointName(point)}</option>`)}
            </optgroup>`,
        )}
      </select></label
    >
    <span class="buttons">
      <button type="button" id="point-before" aria-label="The point before">‹</button>
      <button type="button" id="point-after" aria-label="The next point">›</button>
    </span>`
}

export const legend: Markup = html`<dl class="meanings">
  ${runPartNames.map(
    (part) =>
      html`<div>
        <dt><span class="swatch is-${categoryOf(part)}" aria-hidden="true"></span>${partLabels[part]}</dt>
        <dd>${runParts[part]}</dd>
      </div>`,
  )}
  <div>
    <dt><span class="swatch is-locality" aria-hidden="true"></span>Locality</dt>
    <dd>${localityMeaning}</dd>
  </div>
</dl>`

function pointArticle(point: Point, place: number): Markup {
  const bulk = bulkOf(point)
  return html`<article class="point" id="point-${place}" aria-labelledby="point-${place}-title">
    <h3 id="point-${place}-title">${point.operation} <span class="kind">${pointName(point)}</span></h3>
    <p class="hint">
      Each timeline is the median of ${plural(point.variants[0].recorded.samples, 'recorded execution')} of
      its variant; the figures above it are of these executions.
    </p>
    <div class="timelines">
      <canvas class="axis" aria-hidden="true"></canvas>
      ${point.variants.map((one) => variantFigure(one, bulk))}
    </div>
    <ul class="words">
      <li>Without recording: ${sentenceOf(headlineOfPoint(point))}</li>
      ${ledgerInWords(point).map((sentence) => html`<li>${sentence}</li>`)}
      <li>Contention before the run: ${contentionText(point.contention)}.</li>
      ${
        point.auto === null
          ? null
          : html`<li>The automatic choice (auto) is ${point.auto.variant}: ${point.auto.reason}.</li>`
      }
    </ul>
    ${taxBars(point)}
  </article>`
}

/**
 * The timeline of a variant, together with its figures. The figures come from all recorded executions of the variant;
 * the timeline shows one of these executions.
 */
function variantFigure(result: VariantResult, bulk: VariantResult | null): Markup {
  const { variant, recorded, picture } = result
  const ratio = bulk === null || bulk === result ? null : drawnRatio(bulk, result)
  return html`<figure class="variant">
    <figcaption>
      <b>${variant}</b> recorded: ${time(picture.wall)} <small>(${timeInterval(recorded)})</small>
      ${ratio === null ? null : html`<span class="speedup">${digits(ratio.median)}× as fast as bsp <small>(${ratioInterval(ratio)})</small></span>`}
    </figcaption>
    <canvas
      tabindex="0"
      role="application"
      aria-label="Timeline of ${variant}. Left and right arrows go to the span before and the next, up and down to another worker, plus and minus zoom, 0 shows all."
    ></canvas>
  </figure>`
}
