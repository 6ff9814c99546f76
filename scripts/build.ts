/**
 * Bundles the package: `npm run build` calls it, and so do the tests, for a package of their own. A start then reads a few files
 * and not a hundred. All entries are bundled at once, so that what two of them use lies in a file that both import: the
 * command and the author's program have one and the same Arke. What is imported dynamically stays apart until it is used.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile } from 'esbuild'
import { type PageName, pageFiles } from '../src/report/bundle.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** What others name: package.json, `moduleFile` of src/files.ts, and bench/. */
const entries = [
  'index',
  'ops/index',
  'lint/index',
  'cli/main',
  'audit/open',
  'audit/worker',
  'targets/cpu/node',
  'targets/native/node',
  'targets/wasm/engine',
]

export async function bundle(folder: string): Promise<void> {
  await bundleModules(folder)
  for (const name of ['page', 'runs'] satisfies PageName[]) {
    mkdirSync(join(folder, 'report'), { recursive: true })
    writeFileSync(join(folder, `report/${name}.json`), JSON.stringify(pageFiles(name)))
  }
}

async function bundleModules(folder: string): Promise<void> {
  const { outputFiles, metafile } = await build({
    absWorkingDir: root,
    entryPoints: entries.map((entry) => `src/${entry}.ts`),
    outbase: 'src',
    // Wherever it is written to: source maps lead to where the sources would be beside it.
    outdir: 'dist',
    chunkNames: 'chunks/chunk-[hash]',
    bundle: true,
    splitting: true,
    format: 'esm',
    platform: 'node',
    target: 'node20.19',
    packages: 'external',
    sourcemap: true,
    metafile: true,
    write: false,
    logLevel: 'warning',
  })
  const renamed = operationChunks(metafile)
  const named = (text: string): string => text.replace(/chunk-\w+/g, (name) => renamed.get(name) ?? name)
  for (const { path, text } of outputFiles) {
    const written = join(folder, named(relative(join(root, 'dist'), path)))
    mkdirSync(dirname(written), { recursive: true })
    writeFileSync(written, named(text))
  }
  // npm makes the command of an installed package executable, but not the one of a checkout that is built again.
  chmodSync(join(folder, 'cli/main.js'), 0o755)
}

/**
 * Operations are author code, the language and the targets are not: `src/ir/site.ts` tells one from the other by the names of files,
 * also where nobody reads source maps. Of each chunk that has operations in it, the name it gets instead.
 */
function operationChunks({ outputs }: Metafile): Map<string, string> {
  const renamed = new Map<string, string>()
  for (const [output, { inputs }] of Object.entries(outputs)) {
    const chunk = /chunk-\w+(?=\.js$)/.exec(output)?.[0]
    const isIn = (...folders: string[]): boolean =>
      Object.keys(inputs).some((input) => folders.some((one) => input.startsWith(`src/${one}/`)))
    if (!isIn('ops')) continue
    if (isIn('lang', 'ir', 'targets', 'world'))
      throw new Error(
        `${output} has operations in it and what they are written in; give one of them an entry`,
      )
    if (chunk) renamed.set(chunk, chunk.replace('chunk', 'operations'))
  }
  return renamed
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle(join(root, 'dist'))
