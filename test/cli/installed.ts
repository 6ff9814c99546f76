/**
 * The package as npm would install it in a project outside this repository: built as for publishing, dependencies beside
 * it, the examples copied into the project. Built once, by whichever test file comes first; the others wait for it.
 */
import { cpSync, existsSync, mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { inject } from 'vitest'
import { bundle } from '../../scripts/build.ts'

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
      await build(folder)
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
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ type: 'module' }))
}
