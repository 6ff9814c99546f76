/**
 * What every page of ours is made of: one self-contained file with its style, its script and its data, compressed.
 * Nothing is loaded from anywhere, which the page's own policy enforces; the same input gives the same bytes.
 */
import { gzipSync } from 'node:zlib'
import { pageFiles, type PageName } from './bundle.ts'
import { categories } from './categories.ts'
import { html, type Markup } from './markup.ts'

export interface PageHead {
  readonly name: PageName
  readonly title: string
  /** The version that writes it. */
  readonly arke: string
}

/** The file in pieces, around those of its body. */
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

/** Data for the page's script, by its name. */
export function dataBlock(id: string, bytes: Uint8Array): string {
  const packed = gzipSync(bytes, { level: 6 })
  // The system that compressed is named in the header's tenth byte; the output must not depend on it.
  packed[9] = 255
  return `<script type="application/octet-stream" id="${id}">${packed.toString('base64')}</script>\n`
}

const colours = (): string =>
  `:root{${categories.map(({ name, light, dark }) => `--${name}:light-dark(${light},${dark})`).join(';')}}` +
  categories.map(({ name }) => `.is-${name}{background-color:var(--${name})}`).join('')

/** What page/steer.ts gives a meaning to. */
export const zoomButtons: Markup = html`<span class="buttons">
  <button type="button" id="zoom-in" aria-label="Zoom in" title="Zoom in (+ or w)">+</button>
  <button type="button" id="zoom-out" aria-label="Zoom out" title="Zoom out (- or s)">−</button>
  <button type="button" id="zoom-fit" title="Show all (0)">Fit</button>
  <button type="button" id="pan-left" aria-label="Earlier" title="Earlier (a)">←</button>
  <button type="button" id="pan-right" aria-label="Later" title="Later (d)">→</button>
</span>`
