/** Tests the output and the exit status of `arke check`. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { arke, arkeFromSource, authorFolder, inShell, placeOf, root, start } from './arke.ts'
import { itForSome, long } from '../long.ts'

const file = authorFolder()

const racing = `import { expectClose, f32, flags, kernel, scenario, tensor } from 'arke'

interface Unused { readonly text: string } // gone after compilation: columns and lines must not move

export const racing = kernel(
  'racing',
  { inbox: tensor(f32, 1), out: tensor(f32, 1), ready: flags() },
  (t, { inbox, out, ready }) => {
    t.if(t.rank.eq(0), () => {
      t.signal(ready.on(1))
      t.store(inbox.on(1).at([0]), 7)
    }, () => {
      t.wait(ready)
      t.store(out.at([0]), t.load(inbox.at([0])))
    })
  },
)
export const passing = scenario('racing', { ranks: 2 }, async (world) => {
  const inbox = world.zeros(f32, [1], { name: 'inbox' })
  const out = world.empty(f32, [1], { name: 'out' })
  world.launch(racing, { inbox, out, ready: world.flags() }, { grid: 1 })
  expectClose(await world.read(out, 1), [7])
})
`

/** A scenario that fails only if rank 1 runs first, which happens in no schedule without preemptions. */
const fragile = `import { expectClose, i32, kernel, scenario, tensor } from 'arke'
export const fragile = kernel('fragile', { place: tensor(i32, 1) }, (t, { place }) => {
  t.atomic.xchg(place.on(0).at([0]), t.rank)
})
export const last = scenario('the last rank wins', { ranks: 3 }, async (world) => {
  const place = world.full(i32, [1], -1, { name: 'place' })
  world.launch(fragile, { place }, { grid: 1 })
  expectClose(await world.read(place, 0), [2])
})
`

const printing = `import { kernel, scenario } from 'arke'
const tell = kernel('tell', {}, (t) => t.print('rank', t.rank))
export const told = scenario('told', { ranks: 2 }, async (world) => {
  world.launch(tell, {}, { grid: 1 })
  await world.synchronize()
})
`

const importsOfRacing = "import { f32, flags } from 'arke'\n"

/** A scenario that always fails, and that has a race if rank 7 runs first. */
const rare = `import { expectClose, i32, kernel, scenario, tensor } from 'arke'
export const rare = kernel('rare', { place: tensor(i32, 1), cell: tensor(i32, 1) }, (t, { place, cell }) => {
  const before = t.atomic.add(place.on(0).at([0]), 1)
  t.if(t.rank.eq(0), () => t.store(cell.at([0]), 0))
  t.if(t.rank.eq(7), () => t.if(before.eq(0), () => t.store(cell.on(0).at([0]), 1)))
})
export const never = scenario('never right', { ranks: 8 }, async (world) => {
  const place = world.zeros(i32, [1], { name: 'place' })
  world.launch(rare, { place, cell: world.zeros(i32, [1], { name: 'cell' }) }, { grid: 1 })
  expectClose(await world.read(place, 0), [-1])
})
`

const clean = `
export const fill = kernel('fill', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.to(f32)))
export const scenarios = [1, 2].map((count) =>
  scenario('fill ' + count, { ranks: [1, 3] }, async (world) => {
    const x = world.empty(f32, [1])
    for (let i = 0; i < count; i++) world.launch(fill, { x }, { grid: 1 })
    for (let rank = 0; rank < world.ranks; rank++) expectClose(await world.read(x, rank), [rank])
  }),
)
`
const importsOfClean = "import { expectClose, f32, kernel, scenario, tensor } from 'arke'\n"

describe('t.print', () => {
  const searches = [
    ['the search', []],
    ['random schedules without a search', ['--limit', '0']],
  ] as const
  itForSome(searches, ([of]) => of === 'the search')(
    'prints the first schedule of %s',
    async ([, options]) => {
      const path = file('printing.ts', printing)
      const lines = [0, 1].map((rank) => `${path}:2:42  rank ${rank}, program 0 of tell: rank ${rank}\n`)
      const { code, stderr } = await arke('check', path, ...options)
      expect({ code, stderr }).toEqual({ code: 0, stderr: lines.join('') })
    },
  )
})

describe('a race', () => {
  const path = file('racing.ts', racing)
  const store = placeOf(racing, 'store(inbox')
  const load = placeOf(racing, 'load(inbox')

  it("is reported at the author's lines, with their text, and ends with 1", async () => {
    const { code, stdout, stderr } = await arke('check', path, '--schedules', '10')
    expect(stderr).toBe('')
    expect(stdout).toContain('race in racing: two accesses of inbox[0] of rank 1 are not ordered')
    expect(stdout).toContain(
      `${path}:${store.line}:${store.column}  rank 0, program 0 writes inbox[0] of rank 1`,
    )
    expect(stdout).toContain(`${store.line} |       t.store(inbox.on(1).at([0]), 7)`)
    expect(stdout).toContain(
      `${path}:${load.line}:${load.column}  rank 1, program 0 reads inbox[0] of rank 1`,
    )
    expect(stdout).toContain(`${load.line} |       t.store(out.at([0]), t.load(inbox.at([0])))`)
    expect(stdout).toContain(
      `again: npx arke check ${path} --scenario racing --ranks 2 --stage recorded --preemptions 2 --schedules 0\n`,
    )
    expect(stdout).toContain(
      '2 ranks, recorded: search stopped at a finding, after 1 distinct interleaving: 1 finding\n',
    )
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('1 scenario, 1 finding')
    expect(code).toBe(1)
  })

  it('is one JSON document with --json, whatever the file prints', async () => {
    const talking = file('talking.ts', `${racing}console.log('loaded')\n`)
    const { code, stdout, stderr } = await arke('check', talking, '--json', '--stage', 'recorded')
    const report = JSON.parse(stdout) as {
      kernels: { name: string; line: number; scenarios: string[] }[]
      scenarios: unknown[]
      findings: { kind: string; parties: Record<string, unknown>[] }[]
    }
    expect(stderr).toBe('loaded\n')
    expect(code).toBe(1)
    expect(report.kernels).toMatchObject([{ name: 'racing', scenarios: ['racing'] }])
    expect(report.kernels[0].line).toBe(placeOf(racing, 'kernel(').line)
    expect(report.scenarios).toEqual([
      {
        name: 'racing',
        file: talking,
        ranks: 2,
        stage: 'recorded',
        search: {
          preemptions: 2,
          limit: 10_000,
          schedules: expect.any(Number) as number,
          complete: false,
          cuts: [],
        },
        findings: 1,
      },
    ])
    expect(report.findings).toMatchObject([
      {
        kind: 'race',
        kernel: 'racing',
        scenario: 'racing',
        ranks: 2,
        stage: 'recorded',
        parties: [
          { rank: 0, program: 0, ...store, source: 't.store(inbox.on(1).at([0]), 7)' },
          { rank: 1, program: 0, ...load },
        ],
      },
    ])
  })
})

describe('from the source', () => {
  it('is the same, and is started again from there', async () => {
    const broken = 'examples/broken/message-passing.ts'
    const { code, stdout, stderr } = await arkeFromSource('check', broken, '--schedules', '10')
    expect(stderr).toBe('')
    const { line, column } = placeOf(readFileSync(join(root, broken), 'utf8'), 'store(inbox')
    expect(stdout).toContain(`${broken}:${line}:${column}  rank 0, program 0 writes inbox[0] of rank 1`)
    expect(stdout).toContain(`again: npx tsx src/cli/main.ts check ${broken} --scenario `)
    expect(code).toBe(1)
  })
})

describe('a race that a target removes', () => {
  const text = `import { f32, kernel, scenario, tensor } from 'arke'
export const early = kernel('early', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) => {
  const tile = t.shared(f32, [4])
  t.copy(x.tile([0], [4]), tile)
  t.copyAsync(x.tile([0], [4]), tile)
  t.store(y.tile([0], [4]), t.load(tile))
})
export const read = scenario('reads early', { ranks: 1 }, async (world) => {
  world.launch(early, { x: world.zeros(f32, [4]), y: world.zeros(f32, [4]) }, { grid: 1 })
  await world.synchronize()
})
`
  it('is still a race, because the recorded kernel decides', async () => {
    const { code, stdout } = await arke(
      'check',
      file('early.ts', text),
      '--target',
      'native',
      '--schedules',
      '5',
    )
    expect(code).toBe(1)
    expect(stdout).toMatch(/ 1 rank, recorded: .*: \d+ findings?\n/)
    expect(stdout).toMatch(
      / 1 rank, as a CPU would run it \(complete, the last IR stage for native\): .*: ok; but the check fails, because the recorded kernel has findings\n/,
    )
  })
})

describe('a finding of a random schedule', () => {
  it('has a seed that shows it again', async () => {
    const path = file('fragile.mjs', fragile)
    const first = await arke('check', path, '--stage', 'recorded', '--limit', '0')
    expect(first.code).toBe(1)
    expect(first.stdout).toContain('wrong-result')
    const again = /again: (.+)/.exec(first.stdout)?.[1] ?? ''
    expect(again).toContain(
      `check ${path} --scenario 'the last rank wins' --ranks 3 --stage recorded --limit 0 --schedules 1 --seed `,
    )
    const second = await inShell(again)
    expect(second.code).toBe(1)
    expect(second.stdout).toContain('1 scenario, 1 finding')
    const seed = Number(/--seed (\d+)/.exec(again)?.[1])
    if (seed > 1) {
      const before = await arke(
        'check',
        path,
        '--limit',
        '0',
        '--schedules',
        String(seed - 1),
        '--stage',
        'recorded',
      )
      expect(before.code).toBe(0)
    }
  })

  it('has its own seed, where others are found with others', long, async () => {
    const path = file('rare.mjs', rare)
    const report = async (...args: string[]): Promise<{ kind: string; seed: number }[]> => {
      const { stdout } = await arke('check', path, '--json', '--stage', 'recorded', '--limit', '0', ...args)
      return (JSON.parse(stdout) as { findings: { kind: string; seed: number }[] }).findings
    }
    const found = await report()
    expect(found.map(({ kind }) => kind)).toEqual(['race', 'wrong-result'])
    expect(found[0].seed).not.toBe(found[1].seed)
    for (const { kind, seed } of found)
      expect(await report('--schedules', '1', '--seed', String(seed))).toMatchObject([{ kind, seed }])
  })
})

describe('--scenario', () => {
  it('runs that one alone, and says nothing of kernels of others', async () => {
    const path = file('both.ts', fragile + racing.replace(/^import .*\n/, importsOfRacing))
    const args = ['check', path, '--schedules', '5', '--limit', '77']
    const { stdout, code } = await arke(...args, '--scenario', 'the last rank wins')
    expect(code).toBe(1)
    expect(stdout).not.toContain('racing')
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('1 scenario, 1 finding')
    const again = /again: (.+)/.exec(stdout)?.[1] ?? ''
    expect(again).toMatch(/--preemptions 2 --schedules 0 --limit 77$/)
    expect((await inShell(again)).stdout).toContain('1 scenario, 1 finding')
  })
})

describe('files without a mistake', () => {
  itForSome(['clean.ts', 'clean.js', 'clean.mjs'], (name) => name === 'clean.ts')(
    '%s: arrays of scenarios, each on its own world sizes',
    async (name) => {
      const { code, stdout } = await arke('check', file(name, importsOfClean + clean), '--schedules', '20')
      expect(code).toBe(0)
      expect(stdout).toContain('fill 1')
      expect(stdout).toMatch(/1 rank, recorded: .*: ok/)
      expect(stdout).toContain(
        '3 ranks, as a GPU would run it (order, the last IR stage for cuda, H200, one device): exhaustive up to 2 preemptions (1 distinct interleaving); 20 random schedules (seeds from 1): ok\n',
      )
      expect(stdout.trimEnd().split('\n').at(-1)).toBe('2 scenarios, 0 findings')
    },
  )

  it('--ranks takes the place of the world sizes of the scenarios', async () => {
    const { stdout } = await arke(
      'check',
      file('sized.mjs', importsOfClean + clean),
      '--ranks',
      '5',
      '--schedules',
      '5',
    )
    expect(stdout).toContain('5 ranks, recorded')
    expect(stdout).not.toContain('3 ranks')
  })

  it('says when the search is cut off', async () => {
    const { code, stdout } = await arke(
      'check',
      'examples/04-atomic-add.ts',
      ...['--limit', '5', '--schedules', '5', '--ranks', '2'],
    )
    expect(code).toBe(0)
    expect(stdout).toContain(
      'incomplete search (5 distinct interleavings; stopped at --limit); 5 random schedules (seeds from 1): ok, but incomplete\n',
    )
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('1 scenario, 0 findings, 2 of 2 runs incomplete')
  })
})

describe('a kernel that nothing launches', () => {
  const alone = importsOfClean + clean.split('export const scenarios')[0]

  it('is recorded and lowered, with a note on how to run it', async () => {
    const { code, stdout } = await arke('check', file('alone.mjs', alone))
    expect(code).toBe(0)
    expect(stdout).toMatch(/note: no scenario in .*alone\.mjs launches fill: .*export scenario\(/)
    expect(stdout).toContain('0 scenarios, 0 findings')
  })

  it('is not one that is launched together with another', long, async () => {
    const together = `${importsOfClean.replace('kernel,', 'kernel, launchOf,')}${clean}`.replace(
      /world\.launch\((.*)\)\n/,
      'world.launchTogether([launchOf($1)])\n',
    )
    expect(together).toContain('launchTogether([launchOf(fill')
    const { code, stdout } = await arke('check', file('together.mjs', together))
    expect(code).toBe(0)
    expect(stdout).not.toContain('note:')
  })

  const failing = [
    ['a launch', 'grid: 3_000_000_000'],
    ['a line before its launch', 'grid: fails()'],
  ] as const
  itForSome(failing, ([at]) => at === 'a launch')(
    'is not one whose scenario fails at %s',
    async ([, grid]) => {
      const text = `${importsOfClean}${clean.replace('grid: 1', grid)}`
      expect(text).toContain(grid)
      const { stdout } = await arke(
        'check',
        file('fails.mjs', `${text}const fails = () => { throw Error('no') }\n`),
      )
      expect(stdout).toMatch(/: not checked: |: 1 finding/)
      expect(stdout).not.toContain('note:')
    },
  )

  it('is refused if it cannot be recorded, at its line', async () => {
    const text = alone.replace('t.rank.to(f32))', 't.rank.to(f32).add(t.arange(2)))')
    const path = file('unrecordable.ts', text)
    const { code, stdout, stderr } = await arke('check', path)
    expect(stderr).toMatch(new RegExp(`^arke: ${path}:${placeOf(text, 'arange').line}:\\d+: .+\n$`))
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  })
})

describe('a kernel that is slow on a GPU', () => {
  const product = (
    dtype: string,
    body: string,
  ): string => `import { f32, ${dtype}, kernel, scenario, tensor } from 'arke'
export const product = kernel('product', { a: tensor(${dtype}, 2), c: tensor(f32, 2) }, { B: 64 }, (t, { a, c }, { B }) => {
  ${body}
})
export const scenarios = [2, 3].map((ranks) => scenario('a small product', { ranks }, async (world) => {
  const [a, c] = [world.zeros(${dtype}, [4, 4]), world.zeros(f32, [4, 4])]
  world.launch(product, { a, c }, { grid: 1, meta: { B: 4 } })
  await world.synchronize()
}))
`
  const multiply = `const tile = t.shared(a.dtype, [B, B])
  t.copy(a.tile([0, 0], [B, B]), tile)
  t.store(c.tile([0, 0], [B, B]), t.dot(tile, tile.transpose(), t.zeros(f32, [B, B])))`

  it('is noted once, at its line, and is no finding', async () => {
    const text = product('f8e4m3', multiply)
    const { code, stdout } = await arke('check', file('slow.mjs', text))
    expect(code).toBe(0)
    const { line, column } = placeOf(text, 'dot(tile')
    const notes = stdout.match(/^note: .*matrix unit.*$/gm)
    expect(notes).toEqual([
      expect.stringMatching(
        `^note: .*slow\\.mjs:${line}:${column}: this product of f8e4m3 values does not use`,
      ),
    ])
    expect(stdout).toMatch(/ 0 findings\n$/)
  })

  it('is noted also where it is not exported', long, async () => {
    const text = product('f8e4m3', multiply).replace('export const product', 'const product')
    const { stdout } = await arke('check', file('hidden.mjs', text))
    expect(stdout).toMatch(/^note: .*hidden\.mjs:\d+:\d+: this product of f8e4m3 values/m)
  })

  it('is judged with its own tiles, which scenarios make small', long, async () => {
    const { code, stdout } = await arke('check', file('fast.mjs', product('bf16', multiply)))
    expect(code).toBe(0)
    expect(stdout).not.toContain('note:')
  })

  it('is not noted where it cannot be emitted at all', long, async () => {
    const shared = 't.store(c.at([0, 0]), t.load(t.shared(f32, [1024, 1024]).at([0, 0])))'
    const huge = product('bf16', `if (B === 64) ${shared}; else t.store(c.at([0, 0]), 1)`)
    const { code, stdout } = await arke('check', file('huge.mjs', huge))
    expect(code).toBe(0)
    expect(stdout).not.toContain('note:')
  })
})

describe('an interrupt', () => {
  it('ends the command with 130', long, async () => {
    const text = (importsOfClean + clean).replace(
      'const x =',
      "process.stderr.write('running\\n')\n    const x =",
    )
    const { child, ended } = start([
      'check',
      file('endless.mjs', text),
      '--limit',
      '0',
      '--schedules',
      '100000000',
    ])
    child.stderr?.once('data', () => child.kill('SIGINT'))
    expect((await ended).code).toBe(130)
  })
})
