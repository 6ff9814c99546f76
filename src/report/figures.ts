/** Writes the tables of numbers in the report: per rank, per process group, and for the clocks. */
import type { AuditDocument, RankDocument } from './document.ts'
import { ranges } from '../timeline/ranges.ts'
import { bytes, percent } from './format.ts'
import { culpritFirst, culpritOf } from './culprit.ts'
import { html, scroll, type Markup } from './markup.ts'
import { rankHeading } from './sections.ts'
import { count, timeOfUs } from './units.ts'

type Figure = readonly [label: string, value: (rank: RankDocument) => string]

const figures: readonly Figure[] = [
  ['Wall', ({ wallUs }) => timeOfUs(wallUs)],
  ['Busy', ({ busyUs }) => timeOfUs(busyUs)],
  ['Compute', ({ computeUs }) => timeOfUs(computeUs)],
  ['Launch', ({ taxes }) => timeOfUs(taxes.launchUs)],
  ['Launch share', ({ taxes, wallUs }) => percent(taxes.launchUs, wallUs)],
  ['Wait', ({ taxes }) => timeOfUs(taxes.waitUs)],
  ['Wait share', ({ taxes, wallUs }) => (taxes.waitUs === null ? 'unknown' : percent(taxes.waitUs, wallUs))],
  ['Hidden wait', ({ taxes }) => timeOfUs(taxes.hiddenWaitUs)],
  ['Exposed transfer', ({ taxes }) => timeOfUs(taxes.exposedTransferUs)],
  ['Unsplit', ({ other }) => timeOfUs(other.unsplitCommUs)],
  ['Other', ({ taxes, other }) => timeOfUs(Math.max(0, taxes.otherUs - other.unsplitCommUs))],
  [
    'Locality, within busy',
    ({ taxes }) =>
      taxes.localityUs === null
        ? 'unknown'
        : `${timeOfUs(taxes.localityUs[0])} to ${timeOfUs(taxes.localityUs[1])}`,
  ],
  ['Locality bytes', ({ taxes }) => (taxes.localityBytes === null ? 'unknown' : bytes(taxes.localityBytes))],
  ['Communication', ({ commUs }) => timeOfUs(commUs)],
  ['Overlapped', ({ overlapPct }) => (overlapPct === null ? '–' : `${overlapPct.toFixed(1)} %`)],
  ['Copies', ({ copyUs }) => timeOfUs(copyUs)],
  ['Idle', ({ idleUs }) => timeOfUs(idleUs)],
  ['Dispatch', ({ idle }) => timeOfUs(idle.dispatchUs)],
  ['Gap', ({ idle }) => timeOfUs(idle.gapUs)],
  ['Host blocked', ({ idle }) => timeOfUs(idle.hostBlockedUs)],
  ['Host absent', ({ idle }) => timeOfUs(idle.hostAbsentUs)],
  ['Dependency', ({ idle }) => timeOfUs(idle.dependencyUs)],
  ['Unattributed', ({ idle }) => timeOfUs(idle.unattributedUs)],
  ['Launches', ({ launches }) => count(launches)],
]

export function figuresSection(document: AuditDocument): Markup {
  const { ranks, groups } = document
  const culprit = culpritOf(document)
  return html`<section aria-labelledby="figures-title">
    <h2 id="figures-title">Figures</h2>
    ${scroll(
      'Figures of each rank',
      html`<table class="figures">
        <thead>
          <tr>
            <th scope="col">Rank</th>
            ${figures.map(([label]) => html`<th scope="col" class="number">${label}</th>`)}
          </tr>
        </thead>
        <tbody>
          ${culpritFirst(ranks, culprit).map(
            (rank) =>
              html`<tr>
                ${rankHeading(rank.rank, culprit)}
                ${figures.map(([, value]) => html`<td class="number">${value(rank)}</td>`)}
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}
    ${groups.length === 0 ? null : groupTable(groups)}
  </section>`
}

const groupTable = (groups: AuditDocument['groups']): Markup =>
  html`<h3>Process groups</h3>
    ${scroll(
      'Process groups',
      html`<table>
        <thead>
          <tr>
            <th scope="col">Group</th>
            <th scope="col">Ranks</th>
            <th scope="col" class="number">Collectives</th>
            <th scope="col" class="number">Communication</th>
            <th scope="col" class="number">Exposed wait</th>
            <th scope="col" class="number">Exposed transfer</th>
          </tr>
        </thead>
        <tbody>
          ${groups.map(
            (group) =>
              html`<tr>
                <th scope="row">
                  ${group.group}${group.description === null ? null : html` <small>${group.description}</small>`}
                </th>
                <td>${ranges(group.ranks)}</td>
                <td class="number">${count(group.collectives)}</td>
                <td class="number">${timeOfUs(group.commUs)}</td>
                <td class="number">
                  ${timeOfUs(group.waitUs)}${group.waitUs === null ? null : ` (${percent(group.waitUs, group.commUs)})`}
                </td>
                <td class="number">${timeOfUs(group.exposedTransferUs)}</td>
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}`

export function clocksSection({ clocks }: AuditDocument): Markup {
  if (clocks.length < 2) return html``
  return html`<section aria-labelledby="clocks-title">
    <h2 id="clocks-title">Clocks</h2>
    <p class="hint">
      All times above are on the first rank's clock. The residual is the remaining difference between the ends
      of the same collective; waits shorter than the residual are not significant. A rank without a residual
      shares no collective with another rank and keeps the clock of its trace; the warnings list ranks whose
      clock is unknown.
    </p>
    ${scroll(
      'Table of clocks',
      html`<table>
        <thead>
          <tr>
            <th scope="col">Rank</th>
            <th scope="col">Aligned on collectives</th>
            <th scope="col" class="number">Correction</th>
            <th scope="col" class="number">Drift</th>
            <th scope="col" class="number">Residual</th>
          </tr>
        </thead>
        <tbody>
          ${clocks.map(
            (clock) =>
              html`<tr>
                <th scope="row">rank ${clock.rank}</th>
                <td>${clock.aligned ? 'yes' : 'no'}</td>
                <td class="number">${clock.aligned ? timeOfUs(clock.correctionUs) : '–'}</td>
                <td class="number">${clock.aligned ? `${clock.driftPpm.toFixed(2)} ppm` : '–'}</td>
                <td class="number">${clock.residualUs === null ? '–' : timeOfUs(clock.residualUs)}</td>
              </tr>`,
          )}
        </tbody>
      </table>`,
    )}
  </section>`
}
