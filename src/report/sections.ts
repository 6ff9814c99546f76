/**
 * The report's header and its findings, which need no script. The findings state which rank waited for which other
 * rank, and which kernels to fuse.
 */
import type { AuditDocument, CandidateDocument, RankDocument, StragglerDocument } from './document.ts'
import { ranges } from '../timeline/ranges.ts'
import { bytes, shorten } from './format.ts'
import { culpritBadge, culpritFirst, culpritOf } from './culprit.ts'
import { headlineMarkup } from './headline.ts'
import { headlineOf, shapesOf } from './summary.ts'
import { html, Markup, scroll } from './markup.ts'
import { noWorkOf } from './untraced.ts'
import { count, timeOfUs } from './units.ts'
import { byGravity } from './warningLines.ts'

const nanoseconds = (us: number): string => String(Math.round(us * 1000))

/** Returns a button that jumps to a position on the timeline. */
export const jump = (
  text: string,
  label: string,
  to: { from: number; to: number; rank: number; collective?: number },
): Markup =>
  html`<button
    type="button"
    class="jump"
    data-jump
    data-from="${nanoseconds(to.from)}"
    data-to="${nanoseconds(to.to)}"
    data-rank="${to.rank}"
    ${to.collective === undefined ? null : html`data-collective="${to.collective}"`}
    aria-label="${label}"
  >
    ${text}
  </button>`

const counted = (number: number, one: string, many = `${one}s`): string =>
  `${count(number)} ${number === 1 ? one : many}`

const chosen = ([first, last]: readonly [number, number]): string =>
  first === last ? `step ${first}` : `steps ${first} to ${last}`

export function headerSection(document: AuditDocument): Markup {
  const { sources, ranks, steps, warnings, summary, chosenSteps } = document
  const sizes = sources.reduce((sum, source) => sum + source.bytes, 0)
  const title = titleOf(document)
  const launches = ranks.reduce((sum, rank) => sum + rank.launches, 0)
  const facts = [
    counted(ranks.length, 'rank'),
    chosenSteps ? chosen(chosenSteps) : counted(steps.length, 'step'),
    counted(document.collectives.length, 'collective'),
    counted(launches, 'launch', 'launches'),
    bytes(sizes),
  ]
  return html`<header>
    <div class="top">
      <p class="brand">arke audit: <b>${title}</b></p>
      <button type="button" id="theme">Theme</button>
    </div>
    ${headlineMarkup(headlineOf(document))}
    <p class="facts">${facts.join(' · ')}</p>
    <ol class="summary">
      ${summary.map((sentence) => html`<li>${sentence}</li>`)}
    </ol>
    ${
      warnings.length > 0
        ? html`<details class="warnings">
            <summary>${counted(warnings.length, 'warning')}: assumptions and missing data</summary>
            <ul>
              ${byGravity(warnings).map(
                (warning) =>
                  html`<li>
                    <b>${warning.class}</b>
                    ${warning.count > 1 ? html`<i>×${count(warning.count)}</i> ` : null}${warning.message}
                  </li>`,
              )}
            </ul>
          </details>`
        : null
    }
    <details class="sources">
      <summary>Sources</summary>
      <ul>
        ${sources.map(
          (source) =>
            html`<li>
              <code>${source.path}</code> (${source.format}, ${bytes(source.bytes)},
              ${source.ranks.length === 0 ? 'no rank' : `${source.ranks.length === 1 ? 'rank' : 'ranks'} ${ranges(source.ranks)}`})
            </li>`,
        )}
      </ul>
    </details>
  </header>`
}

/** The name of the trace file, or of the folder that contains all traces. */
export function titleOf({ sources }: AuditDocument): string {
  if (sources.length === 1) return baseName(sources[0].path)
  const folders = new Set(sources.map(({ path }) => baseName(path.replace(/[\\/][^\\/]*$/, ''))))
  const [folder] = folders
  return folders.size === 1 && sources[0].path.match(/[\\/]/)
    ? `${folder}, ${sources.length} traces`
    : `${sources.length} traces`
}

const baseName = (path: string): string => path.split(/[\\/]/).filter(Boolean).at(-1) ?? path

export function stragglersSection({ stragglers, ranks, doubtful, untraced }: AuditDocument): Markup {
  const unknown = doubtful?.collectives ?? 0
  return html`<section aria-labelledby="stragglers-title">
    <h2 id="stragglers-title">Who waited for whom</h2>
    ${
      untraced
        ? html`<p>
            In ${counted(untraced.collectives, 'collective')}, waiting is a lower bound and transfer an upper
            bound: ${noWorkOf(untraced)}, and the recorded ranks may have waited for such a rank.
          </p>`
        : null
    }
    ${
      unknown === 0
        ? null
        : html`<p>
            At ${counted(unknown, 'collective')} the late rank is unknown: the traces do not list the ranks of
            process groups, and the matched calls may belong to different groups.
          </p>`
    }
    ${
      stragglers.length === 0
        ? html`<p>
            ${
              ranks.length === 1
                ? 'The trace of one rank does not show who waited for whom; record the other ranks, too.'
                : unknown > 0
                  ? 'At the other collectives, no rank kept another rank waiting.'
                  : 'In these traces, no rank kept another rank waiting.'
            }
          </p>`
        : html`<p class="hint">
              Rows are the ranks that waited, columns the ranks that they waited for. Values are times in
              collectives,
              summed.${stragglers.length > COLUMNS ? ` The columns are the worst ${COLUMNS} of ${stragglers.length} ranks; the sum at the end of a row includes all ranks.` : null}
            </p>
            ${scroll('Straggler matrix', matrix(stragglers, ranks))}
            <h3>The ranks that were waited for</h3>
            ${scroll('Stragglers', stragglerTable(stragglers))}`
    }
  </section>`
}

/** The heading of a rank's row, with a badge if the rank is the culprit. */
export const rankHeading = (rank: number, culprit: number | null): Markup =>
  html`<th scope="row">
    rank ${rank}${rank === culprit ? html` <span class="badge">${culpritBadge}</span>` : null}
  </th>`

/**
 * The maximum number of columns in the matrix of waiting times. The matrix of waiting times has a row for every rank,
 * but columns only for the worst stragglers, with the culprit first.
 */
const COLUMNS = 32

function matrix(stragglers: readonly StragglerDocument[], ranks: readonly RankDocument[]): Markup {
  const culprit = culpritOf({ stragglers })
  const columns = culpritFirst(
    stragglers.slice(0, COLUMNS).sort((a, b) => a.rank - b.rank),
    culprit,
  )
  const known = new Set(ranks.map(({ rank }) => rank))
  for (const { waiters } of stragglers) for (const { rank } of waiters) known.add(rank)
  const rows = [...known].sort((a, b) => a - b)
  const waits = columns.map(({ waiters }) => new Map(waiters.map(({ rank, waitUs }) => [rank, waitUs])))
  const most = waits.reduce((all, column) => [...column.values()].reduce((a, b) => Math.max(a, b), all), 1e-9)
  // The sum of a row of waiting times includes stragglers that have no column.
  const sums = new Map<number, number>()
  for (const { waiters } of stragglers)
    for (const { rank, waitUs } of waiters) sums.set(rank, (sums.get(rank) ?? 0) + waitUs)
  const cell = (us: number): Markup =>
    us > 0
      ? html`<td style="--heat:${Math.sqrt(us / most).toFixed(3)}">${timeOfUs(us)}</td>`
      : html`<td class="none">–</td>`
  return html`<table class="matrix">
    <thead>
      <tr>
        <th scope="col">waited</th>
        ${columns.map(
          ({ rank }) =>
            html`<th scope="col">
              for ${rank}${rank === culprit ? html` <span class="badge">${culpritBadge}</span>` : null}
            </th>`,
        )}
        <th scope="col" class="sum">in all</th>
      </tr>
    </thead>
    <tbody>
      ${rows.map((row) => {
        return html`<tr>
          <th scope="row">rank ${row}</th>
          ${columns.map(({ rank }, i) =>
            rank === row ? html`<td class="self" aria-label="itself"></td>` : cell(waits[i].get(row) ?? 0),
          )}
          <td class="sum">${timeOfUs(sums.get(row) ?? 0)}</td>
        </tr>`
      })}
    </tbody>
    <tfoot>
      <tr>
        <th scope="row">in all</th>
        ${columns.map(({ keptWaitingUs }) => html`<td class="sum">${timeOfUs(keptWaitingUs)}</td>`)}
        <td></td>
      </tr>
    </tfoot>
  </table>`
}

function stragglerTable(stragglers: readonly StragglerDocument[]): Markup {
  const culprit = culpritOf({ stragglers })
  return html`<table class="stragglers">
    <thead>
      <tr>
        <th scope="col">Rank</th>
        <th scope="col" class="number">Kept others waiting</th>
        <th scope="col" class="number">Exposed</th>
        <th scope="col" class="number">Late</th>
        <th scope="col" class="number">Collectives</th>
        <th scope="col">What it did meanwhile</th>
        <th scope="col">Compared with the second-latest rank</th>
        <th scope="col">Worst collectives</th>
      </tr>
    </thead>
    <tbody>
      ${stragglers.map(
        (one) =>
          html`<tr>
            ${rankHeading(one.rank, culprit)}
            <td class="number" data-label="Kept others waiting">${timeOfUs(one.keptWaitingUs)}</td>
            <td class="number" data-label="Exposed">${timeOfUs(one.exposedWaitUs)}</td>
            <td class="number" data-label="Late">${timeOfUs(one.lateUs)}</td>
            <td class="number" data-label="Collectives">${count(one.collectives)}</td>
            <td data-label="What it did meanwhile">
              <ul class="meanwhile">
                ${one.meanwhile
                  .slice(0, 4)
                  .map(
                    ({ what, name, operator, us }) =>
                      html`<li>
                        <b>${timeOfUs(us)}</b> ${what}
                        ${operator === null ? null : html`<code>${operator}</code>`}
                        ${name === null ? null : html`${kernelName(name)}`}
                      </li>`,
                  )}
              </ul>
            </td>
            <td data-label="Compared with the second-latest rank">${reasons(one)}</td>
            <td class="places" data-label="Worst collectives">
              ${one.worst
                .slice(0, 3)
                .map((place) =>
                  jump(
                    `${place.kind ?? 'collective'}, ${timeOfUs(place.keptWaitingUs)}`,
                    `${place.kind ?? 'collective'}, ${timeOfUs(place.keptWaitingUs)}: show where rank ${one.rank} was ${timeOfUs(place.lateUs)} late`,
                    { from: place.startUs, to: place.startUs, rank: one.rank, collective: place.collective },
                  ),
                )}
            </td>
          </tr>`,
      )}
    </tbody>
  </table>`
}

/** Lists the reasons why a rank took longer than the second-latest rank, with the longest time first. */
function reasons({ because }: StragglerDocument): Markup {
  if (!because) return html`unknown`
  const all = (
    [
      ['more work', because.moreWorkUs],
      ['slower at equal work', because.slowerUs],
      ['compute of unknown size', because.unknownUs],
      ['time without compute', because.idleUs],
    ] as const
  ).filter(([, us]) => us > 0)
  return html`<ul class="meanwhile">
    ${[...all].sort((a, b) => b[1] - a[1]).map(([name, us]) => html`<li><b>${timeOfUs(us)}</b> ${name}</li>`)}
  </ul>`
}

/** The number of characters of a kernel's name that fit into a cell. Longer names can be expanded. */
const NAME = 48

export const kernelName = (name: string): Markup =>
  name.length <= NAME
    ? html`<code>${name}</code>`
    : html`<details class="long-name">
        <summary><code>${shorten(name, NAME)}</code></summary>
        <code>${name}</code>
      </details>`

/** The savings of a fusion candidate in each tax. Columns without values are omitted. */
const savings: readonly [label: string, value: (candidate: CandidateDocument) => number | null][] = [
  ['Launch', ({ saves }) => saves.launchUs],
  ['Wait', ({ saves }) => saves.waitUs],
  ['Transfer', ({ saves }) => saves.exposedTransferUs],
  ['Unsplit', ({ saves }) => saves.unsplitCommUs],
  ['Locality', ({ saves }) => saves.localityUs],
]

/** The number of fusion candidates that are shown. All other candidates are in a collapsed section. */
const CANDIDATES = 12

export function candidatesSection({ candidates, ranks }: AuditDocument): Markup {
  const rest = candidates.slice(CANDIDATES)
  return html`<section aria-labelledby="candidates-title">
    <h2 id="candidates-title">What to fuse</h2>
    ${
      candidates.length === 0
        ? html`<p>No chain of kernels stands out as a candidate for fusion.</p>`
        : html`<p class="hint">
              Ordered by the largest possible saving of a fused kernel, per rank. Each saving is the sum of
              the taxes in the columns after it.
            </p>
            ${candidateTable('Fusion candidates', candidates.slice(0, CANDIDATES), candidates, ranks.length)}`
    }
    ${
      rest.length === 0
        ? null
        : html`<details>
            <summary>
              ${rest.length} more, each of which saves at most ${timeOfUs(rest[0].savesUs / ranks.length)}
            </summary>
            ${candidateTable('Further fusion candidates', rest, candidates, ranks.length)}
          </details>`
    }
  </section>`
}

function candidateTable(
  label: string,
  candidates: readonly CandidateDocument[],
  all: readonly CandidateDocument[],
  ranks: number,
): Markup {
  const most = Math.max(1e-9, ...all.map(({ savesUs }) => savesUs))
  const columns = savings.filter(([, value]) => all.some((candidate) => (value(candidate) ?? 0) > 0))
  return scroll(
    label,
    html`<table>
      <thead>
        <tr>
          <th scope="col">Chain</th>
          <th scope="col" class="number">Saves at most</th>
          ${columns.map(([name]) => html`<th scope="col" class="number">${name}</th>`)}
          <th scope="col" class="number">Locality bytes</th>
          <th scope="col" class="number">Times</th>
          <th scope="col">Ranks</th>
          <th scope="col">Arke operation</th>
          <th scope="col">Example</th>
        </tr>
      </thead>
      <tbody>
        ${candidates.map((candidate) =>
          candidateRow(
            candidate,
            most,
            columns.map(([, value]) => value(candidate)),
            ranks,
          ),
        )}
      </tbody>
    </table>`,
  )
}

/**
 * The number of kernels or operators of a chain that are shown. The reader can expand the remaining kernels or
 * operators of the chain.
 */
const CHAIN = 6

function chainOf(chain: readonly string[]): Markup {
  const links = (names: readonly string[]): Markup[] =>
    names.map(
      (name, i) => html`${i > 0 ? html`<span aria-hidden="true"> → </span>` : null}<code>${name}</code>`,
    )
  if (chain.length <= CHAIN + 1) return html`${links(chain)}`
  const rest = chain.slice(CHAIN)
  return html`${links(chain.slice(0, CHAIN))}
    <details>
      <summary>and ${rest.length} more</summary>
      ${links(rest)}
    </details>`
}

const candidateKinds: Readonly<Record<CandidateDocument['kind'], string>> = {
  'compute-collective-compute': 'compute, collective, compute',
  'small-kernels': 'small kernels',
  'producer-consumer': 'passed through memory',
}

function candidateRow(
  candidate: CandidateDocument,
  most: number,
  columns: readonly (number | null)[],
  ranks: number,
): Markup {
  const { saves, savesUs, chain, example, operation, localityBytes } = candidate
  const piece = (category: string, us: number | null): Markup =>
    html`<span
      class="is-${category}"
      style="width:${((100 * Math.max(0, us ?? 0)) / most).toFixed(2)}%"
    ></span>`
  return html`<tr>
    <td class="chain">
      <span class="kind">${candidateKinds[candidate.kind]}</span>
      ${chainOf(chain)}
    </td>
    <td class="number">
      <b>${timeOfUs(savesUs / ranks)}</b>
      <div class="savings" aria-hidden="true">
        ${piece('launch', saves.launchUs)}${piece('wait', saves.waitUs)}${piece('transfer', saves.exposedTransferUs)}${piece('unsplit', saves.unsplitCommUs)}${piece('locality', saves.localityUs)}
      </div>
    </td>
    ${columns.map((us) => html`<td class="number">${us === null ? '–' : timeOfUs(us / ranks)}</td>`)}
    <td class="number">${localityBytes === null ? '–' : bytes(localityBytes)}</td>
    <td class="number">${count(candidate.count)}</td>
    <td>${ranges(candidate.ranks)}</td>
    <td>
      ${operation === null ? '–' : html`<b>${operation.name}</b><br /><small>${shapesOf(operation)}</small><br /><code>${operation.command}</code>`}
    </td>
    <td>
      ${jump('Show', `Show the costliest one, on rank ${example.rank}`, {
        from: example.startUs,
        to: example.startUs + example.durUs,
        rank: example.rank,
      })}
    </td>
  </tr>`
}
