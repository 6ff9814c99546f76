/**
 * Writes the frame that all HTML pages have in common. A page is one self-contained file with its style, its script and
 * its compressed data. A page loads nothing from other files or servers, and its content security policy enforces this.
 * Equal input yields equal bytes of the page.
 */
import { gzipSync } from 'node:zlib'
import { pageFiles, type PageName } from './bundle.ts'
import { categories } from './categories.ts'
import { html, type Markup } from './markup.ts'

export interface PageHead {
  readonly name: PageName
  readonly title: string
  /** The version of Arke that writes the page. */
  readonly arke: string
}

/** Yields the text of the HTML file in chunks, including the chunks of the body. */
export function* writePage(
  { name, title, arke }: PageHead,
  body: Iterable<Markup | string>,
): Generator<string, void> {
  const { script, sha256, style } = pageFiles(name)
  yield '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
  yield `<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:; script-src 'sha256-${sha256}'">\n`
  yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n<meta name="color-scheme" content="light dark">\n'
  yield html`<meta name="generator" content="arke ${arke}" /><link rel="icon" href="data:," />
    <title>${title}</title> `.text
  yield `<style>${colours()}${style}</style>\n</head>\n<body>\n`
  for (const piece of body) yield typeof piece === 'string' ? piece : piece.text
  yield `<script>${script}</script>\n</body>\n</html>\n`
}

/** A block of data for the page's script, identified by `id`. */
export function dataBlock(id: string, bytes: Uint8Array): string {
  const packed = gzipSync(bytes, { level: 6 })
  // The tenth byte of the gzip header names the operating system. This byte is overwritten, so that the output does not
  // depend on the operating system.
  packed[9] = 255
  return `<script type="application/octet-stream" id="${id}">${packed.toString('base64')}</script>\n`
}

const colours = (): string =>
  `:root{${categories.map(({ name, light, dark }) => `--${name}:light-dark(${light},${dark})`).join(';')}}` +
  categories.map(({ name }) => `.is-${name}{background-color:var(--${name})}`).join('')

/** The markup of the zoom buttons, which page/steer.ts handles. */
export const zoomButtons: Markup = html`<span class="buttons">
  <button type="button" id="zoom-in" aria-label="Zoom in" title="Zoom in (+ or w)">+</button>
  <button type="button" id="zoom-out" aria-label="Zoom out" title="Zoom out (- or s)">−</button>
  <button type="button" id="zoom-fit" title="Show all (0)">Fit</button>
  <button type="button" id="pan-left" aria-label="Earlier" title="Earlier (a)">←</button>
  <button type="button" id="pan-right" aria-label="Later" title="Later (d)">→</button>
</span>`
