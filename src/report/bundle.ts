/**
 * The script and the style of a page, as they stand in it. A built Arke has them in a file; from source they are bundled on the
 * first use and kept.
 */
import type * as Crypto from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type * as Esbuild from 'esbuild'
import { isBuilt, ownFile } from '../files.ts'

export interface PageFiles {
  readonly script: string
  /** Of the script, by which the page's policy lets it run. */
  readonly sha256: string
  readonly style: string
}

/** The audit's page, and that of measured runs. */
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
  // Needed from source only, and slow to load.
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
  // A script's text ends at its first end tag, wherever that stands.
  const script = output('.js').replace(/<\/(script)/gi, '<\\/$1')
  return { script, sha256: createHash('sha256').update(script).digest('base64'), style: output('.css') }
}
