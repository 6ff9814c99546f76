/**
 * The script and the style that are embedded in a page. A built Arke reads the script and the style from a file. If
 * Arke runs from source, the script and the style are bundled on first use and cached.
 */
import type * as Crypto from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type * as Esbuild from 'esbuild'
import { isBuilt, ownFile } from '../files.ts'

export interface PageFiles {
  readonly script: string
  /** The hash of the script, which the page's content security policy allows. */
  readonly sha256: string
  readonly style: string
}

/** The kinds of pages: one for the audit, and one for measured runs. */
export type PageName = 'page' | 'runs'

const kept = new Map<PageName, PageFiles>()

export function pageFiles(name: PageName): PageFiles {
  let files = kept.get(name)
  if (files === undefined) kept.set(name, (files = isBuilt ? built(name) : bundle(name)))
  return files
}

const built = (name: PageName): PageFiles =>
  JSON.parse(readFileSync(fileURLToPath(ownFile(`report/${name}.json`)), 'utf8')) as PageFiles

function bundle(name: PageName): PageFiles {
  // The modules that bundle the files load slowly and are needed only if Arke runs from source.
  const require = createRequire(import.meta.url)
  const { buildSync } = require('esbuild') as typeof Esbuild
  const { createHash } = require('node:crypto') as typeof Crypto
  const { outputFiles } = buildSync({
    entryPoints: ['ts', 'css'].map((ending) => fileURLToPath(ownFile(`report/page/${name}.${ending}`))),
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    outdir: 'out',
    write: false,
  })
  const output = (ending: string): string =>
    outputFiles.find(({ path }) => path.endsWith(ending))?.text.trim() ?? ''
  // In HTML, a script ends at the first end tag, even if the tag is inside a string, so the tag is escaped.
  const script = output('.js').replace(/<\/(script)/gi, '<\\/$1')
  return { script, sha256: createHash('sha256').update(script).digest('base64'), style: output('.css') }
}
