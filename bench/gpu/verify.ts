/**
 * Checks the results of kernels on a GPU. The script bundles the target tests (cases.ts) with a small replacement of
 * vitest, and runs the bundle.
 */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const [first, second, ...rest] = process.argv.slice(2)
const only = first === '--bundle'
if (only && second === undefined) {
  console.error('--bundle needs the name of the file to write; see --help')
  process.exit(2)
}
const outfile = only ? second : here('../../node_modules/.cache/arke/cases.mjs')
await build({
  entryPoints: [here('./cases.ts')],
  outfile,
  bundle: true,
  platform: 'node',
  format: 'esm',
  target: 'node20',
  sourcemap: 'inline',
  external: ['koffi'],
  alias: { vitest: here('./suite.ts') },
  logLevel: 'warning',
})
if (!only) {
  const given = [first, second, ...rest].filter((word) => word !== undefined)
  // A lost device is usable again in a new process.
  for (let tries = 0; tries < 20; tries++) {
    const { status } = spawnSync(process.execPath, ['--enable-source-maps', outfile, ...given], {
      stdio: 'inherit',
    })
    if (status !== 3) process.exit(status ?? 1)
  }
}
