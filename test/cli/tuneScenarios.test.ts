/** `arke tune` for a file with scenarios: its tables, ledgers, page and document, and what it rejects. */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expectClose, f32, kernel, scenario, tensor, type Scenario } from 'arke'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { Progress } from '../../src/cli/progress.ts'
import { runCommand } from '../../src/cli/run.ts'
import {
  tuneScenarios,
  type TuneScenariosCommand,
  type TuneScenariosResult,
} from '../../src/cli/tuneScenarios.ts'
import { runPartNames } from '../../src/runs/results.ts'
import { arke, authorFolder } from './arke.ts'
import { itForSome, long } from '../long.ts'
import { interruptAt } from './interruptAt.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-tune-'))
const { ARKE_CACHE } = process.env
beforeAll(() => void (process.env.ARKE_CACHE = folder))
afterAll(() => {
  if (ARKE_CACHE === undefined) delete process.env.ARKE_CACHE
  else process.env.ARKE_CACHE = ARKE_CACHE
  rmSync(folder, { recursive: true })
})
const file = authorFolder()

/** Adds 1 to a sum `ROUNDS` times, so that the run time depends only on `ROUNDS`. */
const add = kernel('add', { y: tensor(f32, 1) }, { ROUNDS: 8 }, (t, { y }, { ROUNDS }) => {
  const sum = t.for(ROUNDS, t.constant(f32, 0), (_, total) => total.add(1).min(t.load(y.at([1]))))
  t.store(y.at([0]), sum)
})
const seen: number[] = []
const adding = scenario(
  'adding',
  { ranks: 2, tune: { ROUNDS: [3_000_000, 10, 3] } },
  async (world, chosen) => {
    const { ROUNDS } = chosen
    seen.push(ROUNDS)
    const y = world.full(f32, [2], 9)
    world.launch(add, { y }, { grid: 1, meta: { ROUNDS } })
    // The result is wrong for the last value of `ROUNDS`.
    expectClose((await world.read(y, 1)).subarray(0, 1), [9])
  },
)
const plainScenario = scenario('plain', { ranks: 2 }, () => Promise.resolve())

const source = (scenarios: readonly Scenario[]) => ({
  file: 'mine.ts',
  kernels: [add] as never,
  scenarios,
  operations: [],
})

async function tune(
  scenarios: readonly Scenario[],
  command: Partial<TuneScenariosCommand> = {},
  { progress, interrupt }: { progress?: Progress; interrupt?: AbortSignal } = {},
): Promise<{ result: TuneScenariosResult; printed: string }> {
  const printed: string[] = []
  const result = await tuneScenarios(
    source(scenarios),
    { target: 'wasm', seconds: 0.05, seed: 1, ...command },
    '0.0.0',
    (text) => void printed.push(text),
    progress ?? new Progress(process.stderr),
    interrupt,
  )
  return { result, printed: printed.join('\n') }
}

describe('arke tune of scenarios', () => {
  it(
    'finds the fastest numbers, with the ledgers before and after, and arke run uses them',
    long,
    async () => {
      const report = join(folder, 'tuned.html')
      const { result, printed } = await tune([adding, plainScenario], { report, seconds: 3 })
      const [{ scenario: name, ranks, fallback, best, dropped, tried }] = result.tuned
      expect(result.tuned).toHaveLength(1)
      expect({ name, ranks, tried }).toEqual({ name: 'adding', ranks: 2, tried: 3 })
      expect(fallback.chosen).toEqual({ ROUNDS: 3_000_000 })
      expect(best.chosen).toEqual({ ROUNDS: 10 })
      expect(dropped).toMatchObject([{ tiles: { ROUNDS: 3 }, why: 'element 0 is 3, expected 9' }])
      for (const { ledger } of [fallback, best])
        expect(runPartNames.reduce((sum, part) => sum + ledger.parts[part], 0)).toBeCloseTo(ledger.wall, 3)
      expect(best.ledger.wall).toBeLessThan(fallback.ledger.wall)
      expect(printed).toMatch(/^mine\.ts: adding, 2 ranks on wasm\n {2}3 combinations/)
      expect(printed).toMatch(/ROUNDS=3000000 .*ROUNDS=10/)
      expect(printed).toContain('ROUNDS=3 was dropped: element 0 is 3, expected 9')
      expect(printed).toMatch(/mean of ranks +wall .*\n +default .*\n +best /)
      const page = readFileSync(report, 'utf8')
      for (const text of [
        'arke tune: mine.ts',
        'default, ROUNDS=3000000',
        'best, ROUNDS=10',
        'as fast as with the default',
      ])
        expect(page).toContain(text)
      expect(page.match(/<figure class="variant">/g)).toHaveLength(2)

      seen.length = 0
      const lines: string[] = []
      const run = await runCommand(
        source([adding]),
        { target: 'wasm', runs: 1 },
        '0.0.0',
        (text) => void lines.push(text),
        new Progress(process.stderr),
      )
      expect(new Set(seen)).toEqual(new Set([10]))
      expect(run.scenarios[0].chosen).toEqual({ ROUNDS: 10 })
      expect(lines.join('\n')).toContain('The scenario ran with ROUNDS=10, as tuned on this machine.')
    },
  )

  it('stores nothing and writes no page if it is interrupted', async () => {
    const other = scenario('other', { ranks: 1, tune: { ROUNDS: [8, 16] } }, async (world, { ROUNDS }) => {
      const y = world.zeros(f32, [2])
      world.launch(add, { y }, { grid: 1, meta: { ROUNDS } })
      await world.synchronize()
    })
    const { result, printed } = await tune([other], { json: true }, interruptAt('measuring, 65 %'))
    expect(result).toMatchObject({ interrupted: true, kept: null })
    expect(JSON.parse(printed)).toEqual(result)
    await expect(tune([other], {}, interruptAt('checking the results'))).rejects.toThrow('interrupted')
  })

  it('reports a scenario whose defaults fail, with its line', async () => {
    const bad = scenario('bad', { ranks: 1, tune: { BLOCK: [3, 1] } }, () => {
      throw new Error('not today')
    })
    await expect(tune([bad])).rejects.toThrow(/tuneScenarios\.test\.ts:\d+:\d+: not today/)
  })

  it('rejects scenarios without numbers, and too many combinations', async () => {
    await expect(tune([plainScenario])).rejects.toThrow(
      /^mine\.ts: none of its scenarios has anything to tune\. .*; the kernels of the file have the meta-parameters ROUNDS of add$/,
    )
    await expect(tune([adding, plainScenario], { scenario: 'plain' })).rejects.toThrow(
      'mine.ts: the scenario "plain" has not anything to tune.',
    )
    const lists = { A: [...Array(20).keys()], B: [...Array(20).keys()] }
    const many = scenario('many', { tune: lists }, () => Promise.resolve())
    await expect(tune([many])).rejects.toThrow(
      'has 400 combinations of numbers, of which at most 256 are tried',
    )
  })
})

describe('the command', () => {
  const text = `import { f32, kernel, scenario, tensor } from 'arke'
export const fill = kernel('fill', { x: tensor(f32, 1) }, { BLOCK: 4 }, (t, { x }, { BLOCK }) =>
  t.store(x.tile([0], [BLOCK]), t.full(f32, [BLOCK], 1)))
export const filling = scenario('filling', { ranks: 2, tune: { BLOCK: [4, 16] } }, async (world, { BLOCK }) => {
  world.launch(fill, { x: world.zeros(f32, [16]) }, { grid: 1, meta: { BLOCK } })
  await world.synchronize()
})
`
  it('tunes the scenarios of a file', async () => {
    const path = file('filling.ts', text)
    const { code, stdout, stderr } = await arke('tune', path, '--target', 'wasm', '--seconds', '0.01')
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
    expect(stdout).toMatch(/filling\.ts: filling, 2 ranks on wasm\n {2}2 combinations/)
    expect(stdout).toMatch(/mean of ranks +wall .*\n +default /)
  })

  const rejected = [
    [
      ['--shape', 'M=4'],
      /--shape: this option describes an operation, and .*filling2\.ts exports scenarios; leave it out/,
    ],
    [['--write', 'table.ts'], /--write: this option describes an operation/],
    [['--scenario', 'other'], /--scenario "other": there is no such scenario; there is "filling"/],
    [['--target', 'check'], /--target check: it does not record/],
  ] as const
  itForSome(rejected, ([[option]]) => option === '--shape')('rejects %j', async ([args, problem]) => {
    const { code, stdout, stderr } = await arke('tune', file('filling2.ts', text), ...args)
    expect(stderr).toMatch(problem)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })
})
