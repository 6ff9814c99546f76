/**
 * The page's script and style. A built Arke has them beside this file; from source they are bundled on the first
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

let kept: PageFiles | undefined

export function pageFiles(): PageFiles {
  kept ??= import.meta.url.endsWith('.ts') ? bundle() : built()
  return kept
}

function built(): PageFiles {
  const read = (name: string): string => readFileSync(new URL(name, import.meta.url), 'utf8')
  return { script: read('./page.js'), style: read('./page.css') }
}

/** As `npm run build` does it. */
function bundle(): PageFiles {
  const { buildSync } = createRequire(import.meta.url)('esbuild') as typeof Esbuild
  const { outputFiles } = buildSync({
    entryPoints: ['page.ts', 'page.css'].map((name) =>
      fileURLToPath(new URL(`./page/${name}`, import.meta.url)),
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
