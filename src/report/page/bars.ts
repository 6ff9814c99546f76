/**
 * Draws the tax bars: one stacked bar per rank or per step, all on one scale. The locality tax is part of busy time, so
 * it is drawn as a mark inside the compute segment of a bar and not as a separate segment.
 */
import { categories, type CategoryName } from '../categories.ts'
import type { RankDocument } from '../document.ts'
import { bytes, percent } from '../format.ts'
import type { PackedHeader } from '../packed.ts'
import { timeOfUs } from '../units.ts'
import { culpritBadge, culpritFirst } from '../culprit.ts'
import { byId, element, type Description } from './dom.ts'

interface Bar {
  readonly label: string
  readonly badge: string | null
  readonly figures: RankDocument
}

/** The lengths of the segments of a bar, in microseconds. The segments of a bar add up to its wall time. */
export function pieces({ computeUs, taxes, other }: RankDocument): Record<CategoryName, number> {
  return {
    compute: computeUs,
    launch: taxes.launchUs,
    wait: taxes.waitUs ?? 0,
    transfer: taxes.exposedTransferUs ?? 0,
    unsplit: other.unsplitCommUs,
    copy: other.exposedCopyUs,
    other:
      other.hostBlockedUs +
      other.hostAbsentUs +
      other.dependencyUs +
      other.unattributedUs +
      (other.vacantUs ?? 0),
  }
}

const LOCALITY = 'locality'
type Chosen = CategoryName | typeof LOCALITY

export class Bars {
  private readonly header: PackedHeader
  private readonly rows = byId('bars')
  private readonly legend = byId('legend')
  private readonly which = byId<HTMLSelectElement>('bars-which')
  private by: 'rank' | 'step' = 'rank'
  private share = false
  private pinned: Chosen | null = null
  /**
   * Called if the user chooses a step. The argument `rank` is null unless the bars show the steps of one rank. The
   * argument `step` is null if the user chooses the whole window.
   */
  chosen: (step: number | null, rank: number | null) => void = () => undefined

  constructor(header: PackedHeader) {
    this.header = header
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
    this.which.addEventListener('change', () => {
      this.draw()
      if (this.by === 'rank')
        this.chosen(this.which.value === 'whole' ? null : Number(this.which.value), null)
    })
    this.rows.addEventListener('click', ({ target }) => this.choose(target))
    if (header.steps.length === 0) byId('bars-by').hidden = true
    // The Tab key reaches only one of the bars. The arrow keys move from bar to bar, since there may be hundreds of
    // bars.
    this.rows.addEventListener('keydown', (event) => {
      if (event.key === 'Enter') this.choose(event.target)
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key]
      const bars = [...this.rows.querySelectorAll<HTMLElement>('.bar')]
      const now = bars.indexOf(document.activeElement as HTMLElement)
      const next = step === undefined || now < 0 ? undefined : bars[now + step]
      if (next === undefined) return
      event.preventDefault()
      bars[now].tabIndex = -1
      next.tabIndex = 0
      next.focus()
    })
    this.offer()
    this.drawLegend()
    this.draw()
  }

  /**
   * Fills the selection list. The selection list contains steps if each bar shows a rank, and ranks if each bar shows a
   * step.
   */
  private offer(): void {
    const { figures, steps, culprit } = this.header
    const options =
      this.by === 'rank'
        ? [['whole', 'Whole window'], ...steps.map(({ name }, i) => [String(i), name])]
        : culpritFirst(figures, culprit).map(({ rank }) => [String(rank), `Rank ${rank}`])
    this.which.replaceChildren(...options.map(([value, text]) => element('option', { value }, text)))
    this.which.setAttribute('aria-label', this.by === 'rank' ? 'Step' : 'Rank')
    byId('bars-which-label').textContent = this.by === 'rank' ? 'of' : 'of rank'
  }

  private chosenBars(): Bar[] {
    const { figures, steps, culprit } = this.header
    if (this.by === 'rank') {
      const from = this.which.value === 'whole' ? figures : steps[Number(this.which.value)].ranks
      return culpritFirst(from, culprit).map((one) => ({
        label: `Rank ${one.rank}`,
        badge: one.rank === culprit ? culpritBadge : null,
        figures: one,
      }))
    }
    const rank = Number(this.which.value)
    return steps.flatMap(({ name, ranks }) => {
      const found = ranks.find((one) => one.rank === rank)
      return found ? [{ label: name, badge: null, figures: found }] : []
    })
  }

  /** Chooses the step whose bar contains the given element. */
  private choose(target: EventTarget | null): void {
    const row = target instanceof Element ? target.closest<HTMLElement>('#bars > li') : null
    if (row === null || this.by !== 'step') return
    const label = this.chosenBars()[[...this.rows.children].indexOf(row)]?.label
    const step = this.header.steps.findIndex(({ name }) => name === label)
    if (step >= 0) this.chosen(step, Number(this.which.value))
  }

  private draw(): void {
    const bars = this.chosenBars()
    const longest = Math.max(1e-9, ...bars.map(({ figures }) => figures.wallUs))
    this.rows.replaceChildren(...bars.map((bar) => this.row(bar, this.share ? bar.figures.wallUs : longest)))
    const [first] = this.rows.querySelectorAll<HTMLElement>('.bar')
    if (first) first.tabIndex = 0
    else this.rows.append(element('li', {}, 'No figures for this choice.'))
    this.highlight(this.pinned)
  }

  private row({ label, badge, figures }: Bar, scale: number): HTMLElement {
    const parts = pieces(figures)
    const bar = element('div', { class: 'bar', role: 'img', tabindex: '-1' })
    const all: (readonly [string, string])[] = []
    for (const category of categories) {
      const us = parts[category.name]
      if (us <= 0) continue
      const amount = `${timeOfUs(us)} (${percent(us, figures.wallUs)} of ${timeOfUs(figures.wallUs)})`
      const finer = breakdown(category.name, figures)
      all.push([category.label, `${timeOfUs(us)} (${percent(us, figures.wallUs)})`], ...finer)
      const piece = element('span', { class: `piece is-${category.name}`, 'data-category': category.name })
      piece.style.width = `${(100 * us) / scale}%`
      explain(piece, {
        title: `${label}: ${category.label}`,
        lines: [['time', amount], ['meaning', category.meaning], ...finer],
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
      explain(mark, {
        title: `${label}: of which locality`,
        lines: [
          ['time', `${timeOfUs(localityUs[0])} to ${timeOfUs(localityUs[1])}, inside busy time`],
          ...(localityBytes === null ? [] : [['bytes', bytes(localityBytes)] as const]),
          ['meaning', 'bytes that one kernel writes to device memory for a later kernel to read back'],
        ],
      })
      bar.append(mark)
      all.push(['of which locality', `${timeOfUs(localityUs[0])} to ${timeOfUs(localityUs[1])}`])
    }
    const title = `${label}: ${timeOfUs(figures.wallUs)}`
    explain(bar, { title, lines: all })
    bar.setAttribute('aria-label', `${title}; ${all.map(([name, value]) => `${name} ${value}`).join(', ')}`)
    return element(
      'li',
      {},
      element(
        'span',
        { class: 'bar-label' },
        label,
        ...(badge === null ? [] : [' ', element('span', { class: 'badge' }, badge)]),
      ),
      bar,
      element('span', { class: 'bar-value', 'data-wall': String(figures.wallUs) }, timeOfUs(figures.wallUs)),
    )
  }

  private drawLegend(): void {
    const shown = categories.filter(({ name }) =>
      this.header.figures.some((figures) => pieces(figures)[name] > 0),
    )
    const entry = (name: Chosen, label: string, meaning: string): HTMLElement => {
      const button = element(
        'button',
        { type: 'button', 'aria-pressed': 'false', 'data-category': name },
        element('span', { class: `swatch is-${name}`, 'aria-hidden': 'true' }),
        label,
      )
      explain(button, { title: label, lines: [['meaning', meaning]] })
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
        ? [
            entry(
              LOCALITY,
              'of which locality',
              'the locality tax is part of busy time, between its lower and its upper bound',
            ),
          ]
        : []),
    )
  }

  /** Highlights one category in all bars and shows its value at the end of each bar. */
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

/** Attaches a tooltip to an element (explain.ts). */
const explain = (target: HTMLElement, description: Description): void =>
  target.setAttribute('data-tip', JSON.stringify(description))

/** Returns the times into which a category is divided, or an empty list if the category is not divided. */
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
        ['vacant processors', other.vacantUs ?? 0],
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
