/** The headline of a report: one number, then the sentence that it begins. Pages set the number larger; a terminal prints one line. */
import { html, type Markup } from './markup.ts'

export interface Headline {
  /** With its unit, such as `31.2 %` or `1.25×`; empty where there is nothing to count. */
  readonly figure: string
  /** Begins in lower case unless `figure` is empty. */
  readonly text: string
}

export const sentenceOf = ({ figure, text }: Headline): string => (figure === '' ? text : `${figure} ${text}`)

export const headlineMarkup = ({ figure, text }: Headline): Markup =>
  html`<h1>${figure === '' ? null : html`<span class="figure">${figure}</span> `}${text}</h1>`
