/**
 * Tests that the source position that an error names is the author's, never one in Arke's own code, however the command
 * was started.
 */
import { cpSync, mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, describe, expect, it } from 'vitest'
import { placeOf, project, root, start, type Ended } from './arke.ts'
import { long } from '../long.ts'

const clusters = `import { f32, kernel, scenario, tensor } from 'arke'
const two = kernel('two', { x: tensor(f32, 1) }, (t, { x }) =>
  t.persistent([4], ([i]) => t.store(x.at([i]), 1), { cluster: [2] }),
)
export const odd = scenario('odd', { ranks: 1 }, async (world) => {
  world.launch(two, { x: world.zeros(f32, [4]) }, { grid: 3 })
  await world.synchronize()
})
`
const operation = `import { defineOperation, f32, kernel, scenariosOf, tensor } from 'arke'
const twice = kernel('twice', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) =>
  t.store(y.tile([0], [8]), t.load(x.tile([0], [8])).mul(3)),
)
export const wrong = defineOperation({
  name: 'wrong',
  shape: { N: 8 },
  dtypes: ['f32'],
  inputs: (world, { shape: { N } }) => ({ x: world.empty(f32, [N], { name: 'x' }) }),
  output: (world, { shape: { N } }) => world.empty(f32, [N], { name: 'y' }),
  variants: { bsp: ({ world, inputs: { x }, output: y }) => [{ name: 'one', launch: () => world.launch(twice, { x, y }, { grid: 1 }) }] },
  reference: ({ x }, { rank }) => Array.from(x[rank], (value) => 2 * value),
  limit: { step: 'one', name: 'it' },
  tolerance: () => 0,
  flops: () => 8,
  remoteBytes: () => 0,
})
export const scenarios = scenariosOf(wrong, { ranks: 1 })
`
const finds = `import { f32, openWorld, scenario } from 'arke'
export const far = scenario('far', { ranks: 1 }, async (world) => {
  await world.peek(world.zeros(f32, [1]), 4)
})
`

/** A source position in the code of Arke. */
const own = /(src|dist)\/[\w/-]+\.[jt]s:\d+/

const folder = mkdtempSync(join(tmpdir(), 'arke-places-'))
afterAll(() => rmSync(folder, { recursive: true }))

/** Creates a project into which the package in `arke` is linked. The function returns the folder of the project. */
function linkedInto(name: string, arke: string): string {
  const made = join(folder, name)
  mkdirSync(join(made, 'node_modules'), { recursive: true })
  symlinkSync(arke, join(made, 'node_modules/arke'))
  writeFileSync(join(made, 'package.json'), JSON.stringify({ type: 'module' }))
  writeFileSync(join(made, 'clusters.ts'), clusters)
  writeFileSync(join(made, 'operation.ts'), operation)
  writeFileSync(join(made, 'finds.ts'), finds)
  return made
}

/** Copies the built package to a folder outside of every node_modules, as in a checkout that was built. */
function builtCheckout(): string {
  const made = join(folder, 'checkout')
  cpSync(join(project.folder, 'node_modules/arke'), made, { recursive: true })
  mkdirSync(join(made, 'node_modules'))
  for (const name of ['commander', 'tsx', '@types', 'koffi'])
    symlinkSync(join(root, 'node_modules', name), join(made, 'node_modules', name))
  return made
}

const built = builtCheckout()
/** For each command: its folder, Node's arguments, and where the author's files are as seen from that folder. */
const commands: readonly (readonly [string, string, readonly string[], string])[] = [
  [
    'the installed command',
    linkedInto('installed', join(project.folder, 'node_modules/arke')),
    [project.main],
    '',
  ],
  // From source, `arke` is found through the paths in tsconfig.json of the current folder.
  ['a checkout', root, ['--import', 'tsx', join(root, 'src/cli/main.ts')], `${linkedInto('source', root)}/`],
  ['a built checkout', linkedInto('built', built), [join(built, 'dist/cli/main.js')], ''],
]

describe.each(commands)('%s', (name, cwd, node, files) => {
  // The installed command starts faster than a checkout, which compiles its own source.
  const usual = name === 'the installed command' ? {} : long
  const arke = (...args: string[]): Promise<Ended> => start(args, node, cwd).ended

  it('names the launch with a wrong grid', usual, async () => {
    const path = `${files}clusters.ts`
    const { line, column } = placeOf(clusters, 'launch(two')
    const { stdout } = await arke('check', path, '--stage', 'recorded')
    expect(stdout).toContain(`not checked: ${path}:${line}:${column}: a grid of 3 programs on rank 0`)
    expect(stdout).not.toMatch(own)
  })

  it('names the call with a wrong rank', usual, async () => {
    const path = `${files}finds.ts`
    const { line, column } = placeOf(finds, 'peek')
    const { stdout } = await arke('run', path, '--target', 'wasm')
    expect(stdout).toContain(`failed: ${path}:${line}:${column}: there is no rank 4 in a world of 1`)
    expect(stdout).not.toMatch(own)
  })

  it('names the scenarios of an operation with a wrong result', usual, async () => {
    const path = `${files}operation.ts`
    const { line, column } = placeOf(operation, 'scenariosOf(wrong')
    const { code, stdout } = await arke('check', path, '--stage', 'recorded')
    expect(code).toBe(1)
    expect(stdout).toContain(`  ${path}:${line}:${column}  the scenario expects another result`)
    expect(stdout).not.toMatch(own)
  })

  it.each(['run', 'bench'])('names no place for a wrong option of %s', long, async (command) => {
    const path = `${files}finds.ts`
    const { code, stderr } = await arke(command, path, '--target', 'bogus')
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'arke: --target bogus: there is no such target; there is native, wasm, cuda\n',
    })
  })
})
