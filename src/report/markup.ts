/**
 * Builds HTML from templates. Every inserted value is escaped unless it is already markup, so text from a trace can
 * never become an element or an attribute.
 */

export class Markup {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Content = Markup | string | number | null | readonly (Markup | string)[]

const references: Readonly<Record<string, string>> = {
  '&': '&amp;',
  '<': '&lt;',
  '>': '&gt;',
  '"': '&quot;',
  "'": '&#39;',
}

export const escape = (text: string): string => text.replace(/[&<>"']/g, (character) => references[character])

const render = (content: Content): string => {
  if (content === null) return ''
  if (content instanceof Markup) return content.text
  if (typeof content === 'string' || typeof content === 'number') return escape(String(content))
  return content.map(render).join('')
}

export function html(strings: TemplateStringsArray, ...contents: readonly Content[]): Markup {
  let text = strings[0]
  for (const [i, content] of contents.entries()) text += render(content) + strings[i + 1]
  return new Markup(text)
}

/** A table that scrolls horizontally if it is wider than the page. */
export const scroll = (label: string, table: Markup): Markup =>
  html`<div class="scroll" tabindex="0" role="region" aria-label="${label}">${table}</div>`
