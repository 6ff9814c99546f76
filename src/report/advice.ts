/** Writes the report's sections about fixes, host activities in idle time, kernels and operators, and bandwidths. */
import type { AuditDocument, BandwidthDocument, FixDocument, HostDocument, WorkDocument } from './document.ts'
import { bytes, percent, shorten } from './format.ts'
import { costOf, observed, WORTH } from './fixes.ts'
import { html, type Markup, scroll } from './markup.ts'
import { jump, kernelName } from './sections.ts'
import { count, timeOfUs } from './units.ts'

const sum = <T>(things: readonly T[], of: (thing: T) => number): number =>
  things.reduce((total, one) => total + of(one), 0)

export function fixesSection({ fixes, ranks }: AuditDocument): Markup {
  if (fixes === undefined || ranks.length === 0) return html``
  const wall = sum(ranks, ({ wallUs }) => wallUs)
  const worth = fixes.filter(({ savesUs }) => savesUs >= WORTH * wall)
  const rest = fixes.filter((fix) => !worth.includes(fix))
  return html`<section aria-labelledby="fixes-title">
    <h2 id="fixes-title">What to fix first</h2>
    ${
      worth.length === 0
        ? html`<p>Nothing here is worth fixing: no single cause takes ${percent(WORTH, 1)} of the time.</p>`
        : html`<p class="hint">
              All causes of lost time, whether they are one of the three taxes or not, with the most that each
              of them costs, as a share of wall; together, they never exceed wall. An estimate is an interval
              and is sorted by its middle. A fusion may save less than its cause costs.
            </p>
            <ol class="fixes">
              ${worth.map((fix) => fixItem(fix, wall, ranks.length))}
            </ol>`
    }
    ${
      rest.length === 0
        ? null
        : html`<details>
            <summary>${rest.length} smaller ${rest.length === 1 ? 'cause' : 'causes'}</summary>
            <ul class="fixes">
              ${rest.map((fix) => fixItem(fix, wall, ranks.length))}
            </ul>
          </details>`
    }
  </section>`
}

const fixItem = (fix: FixDocument, wall: number, ranks: number): Markup =>
  html`<li>
    <p class="fix">
      <b class="bound">${costOf(fix, wall)}</b>
      <span>${sentence(fix.what)}${fix.once ? html` <span class="badge">once</span>` : null}</span>
    </p>
    <p class="advice">${sentence(fix.advice)}</p>
    <p class="hint">
      The cause costs at most ${timeOfUs(fix.savesUs / ranks)} per rank. ${sentence(fix.evidence)}
      ${
        fix.example === null
          ? null
          : jump('Show', `Show the longest one, on rank ${fix.example.rank}`, {
              from: fix.example.startUs,
              to: fix.example.startUs + fix.example.durUs,
              rank: fix.example.rank,
            })
      }
    </p>
    ${fix.command === null ? null : html`<p class="hint">Try it: <code>${fix.command}</code></p>`}
  </li>`

const sentence = (text: string): string =>
  text === '' ? '' : `${text[0].toUpperCase()}${text.slice(1)}${/[.!?…]$/.test(text) ? '' : '.'}`

const partTitles: Readonly<Record<string, string>> = {
  dispatch: 'Dispatch: the host was in operators and launches',
  hostBlocked: 'Host blocked: the host waited for the device',
  hostAbsent: 'Host absent: the host was in neither operators nor launches',
  unattributed: 'Unattributed: the launch of the next work was not recorded',
}

/** The number of host activities that are shown per category of idle time. */
const ACTIVITIES = 10

/** Writes the section about the host's activities in idle time, summed over ranks. */
export function hostSection({ host }: AuditDocument): Markup {
  if (host === undefined || host.length === 0) return html``
  const parts = [...new Set(host.map(({ part }) => part))]
  return html`<section aria-labelledby="host-title">
    <h2 id="host-title">What the host did while devices were idle</h2>
    ${parts.map((part) =>
      hostTable(
        part,
        host.filter((one) => one.part === part),
      ),
    )}
  </section>`
}

function hostTable(part: string, host: readonly HostDocument[]): Markup {
  type Row = HostDocument['activities'][number]
  const rows = new Map<string, { -readonly [K in keyof Row]: Row[K] }>()
  for (const { activities } of host)
    for (const one of activities) {
      const key = JSON.stringify([one.activity, one.name, one.inside])
      const known = rows.get(key)
      if (!known) rows.set(key, { ...one })
      else {
        known.us += one.us
        known.count += one.count
        known.longestUs = Math.max(known.longestUs, one.longestUs)
      }
    }
  const all = sum(host, ({ us }) => us)
  const shown = [...rows.values()].sort((a, b) => b.us - a.us).slice(0, ACTIVITIES)
  const left = all - sum(shown, ({ us }) => us)
  return html`<h3>${partTitles[part] ?? part} (${timeOfUs(all)})</h3>
    ${scroll(
      partTitles[part] ?? part,
      html`<table>
        <thead>
          <tr>
            <th scope="col">Activity</th>
            <th scope="col" class="number">Share</th>
            <th scope="col" class="number">Time</th>
            <th scope="col" class="number">Times</th>
            <th scope="col" class="number">Longest</th>
          </tr>
        </thead>
        <tbody>
          ${shown.map(
            (row) =>
              html`<tr>
                <th scope="row"><code>${observed(row)}</code></th>
                <td class="number">${percent(row.us, all)}</td>
                <td class="number">${timeOfUs(row.us)}</td>
                <td class="number">${count(row.count)}</td>
                <td class="number">${timeOfUs(row.longestUs)}</td>
              </tr>`,
          )}
          ${
            left > all / 1000
              ? html`<tr>
                  <th scope="row">everything else</th>
                  <td class="number">${percent(left, all)}</td>
                  <td class="number">${timeOfUs(left)}</td>
                  <td class="number">–</td>
                  <td class="number">–</td>
                </tr>`
              : null
          }
        </tbody>
      </table>`,
    )}`
}

/** The number of kernels, and of operators, that are shown. */
const KERNELS = 25

export function workSection({ kernels, operators }: AuditDocument): Markup {
  if (kernels === undefined || operators === undefined) return html``
  return html`<section aria-labelledby="work-title">
    <h2 id="work-title">Kernels and operators</h2>
    <p class="hint">
      Device time, summed over ranks; shares of wall. The launch latency is the time from the start of the
      launch call to the start of the work, which includes waiting for earlier work. --csv writes all rows.
    </p>
    <h3>Kernels</h3>
    ${workTable('Kernels', kernels)}
    ${
      operators.length === 0
        ? null
        : html`<h3>Operators</h3>
            ${workTable('Operators', operators)}`
    }
  </section>`
}

function workTable(label: string, rows: readonly WorkDocument[]): Markup {
  const rest = rows.slice(KERNELS)
  return html`${scroll(
    label,
    html`<table>
      <thead>
        <tr>
          <th scope="col">Name</th>
          <th scope="col" class="number">Time</th>
          <th scope="col" class="number">Share</th>
          <th scope="col" class="number">Calls</th>
          <th scope="col" class="number">Mean</th>
          <th scope="col" class="number">Longest</th>
          <th scope="col" class="number">Launch latency</th>
          <th scope="col" class="number">Least latency</th>
        </tr>
      </thead>
      <tbody>
        ${rows.slice(0, KERNELS).map(
          (row) =>
            html`<tr>
              <th scope="row">${kernelName(row.name || '(no name)')}</th>
              <td class="number">${timeOfUs(row.us)}</td>
              <td class="number">${row.pct.toFixed(1)} %</td>
              <td class="number">${count(row.calls)}</td>
              <td class="number">${timeOfUs(row.us / row.calls)}</td>
              <td class="number">${timeOfUs(row.longestUs)}</td>
              <td class="number">${row.latencyUs === null ? '–' : timeOfUs(row.latencyUs)}</td>
              <td class="number">${row.leastLatencyUs === null ? '–' : timeOfUs(row.leastLatencyUs)}</td>
            </tr>`,
        )}
      </tbody>
    </table>`,
  )}
  ${
    rest.length === 0
      ? null
      : html`<p class="hint">
          ${count(rest.length)} more, which take ${timeOfUs(sum(rest, ({ us }) => us))} together, are in the
          CSV file.
        </p>`
  }`
}

/** The number of rows of collectives that are shown. */
const COLLECTIVES = 30

export function bandwidthSection({ bandwidths }: AuditDocument): Markup {
  if (bandwidths === undefined || bandwidths.length === 0) return html``
  return html`<section aria-labelledby="bandwidth-title">
    <h2 id="bandwidth-title">Collectives and their bandwidth</h2>
    <p class="hint">
      As nccl-tests defines them: size over time, and the bandwidth that each link carries. The time is the
      median from the arrival of the last rank to the end, so waiting does not count. The link is that of the
      device in one direction, if its name states it and the group is within one machine.
    </p>
    ${scroll(
      'Collectives and their bandwidth',
      html`<table>
        <thead>
          <tr>
            <th scope="col">Collective</th>
            <th scope="col">Group</th>
            <th scope="col" class="number">Ranks</th>
            <th scope="col" class="number">Count</th>
            <th scope="col" class="number">Size</th>
            <th scope="col" class="number">Median time</th>
            <th scope="col" class="number">Algorithm bandwidth</th>
            <th scope="col" class="number">Bus bandwidth</th>
            <th scope="col" class="number">Of the link</th>
          </tr>
        </thead>
        <tbody>
          ${bandwidths.slice(0, COLLECTIVES).map(bandwidthRow)}
        </tbody>
      </table>`,
    )}
    ${bandwidths.length > COLLECTIVES ? html`<p class="hint">${count(bandwidths.length - COLLECTIVES)} more rows are in the CSV file.</p>` : null}
  </section>`
}

const rate = (gigabytes: number | null): string =>
  gigabytes === null ? 'unknown' : `${gigabytes.toPrecision(3)} GB/s`

const bandwidthRow = (row: BandwidthDocument): Markup =>
  html`<tr>
    <th scope="row">${row.kind}${row.dtype === null ? null : html` <small>${row.dtype}</small>`}</th>
    <td>${row.group === null ? '–' : shorten(row.group, 32)}</td>
    <td class="number">${row.ranks === null ? 'unknown' : count(row.ranks)}</td>
    <td class="number">${count(row.count)}</td>
    <td class="number">${row.bytes === null ? 'unknown' : bytes(row.bytes)}</td>
    <td class="number">${timeOfUs(row.medianUs)}</td>
    <td class="number">${rate(row.algorithmGBs)}</td>
    <td class="number">${rate(row.busGBs)}</td>
    <td class="number">
      ${row.busGBs === null || row.linkGBs === null ? '–' : `${percent(row.busGBs, row.linkGBs)} of ${row.linkGBs.toPrecision(3)} GB/s`}
    </td>
  </tr>`
