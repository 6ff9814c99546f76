/** Tests `arke run`: the ledger, the page, the trace and the document of scenarios, and what it rejects. */
import { existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import {
  expectClose,
  f32,
  flags,
  kernel,
  scenario,
  tensor,
  WorldStopped,
  type Scenario,
  type World,
} from 'arke'
import { afterAll, describe, expect, it } from 'vitest'
import { runCommand, type RunCommand, type RunResult } from '../../src/cli/run.ts'
import { Progress } from '../../src/cli/progress.ts'
import { readArkeTrace } from '../../src/audit/arkeTrace.ts'
import { runPartNames } from '../../src/runs/results.ts'
import { arke, authorFolder, placeOf } from './arke.ts'
import { interruptAt } from './interruptAt.ts'
import { itForSome, long } from '../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-run-'))
afterAll(() => rmSync(folder, { recursive: true }))
const file = authorFolder()

/** In this kernel, every rank passes its number on and adds the number that it receives. */
const pass = kernel(
  'pass',
  { inbox: tensor(f32, 1), sum: tensor(f32, 1), sent: flags() },
  (t, { inbox, sum, sent }) => {
    const next = t.rank.add(1).mod(t.world)
    t.store(inbox.on(next).at([0]), t.rank.to(f32))
    t.signal(sent.on(next))
    t.wait(sent)
    t.store(sum.at([0]), t.load(inbox.at([0])).add(t.rank.to(f32)))
  },
)
const double = kernel('double', { sum: tensor(f32, 1) }, (t, { sum }) =>
  t.store(sum.at([0]), t.load(sum.at([0])).mul(2)),
)
const passing = (name: string, factor: number): Scenario =>
  scenario(name, { ranks: [2, 3] }, async (world) => {
    const [inbox, sum] = [world.empty(f32, [1], { name: 'inbox' }), world.empty(f32, [1], { name: 'sum' })]
    world.launch(pass, { inbox, sum, sent: world.flags() }, { grid: 1 })
    world.launch(double, { sum }, { grid: 1 })
    await world.synchronize()
    world.launch(double, { sum }, { grid: 1 })
    for (let rank = 0; rank < world.ranks; rank++)
      expectClose(await world.read(sum, rank), [factor * (rank + ((rank + world.ranks - 1) % world.ranks))])
  })
const good = passing('pass on', 4)
const bad = passing('wrong sum', 5)

const run = async (
  scenarios: readonly Scenario[],
  command: Partial<RunCommand> = {},
  { progress, interrupt }: { progress?: Progress; interrupt?: AbortSignal } = {},
): Promise<{ result: RunResult; printed: string }> => {
  const printed: string[] = []
  const result = await runCommand(
    { file: 'mine.ts', kernels: [], scenarios, operations: [] },
    { target: 'wasm', runs: 2, ...command },
    '0.0.0',
    (text) => void printed.push(text),
    progress ?? new Progress(process.stderr),
    interrupt,
  )
  return { result, printed: printed.join('\n') }
}

describe('arke run', () => {
  it('prints the ledger of every rank, at every world size', async () => {
    const { result, printed } = await run([good])
    expect(result.scenarios.map(({ scenario: name, ranks }) => [name, ranks])).toEqual([
      ['pass on', 2],
      ['pass on', 3],
    ])
    for (const { ranks, ledgers, walls, launches, stretches, problem } of result.scenarios) {
      expect({ problem, launches, stretches }).toEqual({ problem: undefined, launches: 3, stretches: 2 })
      expect(walls).toHaveLength(2)
      expect(ledgers.map(({ rank }) => rank)).toEqual(Array.from({ length: ranks }, (_, rank) => rank))
      for (const { wall, parts, locality } of ledgers) {
        expect(walls).toContain(wall)
        expect(runPartNames.reduce((sum, part) => sum + parts[part], 0)).toBeCloseTo(wall, 3)
        // In the first stretch, `double` reads back one f32, the sum that `pass` has written; a later `double` reads
        // its own result.
        expect(locality.bytes).toBe(4)
      }
    }
    expect(printed).toMatch(
      /^mine\.ts: pass on, 3 ranks on wasm\n {2}[\d.]+ % of the ranks' time of .* is lost to taxes/m,
    )
    expect(printed).toMatch(
      /rank +wall +useful +launch +wait +transfer +other +locality\n +0 .*\n +1 .*\n +2 .*\n +mean /,
    )
    expect(printed).toContain('3 kernels on the busiest rank, in 2 stretches between host waits')
  })

  it('writes a page and a trace, which the audit reads', async () => {
    const [report, trace] = [join(folder, 'page.html'), join(folder, 'trace.json')]
    await run([good], { ranks: 2, report, trace })
    const page = readFileSync(report, 'utf8')
    expect(page).toMatch(/^<!doctype html>/i)
    for (const text of ['pass on, 2 ranks', 'target wasm', 'The ledger of each rank', 'id="pictures-0"'])
      expect(page).toContain(text)
    const { timeline } = readArkeTrace(JSON.parse(readFileSync(trace, 'utf8'))) as {
      timeline?: { names: readonly string[] }
    }
    expect(timeline?.names ?? readFileSync(trace, 'utf8')).toContain('pass')
  })

  it('reports a scenario that fails, with its line, and runs the others', async () => {
    const report = join(folder, 'failed.html')
    const { result, printed } = await run([bad, good], { ranks: 2, report })
    const [failed, fine] = result.scenarios
    const { line } = placeOf(readFileSync(import.meta.filename, 'utf8'), 'expectClose(await')
    expect(failed.problem).toMatch(new RegExp(`run\\.test\\.ts:${line}:\\d+: element 0 is 4, expected 5`))
    expect(failed.ledgers).toEqual([])
    expect(fine.ledgers).toHaveLength(2)
    expect(printed).toContain(`failed: ${failed.problem}`)
    expect(readFileSync(report, 'utf8')).toContain('element 0 is 4, expected 5')
  })

  it('prints the lines of the error of a stopped world below each other', async () => {
    const stopped = scenario('stops', { ranks: 1 }, () => {
      throw new WorldStopped('why\n  rank 0 waits\n  no launched kernel signals ready')
    })
    const { printed } = await run([stopped])
    expect(printed).toMatch(
      / {2}failed: \S+: the world has stopped: why\n {4}rank 0 waits\n {4}no launched kernel signals ready\n/,
    )
  })

  it('prints the results so far when it is interrupted, and writes no page', async () => {
    const report = join(folder, 'interrupted.html')
    const { result, printed } = await run(
      [good],
      { json: true, report },
      interruptAt('3 ranks on wasm: run 1'),
    )
    expect(result).toMatchObject({ interrupted: true, scenarios: [{ ranks: 2 }] })
    expect(JSON.parse(printed)).toEqual(result)
    expect(existsSync(report)).toBe(false)
    await expect(run([good], {}, interruptAt('2 ranks on wasm: run 1'))).rejects.toThrow('interrupted')
  })

  it('frees what a scenario has allocated', async () => {
    const large = scenario('large', { ranks: 1 }, async (world) => {
      world.zeros(f32, [1 << 28]) // The tensor takes 1 GiB of a heap of 3.5 GiB.
      await world.synchronize()
    })
    const { result } = await run([large], { runs: 5 })
    expect(result.scenarios[0].problem).toBeUndefined()
    expect(result.scenarios[0].launches).toBe(0)
  })

  it('frees what a scenario has allocated on a group and on single ranks', long, async () => {
    const large = scenario('large', { ranks: 2 }, async (world) => {
      const group = world.group([1, 0])
      group.zeros(f32, [1 << 26]) // The tensor takes 256 MiB per rank.
      group.group([0]).zeros(f32, [1 << 26])
      for (const rank of [0, 1]) {
        world.on(rank).empty(f32, [1 << 26])
        group.on(rank).empty(f32, [1 << 26])
      }
      await world.synchronize()
    })
    const { result } = await run([large], { runs: 5 })
    expect(result.scenarios[0].problem).toBeUndefined()
  })

  it('gives every run a world of its own, with the same random numbers', long, async () => {
    const drawn: Float64Array[] = []
    const [worlds, groups] = [new Set<World>(), new Set<World>()]
    const random = scenario('random', { ranks: 2 }, async (world) => {
      const group = world.group([1])
      expect(world.group([1])).toBe(group)
      worlds.add(world)
      groups.add(group)
      drawn.push(await world.read(world.rand(f32, [4]), 1), await group.read(group.randn(f32, [4]), 0))
    })
    const { result } = await run([random], { runs: 2 })
    expect(result.scenarios[0].problem).toBeUndefined()
    expect(drawn).toHaveLength(6)
    for (const at of [2, 3, 4, 5]) expect(drawn[at]).toEqual(drawn[at % 2])
    expect([worlds.size, groups.size]).toEqual([3, 3])
  })

  it('rejects what it cannot run', async () => {
    await expect(run([])).rejects.toThrow('mine.ts: exports no scenario; export what scenario(…) returns')
    await expect(run([good], { scenario: 'x' })).rejects.toThrow(
      'there is no such scenario; there is "pass on"',
    )
    await expect(run([good], { target: 'check' })).rejects.toThrow(
      '--target check: this target cannot record',
    )
    await expect(run([good], { target: 'bogus' })).rejects.toThrow(
      /^--target bogus: there is no such target; there is native, wasm, cuda$/,
    )
    await expect(run([good], { trace: join(folder, 't.json') })).rejects.toThrow(
      '--trace shows one scenario at one world size, but 2 are selected',
    )
  })
})

describe('the command', () => {
  it('exits with 1 if a scenario fails, with the line in its file', async () => {
    const text = `import { scenario } from 'arke'
export const failing = scenario('failing', { ranks: 1 }, async () => {
  console.log('on stdout')
  throw new Error('not today')
})
`
    const path = file('failing.ts', text)
    const { code, stdout, stderr } = await arke('run', path, '--target', 'wasm', '--json')
    expect({ code, stderr }).toEqual({ code: 1, stderr: 'on stdout\n' })
    const { scenarios } = JSON.parse(stdout) as RunResult
    expect(scenarios[0].problem).toBe(`${path}:4:9: not today`)
  })

  itForSome(['run', 'bench'], (command) => command === 'bench')(
    '%s prints what the kernels of the first run print',
    async (command) => {
      const text = `import { kernel, scenario } from 'arke'
const tell = kernel('tell', {}, (t) => t.print('rank', t.rank))
export const told = scenario('told', { ranks: 2 }, async (world) => {
  world.launch(tell, {}, { grid: 1 })
  await world.synchronize()
})
`
      const path = file('printing.ts', text)
      const lines = [0, 1].map((rank) => `${path}:2:42  rank ${rank}, program 0 of tell: rank ${rank}\n`)
      const { code, stderr } = await arke(command, path, '--target', 'wasm')
      expect({ code, stderr }).toEqual({ code: 0, stderr: lines.join('') })
    },
  )

  it.each([
    [['run'], /missing required argument 'file'/],
    [['run', 'none.ts'], /none\.ts: there is no such file/],
    [['run', 'examples/00-load.ts', '--runs', '0'], /--runs.*whole number from 1 to 1000/],
    [['run', 'examples/00-load.ts', '--out', 'examples/00-load.ts'], /would overwrite the input/],
  ])('%j exits with 2', async (args, problem) => {
    const { code, stdout, stderr } = await arke(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(problem)
    expect(stderr.trimEnd().split('\n')).toHaveLength(1)
  })
})
