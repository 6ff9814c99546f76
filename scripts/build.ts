/**
 * Bundles the package. `npm run build` calls this script, and so do tests that build their own package. A bundle makes
 * starting faster: Node reads a few files instead of about a hundred. All entries are bundled together, and modules
 * that several entries use are in shared chunks. The command and the author's program therefore use the same instance
 * of Arke. Dynamically imported modules stay in separate chunks.
 */
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs'
import { dirname, join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { build, type Metafile } from 'esbuild'
import { builtCommitFile, commitOfCheckout } from '../src/cli/commit.ts'
import { type PageName, pageFiles } from '../src/report/bundle.ts'

const root = fileURLToPath(new URL('..', import.meta.url))

/** Entry points that are referred to by path: in package.json, by `moduleFile` of src/files.ts, and in bench/. */
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
  writeFileSync(join(folder, builtCommitFile), JSON.stringify(commitOfCheckout()))
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
    // `outdir` is the same for every output folder, because source maps refer to sources relative to `outdir`.
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
 * Operations count as author code, but the language and the targets do not. `src/ir/site.ts` distinguishes author code
 * by file name, even without source maps. Returns a new name for each chunk that contains operations.
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
        `${output} contains both operations and modules of the language; add one of these modules to the entries`,
      )
    if (chunk) renamed.set(chunk, chunk.replace('chunk', 'operations'))
  }
  return renamed
}

if (process.argv[1] === fileURLToPath(import.meta.url)) await bundle(join(root, 'dist'))
