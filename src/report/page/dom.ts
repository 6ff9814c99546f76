/**
 * Creates HTML elements and the tooltip. Text is only ever inserted as text, so names from traces cannot become markup.
 */
import type { Description } from '../description.ts'

export type { Description }

export function element<K extends keyof HTMLElementTagNameMap>(
  tag: K,
  attributes: Readonly<Record<string, string>> = {},
  ...children: readonly (Node | string)[]
): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...children)
  return made
}

/** Returns an element that the report's markup contains. */
export function byId<T extends HTMLElement>(id: string): T {
  const found = document.getElementById(id)
  if (found === null) throw new Error(`the page has no element ${id}`)
  return found as T
}

export function describe({ title, lines }: Description): HTMLElement[] {
  const list = element('dl')
  for (const [label, value] of lines) list.append(element('dt', {}, label), element('dd', {}, value))
  return [element('p', { class: 'name' }, title), list]
}

/**
 * The tooltip, which follows the pointer. The contents of the tooltip are also in the panel and in the tables, for
 * readers without a pointer.
 */
export class Tooltip {
  private readonly box = element('div', { class: 'tooltip', 'aria-hidden': 'true' })

  constructor() {
    document.body.append(this.box)
  }

  show(description: Description, x: number, y: number): void {
    this.box.replaceChildren(...describe(description))
    this.box.style.display = 'block'
    const { width, height } = this.box.getBoundingClientRect()
    const [right, bottom] = [document.documentElement.clientWidth, document.documentElement.clientHeight]
    const left = x + 14 + width > right ? Math.max(4, x - 14 - width) : x + 14
    const top = y + 16 + height > bottom ? Math.max(4, y - 12 - height) : y + 16
    this.box.style.left = `${Math.min(left, Math.max(4, right - width - 4))}px`
    this.box.style.top = `${top}px`
  }

  hide(): void {
    this.box.style.display = 'none'
  }
}
