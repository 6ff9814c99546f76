/**
 * Tests files that export operations: the output of `arke bench`, `tune`, `emit` and `check` for them, and the files
 * and arguments that the commands reject with one sentence and exit status 2.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { itForSome, long } from '../long.ts'
import { arke, authorFolder, project } from './arke.ts'
import { benchCommand } from '../../src/cli/bench.ts'
import { Progress } from '../../src/cli/progress.ts'
import type { RunResult } from '../../src/cli/run.ts'
import type { AnyOperation } from '../../src/operation/definition.ts'
import { normGatherGemmOperation } from '../../src/ops/normGatherGemm/index.ts'
import type { BenchResult } from '../../src/runs/results.ts'

const file = authorFolder()
const example = 'examples/14-your-operation.ts'
const small = ['--target', 'wasm', '--shape', 'M=5,N=40,K=33', '--seconds', '0.01']
const own = `import { normGatherGemmOperation } from 'arke/ops'
export const one = { ...normGatherGemmOperation, name: 'one' }
`
const path = (name: string): string => join(project.folder, name)

async function refused(args: readonly string[], problem: RegExp): Promise<void> {
  const { code, stdout, stderr } = await arke(...args)
  expect(stderr).toMatch(problem)
  expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  expect(stderr).toMatch(/^arke: /)
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
}

describe('a file that exports an operation', () => {
  it('is measured, with its page, its trace and its document', async () => {
    const [report, trace, out] = ['own.html', 'own.trace.json', 'own.json'].map((name) => file(name, ''))
    const { code, stderr } = await arke(
      ...['bench', example, ...small, '--json', '--out', out, '--report', report, '--trace', trace],
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const result = JSON.parse(readFileSync(path(out), 'utf8')) as BenchResult
    const [{ operation, shape, dtype, variants }] = result.points
    expect({ operation, shape, dtype }).toEqual({
      operation: 'gemmAllReduce',
      shape: { M: 5, N: 40, K: 33 },
      dtype: 'f32',
    })
    expect(variants.map(({ variant, launches }) => [variant, launches])).toEqual([
      ['bsp', 2],
      ['fused', 1],
    ])
    // The partial product of bsp passes through memory: 5 x 40 f32.
    expect(variants.map(({ ledger }) => ledger.locality.bytes)).toEqual([800, 0])
    expect(readFileSync(path(report), 'utf8')).toContain('gemmAllReduce')
    expect(readFileSync(path(trace), 'utf8')).toContain('multiplyAndReduce')
  })

  it('or scenarios, which are measured with their ledgers and their page', long, async () => {
    const [report, out] = ['scenarios.html', 'scenarios.json'].map((name) => file(name, ''))
    const { code, stderr } = await arke(
      ...['bench', 'examples/06-message-passing.ts', '--target', 'wasm', '--ranks', '2', '--seconds', '0.01'],
      ...['--json', '--out', out, '--report', report],
    )
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    const { scenarios } = JSON.parse(readFileSync(path(out), 'utf8')) as RunResult
    expect(scenarios.length).toBeGreaterThan(0)
    for (const { ranks, walls, ledgers } of scenarios) {
      expect(ranks).toBe(2)
      expect(walls).toHaveLength(3)
      expect(ledgers.map(({ rank }) => rank)).toEqual([0, 1])
    }
    expect(readFileSync(path(report), 'utf8')).toContain(scenarios[0].scenario)
  })

  it('or scenarios, of which one is chosen', long, async () => {
    const name = 'the same in tiles that TMA copies'
    const args = ['bench', 'examples/07-all-gather-gemm.ts', '--target', 'wasm', '--seconds', '0.01']
    const { code, stdout } = await arke(...args, '--scenario', name)
    expect(code).toBe(0)
    expect(stdout.match(/^examples\/.*$/gm)).toEqual([
      `examples/07-all-gather-gemm.ts: ${name}, 2 ranks on wasm`,
    ])
    // The benchmark times only the kernels that record events, not kernels without recording.
    expect(stdout).toContain(
      '  The recorded kernels differ from those that run without recording: allGatherGemm ',
    )
    await refused(
      [...args, '--scenario', 'other'],
      /--scenario "other": there is no such scenario; there is "/,
    )
  })

  it('is tuned, emitted and checked', async () => {
    const tuned = file('table.ts', '')
    const { code, stdout } = await arke(
      ...['tune', example, '--target', 'wasm', '--shape', 'M=4,N=32,K=32', '--seconds', '0.01'],
      ...['--variant', 'fused', '--write', tuned],
    )
    expect(code).toBe(0)
    expect(stdout).toMatch(/gemmAllReduce on 2 ranks of wasm, f32[\s\S]*fused +BM=4 BN=64 BK=64/)
    expect(readFileSync(path(tuned), 'utf8')).toMatch(/'gemmAllReduce fused f32 2x\d+'/)
    const emitted = await arke('emit', `${example}#gemmAllReduce`, '--variant', 'fused', '--target', 'native')
    expect(emitted.stdout).toContain('multiplyAndReduce')
    expect(emitted.stdout).not.toContain('partial')
    expect((await arke('emit', example, '--kernel', 'reduce')).stdout).toContain('reduce')
  })

  it('may have several, of which one is chosen', long, async () => {
    const two = file('two.ts', `${own}export default { ...one, name: 'two' }\n`)
    const args = ['--variant', 'bsp', ...small]
    for (const chosen of [[`${two}#two`], [two, '--operation', 'two']])
      expect((await arke('bench', ...chosen, ...args)).stdout).toMatch(/^two on 2 ranks of wasm/)
    await refused(
      ['bench', two, ...args],
      /has several operations: choose one with --operation, of two, one$/m,
    )
    await refused(['bench', `${two}#three`], /has no operation three; it has two, one/)
    await refused(['bench', `${two}#two`, '--operation', 'one'], /two operations are named; leave one out/)
  })
})

describe('what bench and tune reject', () => {
  const rejected = [
    ['no operation', 'export const x = 1\n', /exports no kernel, scenario or operation/],
    [
      'kernels only',
      "import { f32, kernel, tensor } from 'arke'\nexport const k = kernel('k', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), 1))\n",
      /exports no operation; export what defineOperation\(…\) returns/,
    ],
    [
      'an incomplete record',
      "import { defineOperation } from 'arke'\nexport const x = defineOperation({ name: 'x' } as never)\n",
      /does not load: .*:2:18: defineOperation: x has no variant bsp/,
    ],
    ['an error', '\nthrow new Error("not today")\n', /does not load: .*:2:7: not today/],
    ['a syntax error', 'export const = 2\n', /does not load: .*:1:13/],
    [
      'two operations of one name',
      `${own}export const other = { ...one }\n`,
      /exports two operations named one; give each its own name/,
    ],
  ] as const
  itForSome(rejected, ([what]) => what === 'kernels only' || what === 'two operations of one name')(
    'a file with %s',
    ([name, text, problem]) => refused(['bench', file(`${name.replaceAll(' ', '-')}.ts`, text)], problem),
  )

  it('tuning scenarios that name no numbers', long, () =>
    refused(
      ['tune', 'examples/06-message-passing.ts'],
      /06-message-passing\.ts: none of its scenarios has anything to tune\. List numbers in the scenario, and launch kernels with the chosen numbers: scenario\(name, \{ tune: /,
    ),
  )
  it('options of operations for a file with scenarios only', long, () =>
    refused(
      ['bench', 'examples/06-message-passing.ts', '--shape', 'M=4'],
      /--shape: this option describes an operation, and examples\/06-message-passing\.ts exports scenarios; leave it out/,
    ),
  )
  it('a scenario of an operation', async () => {
    await refused(
      ['bench', example, '--scenario', 'x'],
      /--scenario x: chooses a scenario of a file that exports no operation; leave it out/,
    )
    await refused(['bench', 'flash-decode', '--scenario', 'x'], /--scenario x: chooses a scenario/)
  })
  it('files that do not exist', long, () => refused(['tune', 'none.ts'], /none\.ts: there is no such file/))
  it.each([
    [['--dtype', 'bf16'], /--dtype bf16: gemmAllReduce accepts f32/],
    [['--report', example], /would overwrite the input/],
  ])('%j', (args, problem) => refused(['bench', example, ...args], problem))
  it('a choice among shipped operations', () =>
    refused(['bench', 'flash-decode', '--operation', 'x'], /--operation x: chooses an operation of a file/))
  it('a wrong result, with what was expected', long, async () => {
    const wrong = file(
      'wrong.ts',
      `${own}const { make } = one
export const off = { ...one, name: 'off', make: (...args: Parameters<typeof make>) => ({ ...make(...args), tolerance: 0 }) }
`,
    )
    await refused(
      ['bench', `${wrong}#off`, '--json', ...small],
      /off bsp|normGatherGemm bsp: element \d+ of rank \d/,
    )
  })
  it('operations alone, of arke check', () =>
    refused(
      ['check', file('only.ts', own)],
      /exports operations and no scenario; export what scenariosOf\(one, …\)/,
    ))
})

/**
 * The structure of a JSON document: the names and types of its fields, and for an array the structure of its first
 * element.
 */
function structure(value: unknown): unknown {
  if (Array.isArray(value)) return value.length === 0 ? [] : [structure(value[0])]
  if (typeof value !== 'object' || value === null) return typeof value
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, structure(one)]))
}

it('an operation of an author gives the same document as a shipped one', long, async () => {
  const command = {
    ...{ variant: 'all', target: 'wasm', ranks: 2, shape: 'M=5,N=24,K=16', skew: '0' },
    ...{ seconds: 0.01, pack: true, seed: 1 },
  }
  const measured = (operation: string | AnyOperation) =>
    benchCommand(operation, command, '0.0.0', () => undefined, new Progress(process.stderr))
  const { points: _points, recognise: _recognise, ...definition } = normGatherGemmOperation
  const shipped = await measured('norm-gather-gemm')
  const authored = await measured({
    ...definition,
    name: 'mine',
    measurements: [],
  } as unknown as AnyOperation)
  expect(authored.points[0].operation).toBe('mine')
  expect(structure(authored)).toEqual(structure(shipped))
})
