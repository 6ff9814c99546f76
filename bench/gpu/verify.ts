/** Right results on a GPU: bundles the tests of targets (cases.ts) with a small runner in vitest's place, and runs them. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'

const here = (path: string): string => fileURLToPath(new URL(path, import.meta.url))
const [first, second, ...rest] = process.argv.slice(2)
const only = first === '--bundle'
if (only && second === undefined) {
  console.error('--bundle needs a file to write; --help says more')
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
  // A lost device is found again by a new process.
  for (let tries = 0; tries < 20; tries++) {
    const { status } = spawnSync(process.execPath, ['--enable-source-maps', outfile, ...given], {
      stdio: 'inherit',
    })
    if (status !== 3) process.exit(status ?? 1)
  }
}
