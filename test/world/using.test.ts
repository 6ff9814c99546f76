/** `await using` closes a world, in programs compiled for Node 20, which does not support it natively. */
import { spawnSync } from 'node:child_process'
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { transformSync } from 'esbuild'
import ts from 'typescript'
import { describe, expect, it } from 'vitest'

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
  it('closes the world at the end of the block, and the process ends', () => {
    const code = compilers[compiler]()
    expect(code).not.toContain('await using')
    const run = spawnSync(process.execPath, ['--import', tsx, '--input-type=module', '--eval', code], {
      encoding: 'utf8',
      timeout: 60_000,
    })
    expect(run.stderr).toBe('')
    expect(run.stdout).toBe('2\nthe world is closed\n')
    expect(run.status).toBe(0)
  })
})
