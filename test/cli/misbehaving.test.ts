/** Tests misbehaving scenarios: each is reported in one sentence with its line, and the other scenarios still run. */
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { arke, arkeFromSource, authorFolder, placeOf, project } from './arke.ts'
import { long } from '../long.ts'

const file = authorFolder()

const head = `import { f32, i32, flags, kernel, scenario, tensor } from 'arke'
export const count = kernel('count', { x: tensor(i32, 1) }, (t, { x }) => void t.atomic.add(x.on(0).at([0]), 1))
export const racing = kernel('racing', { x: tensor(i32, 1) }, (t, { x }) => t.store(x.on(0).at([0]), t.rank))
`
/** The source of a scenario that runs after the misbehaving scenario. */
const next = (kernel: 'count' | 'racing'): string => `
export const after = scenario('the next one', { ranks: 2 }, async (world) => {
  world.launch(${kernel}, { x: world.zeros(i32, [1], { name: 'x' }) }, { grid: 1 })
  await world.synchronize()
})
`
const scenarioOf = (body: string): string => `
export const misbehaving = scenario('misbehaving', { ranks: 2 }, async (world) => {
  const x = world.zeros(i32, [8], { name: 'x' })
${body}
})
`

interface Case {
  readonly body: string
  /** Source code in front of the scenario. */
  readonly more?: string
  /** The code whose position the printed sentence must contain. */
  readonly at: string
  readonly says: RegExp
}

const cases: Readonly<Record<string, Case>> = {
  'chance in the grid': {
    body: `  world.launch(count, { x }, { grid: 1 + Math.floor(Math.random() * 4) })
  await world.synchronize()`,
    at: 'random()',
    says: /calls Math\.random\(\), so its runs differ/,
  },
  'chance in the data': {
    body: `  const y = world.from(i32, [1], [Math.random() < 0.5 ? 1 : 0])
  world.launch(count, { x: y }, { grid: 1 })
  await world.synchronize()`,
    at: 'random()',
    says: /calls Math\.random\(\), so its runs differ/,
  },
  'the time in the grid': {
    more: 'let calls = 0',
    body: `  world.launch(count, { x }, { grid: 2 + ((Date.now() * 0 + calls++) % 3) })
  await world.synchronize()`,
    at: 'now()',
    says: /does not do the same in every run.*Date\.now\(\)/,
  },
  'state that is kept between runs': {
    more: 'let runs = 0',
    body: `  world.launch(count, { x }, { grid: 1 + (runs++ % 3) })
  await world.synchronize()`,
    at: "scenario('misbehaving'",
    says: /does not do the same in every run/,
  },
  'a promise of the world that is not awaited': {
    body: `  world.launch(count, { x }, { grid: 2 })
  world.synchronize()`,
    at: 'synchronize()',
    says: /world\.synchronize\(\) .*not awaited/,
  },
  'a promise of a stream that is not awaited': {
    body: `  const stream = world.stream()
  world.launch(count, { x }, { grid: 2, stream })
  stream.synchronize()
  await world.synchronize()`,
    at: 'synchronize()',
    says: /stream\.synchronize\(\) .*not awaited/,
  },
  'a function of the author that is not awaited, and throws': {
    more: `async function compare(world, x) {
  const [first] = await world.read(x, 0)
  if (first !== -1) throw new Error('wrong: ' + first)
}`,
    body: `  world.launch(count, { x }, { grid: 1 })
  compare(world, x)`,
    at: "Error('wrong",
    says: /not awaited.*wrong: 2/,
  },
  'a function of the author that goes on after the scenario': {
    more: `async function later(world, x) {
  await new Promise((resolve) => setImmediate(resolve))
  world.launch(count, { x }, { grid: 1 })
}`,
    body: `  later(world, x)`,
    at: 'launch(count, { x }, { grid: 1 })',
    says: /not awaited/,
  },
  'a loop that does not end within reason': {
    more: `export const huge = kernel('huge', { x: tensor(i32, 1) }, (t, { x }) => {
  t.for(2 ** 31 - 1, (i) => t.store(x.at([i.mod(8)]), i))
})`,
    body: `  world.launch(huge, { x }, { grid: 1 })
  await world.synchronize()`,
    at: 'for(2 ** 31',
    says: /still running after \d+ million instructions/,
  },
  'a mistake in how the world is used': {
    body: `  world.launch(count, { y: x }, { grid: 1 })`,
    at: 'launch(count, { y',
    says: /argument x is missing/,
  },
  'a tensor of another dtype': {
    body: `  world.launch(count, { x: world.zeros(f32, [1]) }, { grid: 1 })`,
    at: 'launch(count, { x: world',
    says: /count: argument x holds f32/,
  },
  'a mistake of JavaScript': {
    body: `  undefined.launch(count)`,
    at: 'launch(count)',
    says: /TypeError/,
  },
  'a promise that nothing resolves': {
    body: `  await new Promise(() => undefined)`,
    at: "scenario('misbehaving'",
    says: /awaits a promise that is never resolved/,
  },
  'an error in a timer': {
    body: `  setImmediate(() => {
    throw new Error('too late')
  })
  await new Promise((resolve) => setTimeout(resolve, 1))`,
    at: "Error('too late')",
    says: /throws an error outside of any call that could catch it: too late/,
  },
  'an error while a kernel is recorded': {
    more: `const refusing = kernel('refusing', { x: tensor(i32, 1) }, () => {
  throw new Error('not for me')
})`,
    body: `  world.launch(refusing, { x }, { grid: 1 })`,
    at: "Error('not for me')",
    says: /refusing cannot be recorded: not for me/,
  },
  'more programs than can be checked': {
    body: `  world.launch(count, { x }, { grid: 1e9 })`,
    at: 'launch(count',
    says: /the grid has 1000000000 programs, but the checker runs at most 65536 per rank/,
  },
  'too much memory': {
    body: `  world.zeros(f32, [2 ** 40])`,
    at: 'zeros(f32',
    says: /array|length|allocation/i,
  },
}

/** The cases of the short tests: one of each way to notice the mistake. Each case starts a process. */
const shortOnes = [
  'chance in the grid',
  'state that is kept between runs',
  'a function of the author that is not awaited, and throws',
  'a promise that nothing resolves',
]
describe.each(Object.entries(cases))('%s', (name, { body, more = '', at, says }) => {
  const text = head + more + scenarioOf(body) + next('count')
  const path = file(`${name.replaceAll(' ', '-')}.mjs`, text)

  const effort = shortOnes.includes(name) ? {} : long
  it('is told in one sentence with its line, and the next scenario is checked', effort, async () => {
    const { code, stdout, stderr } = await arke('check', path, '--schedules', '20', '--stage', 'recorded')
    expect(stderr).toBe('')
    const lines = stdout.split('\n').filter((line) => line.includes(': not checked:'))
    expect(lines).toHaveLength(1)
    const { line } = placeOf(text, at)
    expect(lines[0]).toMatch(/^ {2}2 ranks, recorded: not checked: /)
    expect(lines[0]).toContain(`${path}:${line}:`)
    expect(lines[0]).toMatch(says)
    expect(stdout).toMatch(/the next one\n {2}2 ranks, recorded: .*: ok\n/)
    expect(stdout.trimEnd().split('\n').at(-1)).toBe('2 scenarios, 0 findings, 1 of 2 runs not checked')
    expect(code).toBe(2)
  })
})

describe('a promise that rejects when the next scenario is checked', () => {
  it('is told of the scenario that made it', async () => {
    const later = `async function later(world) {
  await new Promise((resolve) => setTimeout(resolve, 5))
  await world.synchronize()
}
`
    const slow = next('count').replace(
      'await world.synchronize()',
      'await new Promise((resolve) => setTimeout(resolve, 2))\n  await world.synchronize()',
    )
    // Exports are checked in the order of their names, so `aFirst` runs first.
    const first = scenarioOf('  void later(world)').replace('const misbehaving', 'const aFirst')
    const text = head + later + first + slow
    const path = file('late.mjs', text)
    const { code, stdout } = await arke('check', path, '--schedules', '20', '--stage', 'recorded')
    expect(stdout).toMatch(/the next one\n {2}2 ranks, recorded: .*: ok\n/)
    expect(stdout).toMatch(/misbehaving\n {2}2 ranks, recorded: not checked: .*not awaited/)
    expect(code).toBe(2)
  })
})

describe('from the source', () => {
  it('chance is told at its line, too', long, async () => {
    const { at, body } = cases['chance in the grid']
    const text = head + scenarioOf(body)
    const path = join(project.folder, file('chance.mjs', text))
    const { stdout } = await arkeFromSource('check', path, '--schedules', '5', '--stage', 'recorded')
    expect(stdout).toContain(`chance.mjs:${placeOf(text, at).line}:`)
  })
})

describe('a scenario that ends the process', () => {
  it('does not make a check that passes', async () => {
    const path = file('exits.mjs', head + scenarioOf('  process.exit(0)') + next('racing'))
    const { code, stderr } = await arke('check', path, '--schedules', '5')
    expect(stderr).toBe('arke: a scenario has ended the process; the results are incomplete\n')
    expect(code).toBe(2)
  })
})

describe('a finding of another scenario', () => {
  it('decides how the command ends, and both are in the document', async () => {
    const text = head + scenarioOf('  world.launch(count, { y: x }, { grid: 1 })') + next('racing')
    const path = file('both.mjs', text)
    const { code, stdout } = await arke('check', path, '--json', '--schedules', '5')
    const report = JSON.parse(stdout) as {
      findings: { kind: string }[]
      scenarios: { name: string; stage: string; problem?: string }[]
    }
    expect(report.findings).toMatchObject([{ kind: 'race' }])
    const problems = report.scenarios.filter(({ problem }) => problem)
    expect(problems.map(({ stage }) => stage)).toEqual(['recorded', 'order'])
    expect(problems[0].problem).toContain(`${path}:${placeOf(text, 'launch(count, { y').line}:`)
    expect(code).toBe(1)
  })
})
