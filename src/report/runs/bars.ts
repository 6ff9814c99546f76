/**
 * Draws tax bars, which divide the time of each variant into categories, with all variants of a benchmark point on one
 * scale.
 */
import { runPartNames, type Picture, type Point, type RunLedger } from '../../runs/results.ts'
import type { Description } from '../description.ts'
import { bytes, percent } from '../format.ts'
import { html, type Markup } from '../markup.ts'
import { time } from '../units.ts'
import { categoryOf, partLabels } from './parts.ts'

/** The minimum share of the width that a segment of a bar must have to show its name. */
const NAMED = 0.13

export function taxBars({ variants }: Point): Markup {
  const longest = Math.max(...variants.map(({ ledger }) => ledger.wall))
  const longestPicture = Math.max(...variants.map(({ picture }) => picture.wall))
  return html`<h4>Where the time went</h4>
    <ul class="bars">
      ${variants.map(({ variant, ledger }) => bar(variant, ledger, longest))}
    </ul>
    <details>
      <summary>Each rank, in the executions that are drawn above</summary>
      <ul class="bars">
        ${variants.flatMap(({ variant, picture }) =>
          picture.ranks.map(({ rank, ledger }) => bar(`${variant}, rank ${rank}`, ledger, longestPicture)),
        )}
      </ul>
    </details>`
}

/** The bars of the ranks of several executions, all on one scale. */
export function rankBars(pictures: readonly (readonly [name: string, picture: Picture])[]): Markup {
  const longest = Math.max(...pictures.map(([, { wall }]) => wall))
  return html`<h4>Where the time went</h4>
    <ul class="bars">
      ${pictures.flatMap(([name, { ranks }]) =>
        ranks.map(({ rank, ledger }) =>
          bar(pictures.length > 1 ? `${name}, rank ${rank}` : `rank ${rank}`, ledger, longest),
        ),
      )}
    </ul>`
}

function bar(label: string, { wall, parts, locality }: RunLedger, scale: number): Markup {
  const shown = runPartNames.filter((part) => parts[part] > 0)
  const description: Description = {
    title: `${label}: ${time(wall)}`,
    lines: [
      ...shown.map(
        (part) => [partLabels[part], `${time(parts[part])} (${percent(parts[part], wall)})`] as const,
      ),
      ['of useful: locality', localityText(locality)],
    ],
  }
  return html`<li>
    <span class="bar-label">${label}</span>
    <div
      class="bar"
      tabindex="0"
      role="img"
      aria-label="${description.title}; ${description.lines.map(([name, value]) => `${name} ${value}`).join(', ')}"
      data-tip="${JSON.stringify(description)}"
    >
      ${shown.map(
        (part) =>
          html`<span
            class="piece is-${categoryOf(part)}"
            data-part="${part}"
            style="width:${((100 * parts[part]) / scale).toFixed(3)}%"
            >${parts[part] / scale > NAMED ? html`<span class="inside">${partLabels[part]} ${((100 * parts[part]) / wall).toFixed(0)} %</span>` : null}</span
          >`,
      )}
      ${
        locality.time[1] > 0
          ? html`<span
              class="locality"
              style="width:${((100 * Math.min(locality.time[1], parts.useful)) / scale).toFixed(3)}%"
              ><span style="width:${((100 * locality.time[0]) / locality.time[1]).toFixed(3)}%"></span
            ></span>`
          : null
      }
    </div>
    <span class="bar-value">${time(wall)}</span>
    <span class="bar-more">of useful: locality ${localityText(locality)}</span>
  </li>`
}

export const localityText = ({ bytes: moved, time: [low, high] }: RunLedger['locality']): string =>
  moved === 0 ? 'none' : `${bytes(moved)}, ${low === 0 ? 'up' : time(low)} to ${time(high)}`
