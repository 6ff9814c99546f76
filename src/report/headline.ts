/**
 * The headline of a report consists of a number and the sentence that begins with it. Pages show the number of the
 * headline in larger type; the terminal prints the headline as one line.
 */
import { html, type Markup } from './markup.ts'

export interface Headline {
  /** The number with its unit, such as `31.2 %` or `1.25×`, or an empty text if there is no number. */
  readonly figure: string
  /** The headline's sentence without the number. The text begins in lower case unless `figure` is empty. */
  readonly text: string
}

export const sentenceOf = ({ figure, text }: Headline): string => (figure === '' ? text : `${figure} ${text}`)

export const headlineMarkup = ({ figure, text }: Headline): Markup =>
  html`<h1>${figure === '' ? null : html`<span class="figure">${figure}</span> `}${text}</h1>`
