/** Tests the built package, command and library, on every Node version, because stack traces and loaders differ. */
import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { commitOfCheckout } from '../../src/cli/commit.ts'
import { placeOf, project, root, start } from './arke.ts'
import { long } from '../long.ts'

const { version } = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as { version: string }
/** Runs a program and returns its output. */
const run = async (file: string, args: readonly string[], cwd: string): Promise<string> =>
  (await promisify(execFile)(file, args, { cwd })).stdout

describe('the built package', () => {
  const folder = mkdtempSync(join(project.folder, 'package-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  const { main } = project

  const text = readFileSync(join(root, 'examples/broken/message-passing.ts'), 'utf8')
  /** A module that ends the process as soon as any module of tsx is resolved. */
  const guard = join(folder, 'guard.mjs')
  const hooks =
    "export const resolve = (name, context, next) => { if (name.startsWith('tsx')) throw new Error('tsx was loaded'); return next(name, context) }"

  it('starts by the name of its command: as built, and from the tarball of npm pack', long, async () => {
    // Tests the built file itself, because `npm install` would make the command executable.
    expect(await run('node_modules/.bin/arke', ['--version'], project.folder)).toBe(`${version}\n`)
    const own = join(project.folder, 'node_modules/arke')
    const packed = await run('npm', ['pack', '--ignore-scripts', '--pack-destination', folder], own)
    const tarball = packed.trim().split('\n').at(-1)!
    expect(tarball).toBe(`arke-${version}.tgz`)
    await run('tar', ['-xzf', tarball], folder)
    for (const name of ['commander', 'tsx']) {
      mkdirSync(join(folder, 'node_modules'), { recursive: true })
      symlinkSync(join(root, 'node_modules', name), join(folder, 'node_modules', name))
    }
    expect(await run(join(folder, 'package/dist/cli/main.js'), ['--version'], folder)).toBe(`${version}\n`)
    // The results of a benchmark state the commit of Arke, even on a machine that has only the package.
    const built = readFileSync(join(folder, 'package/dist/commit.json'), 'utf8')
    const commit = JSON.parse(built) as string | null
    if (commitOfCheckout() === null) expect(commit).toBeNull()
    else expect(commit).toMatch(/^[0-9a-f]{7,}(-dirty)?$/)
  })

  it('checks JavaScript without TypeScript support being loaded', async () => {
    writeFileSync(join(folder, 'hooks.mjs'), hooks)
    writeFileSync(
      guard,
      "import { register } from 'node:module'\nprocess.noDeprecation = true\nregister('./hooks.mjs', import.meta.url)\n",
    )
    writeFileSync(join(folder, 'kernel.mjs'), text) // The kernel's text contains no types, so it is valid JavaScript.
    const { stdout, stderr, code } = await start(['check', 'kernel.mjs'], ['--import', guard, main], folder)
      .ended
    const { line, column } = placeOf(text, 'store(inbox')
    expect(stderr).toBe('')
    expect(stdout).toContain(`kernel.mjs:${line}:${column}  rank 0, program 0 writes inbox[0] of rank 1`)
    expect(code).toBe(1)
    writeFileSync(join(folder, 'guarded.ts'), text)
    const guarded = await start(['check', 'guarded.ts'], ['--import', guard, main], folder).ended
    expect(guarded.stderr).toContain('tsx was loaded') // The guard module ends a process that loads tsx.
  })

  const checksTypeScript = async (types: readonly string[]): Promise<void> => {
    const { line, column } = placeOf(text, 'store(inbox')
    for (const type of types) {
      writeFileSync(join(folder, 'package.json'), JSON.stringify({ type }))
      writeFileSync(join(folder, 'kernel.ts'), text)
      const { stdout, code } = await start(['check', 'kernel.ts'], [main], folder).ended
      expect(stdout).toContain(`kernel.ts:${line}:${column}  rank 0, program 0 writes inbox[0] of rank 1`)
      expect(code).toBe(1)
      // A KernelError is recognised even if it comes from another copy of the package.
      const refused = text.replace('t.wait(arrived)', 'void `${arrived}`')
      writeFileSync(join(folder, 'refused.ts'), refused)
      const ended = await start(['check', 'refused.ts'], [main], folder).ended
      const at = placeOf(refused, 'void `').line
      expect(ended.stderr).toMatch(
        new RegExp(`^arke: refused\\.ts:${at}:\\d+: a symbolic value has no number.*\n$`),
      )
      expect(ended.code).toBe(2)
    }
  }
  it("checks TypeScript at the author's lines, in a project of CommonJS too", () =>
    checksTypeScript(['commonjs']))
  it(
    "checks TypeScript at the author's lines, in a project of CommonJS too (both kinds of project)",
    long,
    () => checksTypeScript(['module', 'commonjs']),
  )

  it('is one Arke for all that import it, few files of which a start loads', async () => {
    writeFileSync(
      join(folder, 'one.mjs'),
      `import { Kernel, openWorld, WorldError } from 'arke'
       import { gemm } from 'arke/ops'
       const refused = await openWorld({ ranks: 0 }).catch((error) => error)
       console.log(gemm instanceof Kernel, refused instanceof WorldError)
`,
    )
    const log = "import { appendFileSync } from 'node:fs'\n"
    const load = `export const load = (url, context, next) => { appendFileSync('loaded', url + '\\n'); return next(url, context) }`
    writeFileSync(join(folder, 'log.mjs'), log + load)
    writeFileSync(
      join(folder, 'logged.mjs'),
      "import { register } from 'node:module'\nregister('./log.mjs', import.meta.url)\n",
    )
    const logged = join(folder, 'logged.mjs')
    const { stdout } = await start(['one.mjs'], ['--import', logged], folder).ended
    expect(stdout).toBe('true true\n')
    const loaded = readFileSync(join(folder, 'loaded'), 'utf8')
    expect(loaded.match(/arke\/dist\/.*/g)!.length).toBeLessThan(40) // The built file is bundled from about 400 modules.
  })

  it("knows the author's lines without source maps, and those of operations", async () => {
    const program = `import { f32, kernel, tensor } from 'arke'
import { gemm } from 'arke/ops'
const own = kernel('own', { x: tensor(f32, 1) }, () => {})
console.log(own.site.toString(), gemm.site.position.file)
`
    writeFileSync(join(folder, 'sites.mjs'), program)
    const { line, column } = placeOf(program, 'kernel(')
    const sites = async (...node: string[]): Promise<string> =>
      (await start(['sites.mjs'], node, folder).ended).stdout.trim()
    expect(await sites()).toMatch(
      new RegExp(`^sites\\.mjs:${line}:${column} .*/arke/dist/.*operations-\\w+\\.js$`),
    )
    expect(await sites('--enable-source-maps')).toMatch(
      new RegExp(`^sites\\.mjs:${line}:${column} .*/arke/src/ops/gemm\\.ts$`),
    )
  })
})
