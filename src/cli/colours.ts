/**
 * Adds colours to text for a terminal. Colours are off if the output is not a terminal, if NO_COLOR is set
 * (https://no-color.org), and if TERM is `dumb`.
 */
import { styleText } from 'node:util'
import { plain, type Style } from '../report/style.ts'

type Colour = Parameters<typeof styleText>[0]

const coloured = (colour: Colour) => (text: string) => styleText(colour, text, { validateStream: false })

const colours: Style = {
  heading: coloured('bold'),
  good: coloured('green'),
  bad: coloured('red'),
  warning: coloured('yellow'),
  faint: coloured('dim'),
}

export function styleFor(
  stream: { readonly isTTY?: boolean },
  { NO_COLOR = '', TERM }: Readonly<Record<string, string | undefined>> = process.env,
): Style {
  return stream.isTTY && NO_COLOR === '' && TERM !== 'dumb' ? colours : plain
}
