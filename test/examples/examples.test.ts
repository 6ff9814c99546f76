/**
 * Every example runs when it is started directly and on real threads. The search and many random schedules give no
 * finding in any example.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { explore, formatFinding, openWorld, type Kernel, type Meta, type Scenario } from 'arke'
import { describe, expect, it } from 'vitest'
import { load as loadFile, type Source } from '../../src/cli/load.ts'
import { root, start } from '../cli/arke.ts'
import { long } from '../long.ts'

const folder = join(root, 'examples')

/** Printed lines of the examples are not shown. */
const onPrint = (): void => {}

/** Lines of the expected output of each example, worked out by hand. */
const says: Readonly<Record<string, readonly string[]>> = {
  '00-load.ts': ['rank 0 loaded 101 from rank 1', 'rank 3 loaded 100 from rank 0'],
  '01-store.ts': ['rank 0 found 1 in its inbox', 'rank 2 found 1 in its inbox'],
  '02-all-load.ts': ['every rank has the sum 11 22 33 44 55 66', 'every rank has the sum 1111 2222'],
  '03-all-store.ts': ['every rank has the rows 0 1 2 3 10 11 12 13', '30 31 32 33'],
  '04-atomic-add.ts': ['2 ranks:', '3 ranks:', 'rank 2 drew'],
  '05-atomic-exchange.ts': ['found nobody', 'came last'],
  '06-message-passing.ts': ['rank 1 received 0 1 2 3 from rank 0', 'rank 0 received 30 31 32 33 from rank 3'],
  '07-all-gather-gemm.ts': ['every rank has the product'],
  '08-bulk-or-fused.ts': ['bsp: 2 kernels, 16 bytes', 'fused: one kernel, 16 bytes'],
  '09-push-tiles.ts': ['rank 0 has got 333 555 777 in all', 'rank 2 has got 111 333 555 in all'],
  '10-flash-decode.ts': ['the largest score is 140', 'every rank attends to all 7 tokens'],
  '11-running-ahead.ts': ['rank 0 has ended 3 launches', 'has 111 222 333 444 555 666'],
  '12-teams.ts': ['every rank has the product'],
  '13-decode-to-owners.ts': ['all 5 tokens of the first sequence, 3 times', 'all 9 tokens'],
  '14-your-operation.ts': ['gemmAllReduce bsp, 2 ranks:', '2 kernels, 24 bytes', 'one kernel, 24 bytes'],
  '15-groups.ts': ['rank 0 has the gradient 416', 'rank 3 has the gradient 598'],
  '16-sampling.ts': ['of 400 tokens, 289 are token 3'],
  '17-puts-in-flight.ts': [
    'rank 0 has the squares 100 121 144 169 … of rank 1',
    'rank 1 has the squares 0 1 4 9 … of rank 0',
    'rank 0 has the squares 400 441 484 529 … of rank 2',
  ],
  '18-split-k.ts': ['the product of 3 parts of K has the first row'],
  '19-rotary.ts': ['rank 0 has the row -5 54 -5 5 … of token 1', 'rank 1 has the row -5 -5 17 58'],
  '20-serving.ts': [
    'rank 0 answered request 1 with 10 21 33 46',
    'rank 1 answered request 3 with 31 62 94 127',
  ],
  '21-rounds.ts': ['after 4 rounds, every rank has 111 222 333 444'],
  '22-clusters.ts': ['the product of 4 programs in one cluster has the first row 9 -13 10 -2'],
  '23-fetch-ahead.ts': ['every rank has the sum 11 22 33 44 55 66, in tiles of 4', '111 222 333 444 555 666'],
}
const files = Object.keys(says)

it('covers every example', () => {
  const entries = readdirSync(folder, { withFileTypes: true })
  const examples = entries.filter((entry) => entry.isFile() && entry.name !== 'show.ts')
  expect(examples.map(({ name }) => name).sort()).toEqual(files)
})

/** The examples that the short tests also start as processes, and on threads; the others are only recorded and searched. */
const shortFiles = ['06-message-passing.ts', '07-all-gather-gemm.ts']

/** True for examples with many programs that synchronise, for which a search with one preemption takes seconds. */
const isSlow = (file: string): boolean => file === '18-split-k.ts' || file === '16-sampling.ts'

describe.each(files)('%s', (file) => {
  const isShort = shortFiles.includes(file)
  it('runs by itself', isShort ? {} : long, async () => {
    const { code, stdout } = await start([join('examples', file)], ['--import', 'tsx']).ended
    expect(code).toBe(0)
    for (const text of says[file]) expect(stdout).toContain(text)
  })

  it('runs on wasm, again and again', isShort ? {} : long, async () => {
    const { scenarios } = await loadFile(join(folder, file))
    for (const scenario of scenarios)
      for (const ranks of scenario.ranks)
        for (let time = 0; time < 5; time++) {
          const world = await openWorld({ target: 'wasm', ranks, workers: scenario.residency, onPrint })
          try {
            // Each scenario of an example compares the values that it reads with the expected values.
            await scenario.run(world)
          } finally {
            await world.close()
          }
        }
  })

  const expectAllClean = async (
    schedules: number,
    preemptions: number,
    lowered = preemptions,
  ): Promise<void> => {
    const source: Source = await loadFile(join(folder, file))
    expect(source.kernels.length).toBeGreaterThan(0)
    expect(source.scenarios.length).toBeGreaterThan(0)
    for (const scenario of source.scenarios)
      await expectClean(scenario, schedules, { recorded: preemptions, lowered })
  }
  it('is clean, as written and lowered', long, () =>
    expectAllClean(randomSchedules(file), 2, isSlow(file) ? 1 : 2),
  )
  it(
    'is clean, as written and lowered, with one preemption and in ten random schedules',
    isSlow(file) ? long : {},
    () => expectAllClean(10, 1),
  )
  it('is clean, as written and lowered, in three random schedules', () => expectAllClean(3, 0))

  it('launches every kernel that it exports', async () => {
    const { kernels, scenarios } = await loadFile(join(folder, file))
    const launched = new Set<Kernel>()
    for (const scenario of scenarios)
      await explore(
        {
          ...scenario,
          run: (world) => {
            const launch = world.launch.bind(world)
            world.launch = (kernel, args, options) => {
              launched.add(kernel as unknown as Kernel)
              launch(kernel, args, options)
            }
            return scenario.run(world)
          },
        },
        { ranks: scenario.ranks[0], schedules: 1, onPrint },
      )
    expect([...launched]).toEqual(expect.arrayContaining([...kernels]))
  })
})

/** The number of random schedules. Runs of example 08 and later examples take longer, so they get fewer schedules. */
const randomSchedules = (file: string): number => (file < '08' ? 1000 : 250)

async function expectClean(
  scenario: Scenario,
  schedules: number,
  preemptionsOf: Readonly<Record<'recorded' | 'lowered', number>>,
): Promise<void> {
  for (const ranks of scenario.ranks)
    for (const stage of ['recorded', 'lowered'] as const) {
      const preemptions = preemptionsOf[stage]
      const search = await explore(scenario, { ranks, stage, preemptions, limit: 50_000, onPrint })
      const random = await explore(scenario, { ranks, stage, schedules, onPrint })
      const context = `${scenario.name}, ${ranks} ranks, ${stage}`
      expect([...search.findings, ...random.findings].map(formatFinding), context).toEqual([])
      expect(search.complete, context).toBe(true)
      expect(random.results, context).toHaveLength(schedules)
    }
}

describe('claims of the examples about other parameters', () => {
  /** The checker's finding in an example if all its launches use the meta-parameters `meta`. */
  async function found(file: string, meta: Meta): Promise<string> {
    const { scenarios } = await loadFile(join(folder, file))
    const { findings } = await explore(
      {
        ...scenarios[0],
        run: (world) => {
          const launch = world.launch.bind(world)
          world.launch = (kernel, args, options) =>
            launch(kernel, args, { ...options, meta: Object.assign({}, options.meta, meta) })
          return scenarios[0].run(world)
        },
      },
      { ranks: scenarios[0].ranks[0], schedules: 100 },
    )
    return findings.map(formatFinding)[0] ?? 'nothing'
  }

  it('09: with one slot the put races with the load', async () => {
    const race = await found('09-push-tiles.ts', { SLOTS: 1 })
    expect(race).toMatch(/^race in pushTiles: two accesses of inbox/)
    const lines = readFileSync(join(folder, '09-push-tiles.ts'), 'utf8').split('\n')
    const named = [...race.matchAll(/09-push-tiles\.ts:(\d+)/g)].map(([, line]) => lines[Number(line) - 1])
    expect(named.map((line) => /t\.\w+\((x|inbox)\b/.exec(line)?.[0]).sort()).toEqual([
      't.load(inbox',
      't.put(x',
    ])
  })

  it('11: a rank runs as many launches ahead as there are slots, and no further', async () => {
    expect(await found('11-running-ahead.ts', { SLOTS: 3 })).toBe('nothing')
    expect(await found('11-running-ahead.ts', { SLOTS: 2 })).toMatch(/^deadlock/)
  })
})

it('the mistake in the broken example is found', async () => {
  const { scenarios } = await loadFile(join(folder, 'broken/message-passing.ts'))
  for (const scenario of scenarios) {
    const { findings } = await explore(scenario, { ranks: 2, preemptions: 2 })
    expect(findings.map(({ kind }) => kind)).toEqual(['race'])
  }
})
