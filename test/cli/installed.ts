/**
 * Installs the package as npm would, in a project outside this repository. The package is built as for publishing, its dependencies
 * are next to it, and the examples are copied into the project. `packed` is the tarball of the package with declarations. The package
 * and the tarball are built once per run, by the first test file that needs them. Other test files wait until the package is built.
 */
import { execFile } from 'node:child_process'
import { cpSync, existsSync, mkdirSync, readdirSync, renameSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { bundle } from '../../scripts/build.ts'

const root = fileURLToPath(new URL('../..', import.meta.url))
const modules = join(root, 'node_modules')
const run = (command: string, args: readonly string[], cwd = root) =>
  promisify(execFile)(command, args, { cwd })

export interface Installed {
  /** The folder of the project in which the package is installed. */
  readonly folder: string
  /** The path of the installed command. */
  readonly main: string
}

export async function installed(): Promise<Installed> {
  const folder = await once('project', build)
  return { folder, main: join(folder, 'node_modules/arke/dist/cli/main.js') }
}

/** Unpacks the tarball that npm would publish into `modules`, as `npm install` would. */
export async function unpack(modules: string): Promise<void> {
  const arke = join(modules, 'arke')
  mkdirSync(arke, { recursive: true })
  const tarball = join(await once('packed', pack), 'arke.tgz')
  await run('tar', ['-xzf', tarball, '-C', arke, '--strip-components=1'])
}

/** Returns the folder with the given name. The first caller fills the folder; other callers wait. */
async function once(name: string, fill: (folder: string) => Promise<void>): Promise<string> {
  const folder = join(inject('installFolder'), name)
  const [started, ended, failed] = ['started', 'ended', 'failed'].map((state) => `${folder}.${state}`)
  if (isFirst(started)) {
    try {
      await fill(folder)
    } catch (error) {
      writeFileSync(failed, '')
      throw error
    } finally {
      writeFileSync(ended, '')
    }
  }
  while (!existsSync(ended)) await pause(100)
  if (existsSync(failed)) throw new Error(`${name} was not built: see the test file that came first`)
  return folder
}

function isFirst(mark: string): boolean {
  try {
    mkdirSync(mark)
    return true
  } catch {
    return false
  }
}

async function build(folder: string): Promise<void> {
  const own = join(folder, 'node_modules/arke')
  mkdirSync(own, { recursive: true })
  cpSync(join(root, 'package.json'), join(own, 'package.json'))
  for (const name of ['commander', 'tsx', '@types', 'koffi'])
    symlinkSync(join(modules, name), join(folder, 'node_modules', name))
  mkdirSync(join(folder, 'node_modules/.bin'))
  symlinkSync('../arke/dist/cli/main.js', join(folder, 'node_modules/.bin/arke'))
  await bundle(join(own, 'dist'))
  for (const place of [own, folder])
    cpSync(join(root, 'examples'), join(place, 'examples'), { recursive: true })
  cpSync(join(root, 'docs/results'), join(own, 'docs/results'), { recursive: true })
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
}

async function pack(folder: string): Promise<void> {
  const staged = join(folder, 'staged')
  cpSync(join((await installed()).folder, 'node_modules/arke'), staged, { recursive: true })
  for (const name of ['README.md', 'LICENSE', '.npmrc']) cpSync(join(root, name), join(staged, name))
  const tsc = join(modules, 'typescript-7/bin/tsc')
  await run(process.execPath, [tsc, '-p', 'tsconfig.build.json', '--outDir', join(staged, 'dist')])
  await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], staged)
  const [tarball] = readdirSync(folder).filter((name) => name.endsWith('.tgz'))
  renameSync(join(folder, tarball), join(folder, 'arke.tgz'))
}
