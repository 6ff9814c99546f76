/**
 * The package as npm would install it in a project outside this repository: built as for publishing, dependencies beside
 * it, the examples copied into the project. Built once, by whichever test file comes first; the others wait for it.
 */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'

const root = fileURLToPath(new URL('../..', import.meta.url))
const modules = join(root, 'node_modules')

export interface Installed {
  /** The project. */
  readonly folder: string
  /** The command in it. */
  readonly main: string
}

export async function installed(): Promise<Installed> {
  const shared = inject('installFolder')
  const folder = join(shared, 'project')
  if (isFirst(join(shared, 'started'))) {
    try {
      build(folder)
    } finally {
      writeFileSync(join(shared, 'ended'), '')
    }
  }
  while (!existsSync(join(shared, 'ended'))) await pause(100)
  const main = join(folder, 'node_modules/arke/dist/cli/main.js')
  if (!existsSync(main)) throw new Error('the package was not built: see the test file that came first')
  return { folder, main }
}

function isFirst(mark: string): boolean {
  try {
    mkdirSync(mark)
    return true
  } catch {
    return false
  }
}

function build(folder: string): void {
  const own = join(folder, 'node_modules/arke')
  mkdirSync(own, { recursive: true })
  cpSync(join(root, 'package.json'), join(own, 'package.json'))
  for (const name of ['commander', 'tsx', '@types', 'koffi'])
    symlinkSync(join(modules, name), join(folder, 'node_modules', name))
  mkdirSync(join(folder, 'node_modules/.bin'))
  symlinkSync('../arke/dist/cli/main.js', join(folder, 'node_modules/.bin/arke'))
  compile(own)
  chmodSync(join(own, 'dist/cli/main.js'), 0o755)
  bundlePage(join(own, 'dist/report'))
  for (const place of [own, folder])
    cpSync(join(root, 'examples'), join(place, 'examples'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
}

/** From a copy of the sources, which are not published. */
function compile(own: string): void {
  cpSync(join(root, 'src'), join(own, 'src'), { recursive: true })
  const config = {
    extends: join(root, 'tsconfig.build.json'),
    compilerOptions: { rootDir: './src', outDir: './dist', declaration: false, noCheck: true, types: [] },
    include: ['src'],
    exclude: ['src/**/*.test.ts', 'src/report/page'],
  }
  writeFileSync(join(own, 'tsconfig.json'), JSON.stringify(config))
  execFileSync(process.execPath, [join(modules, 'typescript/bin/tsc'), '-p', own])
  rmSync(join(own, 'src'), { recursive: true })
  rmSync(join(own, 'tsconfig.json'))
}

function bundlePage(out: string): void {
  const { scripts } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
    scripts: Record<string, string>
  }
  const [bundler, ...words] = scripts['build:page'].split(' ')
  const there = words.map((word) => (word.startsWith('--outdir=') ? `--outdir=${out}` : word))
  execFileSync(join(modules, '.bin', bundler), there, { cwd: root })
}
