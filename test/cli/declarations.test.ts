/**
 * Compiles a library of kernels against the package as npm packs it, and a program that uses only the library's
 * declarations. Library and program are compiled with every supported TypeScript version and the settings that its `tsc
 * --init` writes.
 */
import { spawn, spawnSync } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import ts from 'typescript'
import { afterAll, describe, expect, it } from 'vitest'
import { long } from '../long.ts'
import type { Ended } from './arke.ts'
import { unpack } from './installed.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-declarations-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const modules = join(folder, 'node_modules')
const library = fileURLToPath(new URL('library', import.meta.url))
const require = createRequire(import.meta.url)

/**
 * The TypeScript compilers, keyed by package name. The compiler is null if TypeScript 7, which is a native program, is
 * not available for this machine.
 */
const compilers = ['typescript', 'typescript-7'].map((name) => {
  const path = join(dirname(require.resolve(`${name}/package.json`)), 'bin/tsc')
  const { status, stdout, stderr } = spawnSync(process.execPath, [path, '--version'], { encoding: 'utf8' })
  if (status !== 0) console.warn(`skipped: ${name}: ${stderr.trim().split('\n')[0]}`)
  return {
    name: status === 0 ? stdout.trim().replace('Version', 'TypeScript') : name,
    path: status === 0 ? path : null,
  }
})

function run(command: string, args: readonly string[], cwd: string): Promise<Ended> {
  const child = spawn(command, args, { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  const printed = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => (printed[stream] += text))
  return new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, ...printed }))
  })
}

await unpack(modules)

describe.each(compilers)('$name', ({ name, path }) => {
  // The TypeScript 7 compiler is native and five times as fast as the others.
  const longUnlessNative = name.startsWith('TypeScript 7') ? {} : long
  const place = join(folder, name.replace(/\W+/g, '-'))
  /** Creates a project with the settings of `tsc --init`, in a separate folder next to the modules. */
  const init = async (what: string, manifest: object): Promise<string> => {
    const made = join(place, what)
    mkdirSync(made, { recursive: true })
    writeFileSync(join(made, 'package.json'), JSON.stringify({ type: 'module', ...manifest }))
    expect((await run(process.execPath, [path!, '--init'], made)).code).toBe(0)
    return made
  }
  const compile = (where: string, ...options: string[]): Promise<Ended> =>
    run(process.execPath, [path!, ...options], where)

  it.skipIf(path === null)(
    'builds a library of kernels with declarations, and its user',
    longUnlessNative,
    async () => {
      const own = await init('library', {
        name: 'kernels',
        exports: { '.': { types: './index.d.ts', default: './index.js' } },
      })
      expect(readFileSync(join(own, 'tsconfig.json'), 'utf8')).toMatch(/^ *"declaration": true/m)
      cpSync(library, own, { recursive: true })
      expect(await compile(own)).toEqual({ code: 0, stdout: '', stderr: '' })
      const declared = readdirSync(own).filter((file) => file.endsWith('.d.ts'))
      expect(declared.sort()).toEqual(['index.d.ts', 'kernels.d.ts', 'operations.d.ts', 'world.d.ts'])
      // Declarations must refer to the package by name, because their users do not have the repository's files.
      for (const file of declared)
        expect(readFileSync(join(own, file), 'utf8')).not.toMatch(/arke\/dist|: any\b/)

      const user = await init('user', {})
      const installed = join(user, 'node_modules/kernels')
      cpSync(own, installed, { recursive: true, filter: (file) => !/(?<!\.d)\.ts$/.test(file) })
      writeFileSync(join(user, 'index.ts'), userText)
      // The declarations of the library and of the package must also pass a full check without skipLibCheck.
      expect(await compile(user, '--skipLibCheck', 'false')).toEqual({ code: 0, stdout: '', stderr: '' })
      expect(await run(process.execPath, ['index.js'], user)).toEqual({ code: 0, stdout: '', stderr: '' })
    },
  )

  it.skipIf(path === null)('accepts the tsconfig.json of the documentation', longUnlessNative, async () => {
    const [settings] = /(?<=^```json\n)\{\n {2}"compilerOptions"[^]*?^\}$/m.exec(
      readFileSync(new URL('../../docs/eslint.md', import.meta.url), 'utf8'),
    )!
    for (const [entry, text] of [
      [
        'arke',
        "import { openWorld } from 'arke'\nexport async function run() { await using world = await openWorld({ ranks: 1 }); return world.ranks }\n",
      ],
      [
        'arke/ops',
        "import { operations } from 'arke/ops'\nexport const names: string[] = operations.map(({ name }) => name)\n",
      ],
    ]) {
      const made = join(place, `documented-${entry.replace('/', '-')}`)
      mkdirSync(made, { recursive: true })
      writeFileSync(join(made, 'package.json'), JSON.stringify({ type: 'module' }))
      writeFileSync(join(made, 'tsconfig.json'), settings)
      writeFileSync(join(made, 'index.ts'), text)
      expect(await compile(made, '--skipLibCheck', 'false')).toEqual({ code: 0, stdout: '', stderr: '' })
    }
  })

  it.skipIf(path === null)('builds one that imports ready operations alone', long, async () => {
    const own = await init('operations', {})
    cpSync(join(library, 'operations.ts'), join(own, 'operations.ts'))
    expect(await compile(own)).toEqual({ code: 0, stdout: '', stderr: '' })
  })
})

/** A program that fails to compile if the library's types degrade to `any`. */
const userText = `import { f32, FindingsError, type Kernel, type Meta, type TensorParam } from 'arke'
import type { AllGatherGemmContents, Operation } from 'arke/ops'
import { announce, copyOf, multiply, open, operands, product, relu, rowSums, scenarios, streamOf } from 'kernels'

export const named: Kernel<{ readonly from: TensorParam<'f32' | 'f16', 2>; readonly to: TensorParam<'f32' | 'f16', 2> }, { readonly rows: number }> =
  copyOf('f32')
export const meta: Meta = product.meta
export const helpers = [operands, relu, rowSums, streamOf]
export const operation = (...given: Parameters<typeof multiply>): Operation<AllGatherGemmContents> => multiply(...given)

const { world, x, ready } = await open(2)
world.launch(announce, { x, ready }, { grid: 1 })
const first: number | undefined = (await world.read(x, 1))[0]
if (first !== 1) throw new Error(String(first))
// @ts-expect-error: what is no flag
export const wrong = () => world.launch(announce, { x, ready: x }, { grid: 1 })
// @ts-expect-error: a constant that it does not have
export const unknown = () => world.launch(product, { a: x, b: x, c: x }, { grid: 1, meta: { depth: 1 } })
await world.close()
for (const { run, ranks } of scenarios) {
  for (const size of ranks) {
    const { world } = await open(size)
    await run(world)
    await world.close()
  }
}
export { f32, FindingsError }
`

it('has every type that its types mention among its exports', long, () => {
  const arke = join(modules, 'arke/dist')
  const entries = ['index.d.ts', 'ops/index.d.ts'].map((file) => join(arke, file))
  const program = ts.createProgram(entries, {
    module: ts.ModuleKind.NodeNext,
    target: ts.ScriptTarget.ESNext,
    types: [],
  })
  const checker = program.getTypeChecker()
  const resolved = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol
  const exported = new Set(
    entries.flatMap((entry) => {
      const module = checker.getSymbolAtLocation(program.getSourceFile(entry)!)!
      return checker.getExportsOfModule(module).map(resolved)
    }),
  )
  const seen = new Set(exported)
  const missing = new Set<string>()
  const visit = (node: ts.Node): void => {
    const symbol = ts.isIdentifier(node) ? checker.getSymbolAtLocation(node) : undefined
    if (symbol) mention(resolved(symbol))
    ts.forEachChild(node, visit)
  }
  const mention = (symbol: ts.Symbol): void => {
    const own = (symbol.declarations ?? []).filter((one) => one.getSourceFile().fileName.startsWith(arke))
    if (seen.has(symbol) || own.length === 0) return
    seen.add(symbol)
    if (own.some(isNamed)) missing.add(symbol.name)
    // If a type has no exported name, TypeScript writes its structure into the declaration.
    if (own.some((one) => ts.isTypeAliasDeclaration(one) || isNamed(one))) own.forEach(visit)
  }
  for (const symbol of exported) symbol.declarations?.forEach(visit)
  expect(exported.size).toBeGreaterThan(100)
  expect([...missing].sort()).toEqual([])
})

/** True if TypeScript refers to the declaration by its name instead of writing out its structure. */
function isNamed(declaration: ts.Declaration): boolean {
  if (ts.isInterfaceDeclaration(declaration) || ts.isClassDeclaration(declaration)) return true
  const isExported = ts.getCombinedModifierFlags(declaration) & ts.ModifierFlags.Export
  return ts.isTypeAliasDeclaration(declaration) && isExported !== 0
}
