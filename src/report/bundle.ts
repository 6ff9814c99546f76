/**
 * The script and the style of a page. A built Arke has them beside this file; from source they are bundled on the first
 * use and kept.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { fileURLToPath } from 'node:url'
import type * as Esbuild from 'esbuild'

export interface PageFiles {
  readonly script: string
  readonly style: string
}

/** The audit's page, and that of measured runs. */
export type PageName = 'page' | 'runs'

const kept = new Map<PageName, PageFiles>()

export function pageFiles(name: PageName): PageFiles {
  let files = kept.get(name)
  if (files === undefined)
    kept.set(name, (files = import.meta.url.endsWith('.ts') ? bundle(name) : built(name)))
  return files
}

function built(name: PageName): PageFiles {
  const read = (ending: string): string =>
    readFileSync(new URL(`./${name}.${ending}`, import.meta.url), 'utf8')
  return { script: read('js'), style: read('css') }
}

/** As `npm run build` does it. */
function bundle(name: PageName): PageFiles {
  const { buildSync } = createRequire(import.meta.url)('esbuild') as typeof Esbuild
  const { outputFiles } = buildSync({
    entryPoints: ['ts', 'css'].map((ending) =>
      fileURLToPath(new URL(`./page/${name}.${ending}`, import.meta.url)),
    ),
    bundle: true,
    minify: true,
    format: 'iife',
    target: 'es2022',
    charset: 'utf8',
    legalComments: 'none',
    outdir: 'out',
    write: false,
  })
  const output = (ending: string): string => outputFiles.find(({ path }) => path.endsWith(ending))?.text ?? ''
  return { script: output('.js'), style: output('.css') }
}
