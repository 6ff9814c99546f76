/**
 * Writes the audit as one self-contained HTML file. The HTML file has tables that need no script, and bars and tracks
 * whose data is embedded and compressed.
 */
import { bandwidthSection, fixesSection, hostSection, workSection } from './advice.ts'
import { jsonPieces } from './json.ts'
import { html, type Markup } from './markup.ts'
import { pack, type ReportInput } from './pack.ts'
import { headerBlock, type PackedHeader } from './packed.ts'
import { clocksSection, figuresSection } from './figures.ts'
import { candidatesSection, headerSection, stragglersSection, titleOf } from './sections.ts'
import { dataBlock, writePage, zoomButtons } from './shell.ts'

export type { ReportInput } from './pack.ts'

/** Yields the text of the HTML file in chunks. The largest chunk is the data of one rank. */
export function writeReport(input: ReportInput): Generator<string, void> {
  const { document } = input
  return writePage(
    { name: 'page', title: `arke audit: ${titleOf(document)}`, arke: document.arke },
    body(input),
  )
}

function* body(input: ReportInput): Generator<Markup | string, void> {
  const { document } = input
  yield '<a class="skip" href="#timeline">Skip to the timeline</a>\n'
  yield headerSection(document)
  yield '<main>\n'
  yield fixesSection(document)
  yield barsSection
  yield timelineSection
  for (const section of [
    stragglersSection,
    candidatesSection,
    hostSection,
    workSection,
    bandwidthSection,
    figuresSection,
    clocksSection,
  ])
    yield section(document)
  yield html`</main>\n<footer><p>Written by arke ${document.arke}. Wait and exposed transfer are always shown separately. The locality tax is part of busy time.</p></footer>\n`

  const blocks = pack(input)
  let next = blocks.next()
  while (!next.done) {
    yield dataBlock(next.value.id, next.value.bytes)
    next = blocks.next()
  }
  yield dataBlock(
    headerBlock,
    Buffer.concat(Array.from(jsonPieces(next.value satisfies PackedHeader), (piece) => Buffer.from(piece))),
  )
}

const barsSection: Markup = html`<section aria-labelledby="bars-title">
  <h2 id="bars-title">Where the time went</h2>
  <div class="controls">
    <fieldset class="choice" id="bars-by">
      <legend class="visually-hidden">Bars</legend>
      <label><input type="radio" name="bars-by" value="rank" checked /><span>By rank</span></label>
      <label><input type="radio" name="bars-by" value="step" /><span>By step</span></label>
    </fieldset>
    <label class="which"
      ><span id="bars-which-label">of</span>
      <select id="bars-which"></select
    ></label>
    <fieldset class="choice">
      <legend class="visually-hidden">Scale</legend>
      <label><input type="radio" name="bars-scale" value="time" checked /><span>Time</span></label>
      <label><input type="radio" name="bars-scale" value="share" /><span>Share</span></label>
    </fieldset>
  </div>
  <ul class="legend" id="legend" aria-label="Legend; choose one to read its figures"></ul>
  <ul class="bars" id="bars"></ul>
</section>`

const timelineSection: Markup = html`<section id="timeline" aria-labelledby="timeline-title">
  <h2 id="timeline-title">Timeline of all ranks</h2>
  <p id="status" role="status">Reading the tracks…</p>
  <noscript
    ><p>The bars and the timeline need JavaScript; the tables below are complete without it.</p></noscript
  >
  <div class="controls" role="toolbar" aria-label="Timeline">
    ${zoomButtons}
    <span class="buttons">
      <button type="button" id="collective-before" title="The collective before ([)">‹ Collective</button>
      <button
        type="button"
        id="collective-after"
        aria-label="Next collective"
        title="The next collective (])"
      >
        ›
      </button>
    </span>
    <button type="button" id="fold" aria-pressed="false" title="Show only where each rank's time went">
      Fold streams
    </button>
    <button type="button" id="hosts" aria-pressed="false" title="Show the host threads of all ranks">
      Host threads
    </button>
    <label class="find"
      ><span class="visually-hidden">Find a kernel or an operator</span
      ><input
        type="search"
        id="search"
        placeholder="Find a kernel or an operator"
        autocomplete="off"
        spellcheck="false"
    /></label>
    <output id="search-result" for="search"></output>
  </div>
  <canvas
    id="overview"
    aria-hidden="true"
    title="All ranks over the whole time; drag to move the part that is shown"
  ></canvas>
  <div class="stage" id="stage">
    <div class="tracks" id="tracks">
      <div id="tracks-content">
        <canvas
          id="tracks-canvas"
          tabindex="0"
          role="application"
          aria-label="Timeline of all ranks. Left and right arrows go to the event before and the next, up and down to another track, plus and minus zoom, a and d move, 0 shows all, f folds a rank, h opens its host threads, brackets go to the collective before and the next, Escape leaves."
          aria-describedby="tracks-list"
        ></canvas>
      </div>
    </div>
    <div class="panel" id="panel" role="region" aria-label="Selection" aria-live="polite">
      <p class="hint">
        The thin track of each rank shows why its device was busy or idle; the tracks below it are the rank's
        streams. The height of a colour is its share of the time under that pixel. Click an event for its
        details, or a collective for the arrival of every rank. Drag to move. To zoom, use Ctrl and the wheel,
        the wheel alone after a click, or Shift and drag. Click the name of a rank to fold it, its quiet
        streams to show them, or its host threads to open and close them. Keys: ← → go to the event before and
        the next, ↑ ↓ to another track, + − 0 zoom, a d move, f folds the rank, h opens its host threads, [ ]
        go to the collective before and the next, Esc clears.
      </p>
    </div>
  </div>
  <ul class="visually-hidden" id="tracks-list"></ul>
  <p class="hint" id="tracks-hidden"></p>
</section>`
