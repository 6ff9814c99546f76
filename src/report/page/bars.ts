/**
 * The tax bars: one stacked bar a rank or a step, all on one scale. What locality costs lies inside busy time, so it
 * is a mark in the bar's compute and no piece of its own.
 */
import { categories, type CategoryName } from '../categories.ts'
import type { RankDocument } from '../document.ts'
import { bytes, percent } from '../format.ts'
import type { PackedHeader } from '../packed.ts'
import { timeOfUs } from '../units.ts'
import { byId, element, type Description, type Tooltip } from './dom.ts'

interface Bar {
  readonly label: string
  readonly figures: RankDocument
}

/** The pieces of a bar in microseconds; they add up to its wall time. */
export function pieces({ computeUs, taxes, other }: RankDocument): Record<CategoryName, number> {
  return {
    compute: computeUs,
    launch: taxes.launchUs,
    wait: taxes.waitUs ?? 0,
    transfer: taxes.exposedTransferUs ?? 0,
    unsplit: other.unsplitCommUs,
    copy: other.exposedCopyUs,
    other: other.hostBlockedUs + other.hostAbsentUs + other.dependencyUs + other.unattributedUs,
  }
}

const LOCALITY = 'locality'
type Chosen = CategoryName | typeof LOCALITY

export class Bars {
  private readonly header: PackedHeader
  private readonly tooltip: Tooltip
  private readonly rows = byId('bars')
  private readonly legend = byId('legend')
  private readonly which = byId<HTMLSelectElement>('bars-which')
  private by: 'rank' | 'step' = 'rank'
  private share = false
  private pinned: Chosen | null = null

  constructor(header: PackedHeader, tooltip: Tooltip) {
    this.header = header
    this.tooltip = tooltip
    for (const input of document.querySelectorAll<HTMLInputElement>('input[name="bars-by"]'))
      input.addEventListener('change', () => {
        this.by = input.value === 'step' ? 'step' : 'rank'
        this.offer()
        this.draw()
      })
    for (const input of document.querySelectorAll<HTMLInputElement>('input[name="bars-scale"]'))
      input.addEventListener('change', () => {
        this.share = input.value === 'share'
        this.draw()
      })
    this.which.addEventListener('change', () => this.draw())
    if (header.steps.length === 0) byId('bars-by').hidden = true
    this.offer()
    this.drawLegend()
    this.draw()
  }

  /** What can be chosen: a step where the bars are ranks, a rank where they are steps. */
  private offer(): void {
    const { figures, steps } = this.header
    const options =
      this.by === 'rank'
        ? [['whole', 'Whole window'], ...steps.map(({ name }, i) => [String(i), name])]
        : figures.map(({ rank }) => [String(rank), `Rank ${rank}`])
    this.which.replaceChildren(...options.map(([value, text]) => element('option', { value }, text)))
    this.which.setAttribute('aria-label', this.by === 'rank' ? 'Step' : 'Rank')
    byId('bars-which-label').textContent = this.by === 'rank' ? 'of' : 'of rank'
  }

  private chosenBars(): Bar[] {
    const { figures, steps } = this.header
    if (this.by === 'rank') {
      const from = this.which.value === 'whole' ? figures : steps[Number(this.which.value)].ranks
      return from.map((one) => ({ label: `Rank ${one.rank}`, figures: one }))
    }
    const rank = Number(this.which.value)
    return steps.flatMap(({ name, ranks }) => {
      const found = ranks.find((one) => one.rank === rank)
      return found ? [{ label: name, figures: found }] : []
    })
  }

  private draw(): void {
    const bars = this.chosenBars()
    const longest = Math.max(1e-9, ...bars.map(({ figures }) => figures.wallUs))
    this.rows.replaceChildren(...bars.map((bar) => this.row(bar, this.share ? bar.figures.wallUs : longest)))
    if (bars.length === 0) this.rows.append(element('li', {}, 'No figures for this choice.'))
    this.highlight(this.pinned)
  }

  private row({ label, figures }: Bar, scale: number): HTMLElement {
    const parts = pieces(figures)
    const bar = element('div', { class: 'bar', 'aria-hidden': 'true' })
    const said: string[] = []
    for (const category of categories) {
      const us = parts[category.name]
      if (us <= 0) continue
      said.push(`${category.label} ${timeOfUs(us)}`)
      const piece = element('span', { class: `piece is-${category.name}`, 'data-category': category.name })
      piece.style.width = `${(100 * us) / scale}%`
      this.explain(piece, {
        title: `${label}: ${category.label}`,
        lines: [
          ['time', `${timeOfUs(us)} (${percent(us, figures.wallUs)} of ${timeOfUs(figures.wallUs)})`],
          ['meaning', category.meaning],
          ...breakdown(category.name, figures),
        ],
      })
      bar.append(piece)
    }
    const { localityUs, localityBytes } = figures.taxes
    if (localityUs !== null && localityUs[1] > 0) {
      const mark = element('span', { class: 'locality', 'data-category': LOCALITY })
      mark.style.width = `${(100 * localityUs[1]) / scale}%`
      const sure = element('span')
      sure.style.width = `${(100 * localityUs[0]) / localityUs[1]}%`
      mark.append(sure)
      this.explain(mark, {
        title: `${label}: of which locality`,
        lines: [
          ['time', `${timeOfUs(localityUs[0])} to ${timeOfUs(localityUs[1])}, inside busy time`],
          ...(localityBytes === null ? [] : [['bytes', bytes(localityBytes)] as const]),
          ['meaning', 'bytes that one kernel writes to device memory for the next to read back'],
        ],
      })
      bar.append(mark)
      said.push(`of which locality ${timeOfUs(localityUs[0])} to ${timeOfUs(localityUs[1])}`)
    }
    return element(
      'li',
      {},
      element('span', { class: 'bar-label' }, label),
      bar,
      element('span', { class: 'bar-value', 'data-wall': String(figures.wallUs) }, timeOfUs(figures.wallUs)),
      element('span', { class: 'visually-hidden' }, said.join(', ')),
    )
  }

  private explain(target: HTMLElement, description: Description): void {
    target.addEventListener('pointermove', (event) =>
      this.tooltip.show(description, event.clientX, event.clientY),
    )
    target.addEventListener('pointerdown', (event) =>
      this.tooltip.show(description, event.clientX, event.clientY),
    )
    target.addEventListener('pointerleave', () => this.tooltip.hide())
  }

  private drawLegend(): void {
    const shown = categories.filter(({ name }) =>
      this.header.figures.some((figures) => pieces(figures)[name] > 0),
    )
    const entry = (name: Chosen, label: string, meaning: string): HTMLElement => {
      const button = element(
        'button',
        { type: 'button', 'aria-pressed': 'false', title: meaning, 'data-category': name },
        element('span', { class: `swatch is-${name}`, 'aria-hidden': 'true' }),
        label,
      )
      button.addEventListener('pointerenter', (event) => {
        if (event.pointerType === 'mouse') this.highlight(name)
      })
      button.addEventListener('pointerleave', () => this.highlight(this.pinned))
      button.addEventListener('focus', () => this.highlight(name))
      button.addEventListener('blur', () => this.highlight(this.pinned))
      button.addEventListener('click', () => {
        this.pinned = this.pinned === name ? null : name
        for (const other of this.legend.querySelectorAll('button'))
          other.setAttribute('aria-pressed', String(other.dataset.category === this.pinned))
        this.highlight(this.pinned)
      })
      return element('li', {}, button)
    }
    this.legend.replaceChildren(
      ...shown.map(({ name, label, meaning }) => entry(name, label, meaning)),
      ...(this.header.figures.some(({ taxes }) => taxes.localityUs !== null)
        ? [entry(LOCALITY, 'of which locality', 'inside busy time: from the sure part to the most it can be')]
        : []),
    )
  }

  /** Shows one category in all bars, with its figures at their ends. */
  private highlight(name: Chosen | null): void {
    if (name === null) delete this.rows.dataset.only
    else this.rows.dataset.only = name
    const bars = this.chosenBars()
    for (const [i, value] of [...this.rows.querySelectorAll('.bar-value')].entries()) {
      const { figures } = bars[i]
      const { localityUs } = figures.taxes
      if (name === null) value.textContent = timeOfUs(figures.wallUs)
      else if (name === LOCALITY)
        value.textContent = localityUs === null ? 'unknown' : `≤ ${timeOfUs(localityUs[1])}`
      else {
        const us = pieces(figures)[name]
        value.textContent = `${timeOfUs(us)} · ${percent(us, figures.wallUs)}`
      }
    }
  }
}

/** The finer parts of a category that has some. */
function breakdown(name: CategoryName, { idle, other, taxes }: RankDocument): (readonly [string, string])[] {
  const some = (parts: readonly (readonly [string, number | null])[]): (readonly [string, string])[] =>
    parts.flatMap(([label, us]) => (us !== null && us > 0 ? [[label, timeOfUs(us)] as const] : []))
  switch (name) {
    case 'launch':
      return some([
        ['dispatch', idle.dispatchUs],
        ['gap', idle.gapUs],
      ])
    case 'wait':
      return some([['besides, under compute', taxes.hiddenWaitUs]])
    case 'other':
      return some([
        ['host blocked', other.hostBlockedUs],
        ['host absent', other.hostAbsentUs],
        ['dependency', other.dependencyUs],
        ['unattributed', other.unattributedUs],
      ])
    case 'compute':
    case 'transfer':
    case 'unsplit':
    case 'copy':
      return []
    default:
      return name satisfies never
  }
}
