/** Tests that `await using` closes a world, in programs compiled for Node 20, which does not support it natively. */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { transformSync } from 'esbuild'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'
import { long } from '../long.ts'

const library = JSON.stringify(new URL('../../src/index.ts', import.meta.url).href)
const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx')).href
const program = `
  import { f32, kernel, openWorld, tensor } from ${library}
  const fill = kernel('fill', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.to(f32).add(1)))
  let left
  {
    await using world = await openWorld({ target: 'wasm', ranks: 2, workers: 1, heap: 1 << 20 })
    left = world
    const x = world.zeros(f32, [1])
    world.launch(fill, { x }, { grid: 1 })
    console.log((await world.read(x, 1))[0])
  }
  try {
    left.zeros(f32, [1])
  } catch (error) {
    console.log(error.message)
  }`

const compilers: Readonly<Record<string, () => string>> = {
  esbuild: () => transformSync(program, { loader: 'ts', format: 'esm', target: 'node20' }).code,
  typescript: () =>
    ts.transpileModule(program, {
      compilerOptions: { target: ts.ScriptTarget.ES2022, module: ts.ModuleKind.ESNext },
    }).outputText,
}

describe.each(Object.keys(compilers))('await using, compiled by %s', (compiler) => {
  // Only esbuild is in the short tests: both compilers generate equivalent code, and tests and examples use esbuild.
  it(
    'closes the world at the end of the block, and the process ends',
    compiler === 'esbuild' ? {} : long,
    () => {
      const code = compilers[compiler]()
      expect(code).not.toContain('await using')
      const run = spawnSync(process.execPath, ['--import', tsx, '--input-type=module', '--eval', code], {
        encoding: 'utf8',
        timeout: 60_000,
      })
      expect(run.stderr).toBe('')
      expect(run.stdout).toBe('2\nthe world is closed\n')
      expect(run.status).toBe(0)
    },
  )
})

/** True if an error of one iteration, which the loop catches, is thrown again in the next iteration. */
const loop = (body: string): string => `
  const open = () => ({ [Symbol.asyncDispose]: async () => {} })
  Symbol.asyncDispose ??= Symbol.for('Symbol.asyncDispose')
  const failOn = (i) => { if (i === 0) throw new Error('first') }
  const inFunction = async (i) => { await using world = open(); failOn(i) }
  for (const i of [0, 1]) {
    try { ${body} } catch (error) { console.log(i, error.message) }
  }`
const errorsOf = (program: string): string => {
  const { code } = transformSync(program, { loader: 'ts', format: 'esm', target: 'node20' })
  return spawnSync(process.execPath, ['--input-type=module', '--eval', code], { encoding: 'utf8' }).stdout
}

describe('await using in a loop, compiled by esbuild', () => {
  it('throws an earlier error again, as docs/world.md warns', () => {
    expect(errorsOf(loop('await using world = open(); failOn(i)'))).toBe('0 first\n1 first\n')
  })
  it('throws it once if each iteration calls a function', () => {
    expect(errorsOf(loop('await inFunction(i)'))).toBe('0 first\n')
  })
})
