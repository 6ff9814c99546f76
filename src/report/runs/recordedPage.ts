/**
 * Writes recorded runs of host programs as one self-contained HTML file: their timelines, and the ledger of each rank.
 * A run may be shown next to another run, such as the same program before tuning. The page uses the script and the
 * style of the page of measured operations.
 */
import { readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { packageFile } from '../../files.ts'
import { runPartNames, type Picture, type RunLedger } from '../../runs/results.ts'
import { percent, plural } from '../format.ts'
import { headlineMarkup, type Headline } from '../headline.ts'
import { html, scroll, type Markup } from '../markup.ts'
import { dataBlock, writePage, zoomButtons } from '../shell.ts'
import { time } from '../units.ts'
import { localityText, rankBars } from './bars.ts'
import { legend, warningsMarkup } from './html.ts'
import { partLabels } from './parts.ts'
import { blockOfPoint, packPictures } from './pictures.ts'
import { recordedHeadline } from './recordedTable.ts'

export interface ReportRun {
  /** The name of the run in headings. */
  readonly name: string
  readonly run: Picture
  /** A sentence about the run for the page. */
  readonly note?: string
  /** The name of the run that is shown above its timeline. The default is `name`. */
  readonly label?: string
  /** Another run, which is drawn next to this run on the same time scale. */
  readonly beside?: { readonly label: string; readonly run: Picture }
}

export interface ReportTable {
  readonly title: string
  readonly head: readonly string[]
  readonly rows: readonly (readonly string[])[]
}

export interface RecordedReport {
  readonly title: string
  /** The command that writes the page; `run` by default. */
  readonly command?: string
  /** The headline of the page. The default headline states the cost of the taxes in the run. */
  readonly headline?: Headline
  /** Tables above the timelines. */
  readonly tables?: readonly ReportTable[]
  /** Facts about the machine and the program, such as `target native`. */
  readonly facts?: readonly string[]
  readonly runs: readonly ReportRun[]
  readonly warnings?: readonly string[]
}

const version = (): string =>
  (JSON.parse(readFileSync(fileURLToPath(packageFile('package.json')), 'utf8')) as { version: string })
    .version

/** Yields the text of the HTML file in chunks. The largest chunk is the data of one run. */
export function reportPage(report: RecordedReport): Generator<string, void> {
  const arke = version()
  const { title, command = 'run' } = report
  return writePage({ name: 'runs', title: `arke ${command}: ${title}`, arke }, body(report, arke))
}

function* body(report: RecordedReport, arke: string): Generator<Markup | string, void> {
  const { title, command = 'run', runs, facts = [], warnings = [], tables = [] } = report
  yield '<a class="skip" href="#timeline">Skip to the timelines</a>\n'
  yield html`<header>
    <div class="top">
      <p class="brand">arke ${command}: <b>${title}</b></p>
      <button type="button" id="theme">Theme</button>
    </div>
    ${headlineMarkup(report.headline ?? headlineOf(runs))}
    <p class="facts">${[...facts, plural(runs.length, 'run')].join(' · ')}</p>
    ${warningsMarkup(warnings)}
  </header>`
  yield '<main>\n'
  for (const one of tables) yield tableSection(one)
  yield timelines(runs)
  yield figures(runs)
  yield html`</main>\n<footer><p>Written by arke ${arke}. The parts of a bar add up to its time; locality lies inside useful time.</p></footer>\n`
  for (const [place, shown] of runs.entries()) {
    const variants = picturesOf(shown).map(([variant, picture]) => ({ variant, picture }))
    const packed = packPictures({ variants })
    yield dataBlock(blockOfPoint(place), Buffer.from(JSON.stringify(packed)))
  }
}

/** The run and the run that is drawn next to it, if any, each with the name above its timeline. */
const picturesOf = ({ name, label = name, run, beside }: ReportRun): (readonly [string, Picture])[] => [
  [label, run],
  ...(beside ? [[beside.label, beside.run] as const] : []),
]

const tableSection = ({ title, head, rows }: ReportTable): Markup =>
  html`<section aria-label="${title}">
    <h2>${title}</h2>
    ${scroll(
      title,
      html`<table class="figures">
        <thead>
          <tr>
            ${head.map((name) => html`<th scope="col">${name}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${rows.map(
            ([name, ...others]) =>
              html`<tr>
                <th scope="row">${name}</th>
                ${others.map((one) => html`<td>${one}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}
  </section>`

function headlineOf(runs: readonly ReportRun[]): Headline {
  if (runs.length === 1) return recordedHeadline(runs[0].run)
  return { figure: '', text: runs.length === 0 ? 'Nothing was recorded.' : `${runs.length} runs recorded.` }
}

function timelines(runs: readonly ReportRun[]): Markup {
  return html`<section id="timeline" aria-labelledby="timeline-title">
    <h2 id="timeline-title">Timelines</h2>
    <div class="controls">
      ${runs.length > 1 ? chooser(runs) : null}
      <span role="toolbar" aria-label="Timelines">${zoomButtons}</span>
    </div>
    ${legend}
    <p id="status" role="status"></p>
    <noscript><p>The timelines need JavaScript. Everything else on this page works without it.</p></noscript>
    ${runs.map(article)}
    <p class="hint">
      Time in which the host waited or computed between launches is left out. Drag to move; Ctrl and wheel, or
      the wheel alone after a click, to zoom; Shift and drag to zoom into an interval. Keys: ← → to the span
      before and the next, ↑ ↓ to another worker, + − 0 to zoom, a d to move.
    </p>
    <p class="visually-hidden" id="told" role="status"></p>
  </section>`
}

const chooser = (runs: readonly ReportRun[]): Markup =>
  html`<label class="which"
      >Run
      <select id="point">
        ${runs.map(({ name }, place) => html`<option value="${place}">${name}</option>`)}
      </select></label
    >
    <span class="buttons">
      <button type="button" id="point-before" aria-label="The run before">‹</button>
      <button type="button" id="point-after" aria-label="The next run">›</button>
    </span>`

const article = (shown: ReportRun, place: number): Markup => {
  const { name, note } = shown
  return html`<article class="point" id="point-${place}" aria-labelledby="point-${place}-title">
    <h3 id="point-${place}-title">${name}</h3>
    ${note === undefined ? null : html`<p class="hint">${note}</p>`}
    <div class="timelines">
      <canvas class="axis" aria-hidden="true"></canvas>
      ${picturesOf(shown).map(
        ([label, run]) =>
          html`<figure class="variant">
            <figcaption><b>${label}</b> ${time(run.wall)}</figcaption>
            <canvas
              tabindex="0"
              role="application"
              aria-label="Timeline of ${label}. Left and right arrows go to the span before and the next, up and down to another worker, plus and minus zoom, 0 shows all."
            ></canvas>
          </figure>`,
      )}
    </div>
    ${rankBars(picturesOf(shown))}
  </article>`
}

type Figure = readonly [label: string, value: (ledger: RunLedger) => string]
const columns: readonly Figure[] = [
  ['Wall', ({ wall }) => time(wall)],
  ...runPartNames.map((part): Figure => [
    partLabels[part],
    ({ parts, wall }) => `${time(parts[part])} (${percent(parts[part], wall)})`,
  ]),
  ['Of useful: locality', ({ locality }) => localityText(locality)],
]

const figures = (runs: readonly ReportRun[]): Markup =>
  html`<section aria-labelledby="figures-title">
    <h2 id="figures-title">The ledger of each rank</h2>
    ${scroll(
      'Table of all figures',
      html`<table class="figures">
        <thead>
          <tr>
            <th scope="col">Rank</th>
            ${columns.map(([label]) => html`<th scope="col" class="number">${label}</th>`)}
          </tr>
        </thead>
        ${runs.flatMap((shown) =>
          picturesOf(shown).map(
            ([label, run]) =>
              html`<tbody>
                <tr class="point-row">
                  <th colspan="${columns.length + 1}" scope="rowgroup">
                    <span class="stays">${shown.beside ? `${shown.name}: ${label}` : shown.name}</span>
                  </th>
                </tr>
                ${run.ranks.map(
                  ({ rank, ledger }) =>
                    html`<tr>
                      <th scope="row">${rank}</th>
                      ${columns.map(([, value]) => html`<td class="number">${value(ledger)}</td>`)}
                    </tr>`,
                )}
              </tbody>`,
          ),
        )}
      </table>`,
    )}
  </section>`
