/** Tests the output of commands: colours on a terminal, `--out`, and files that an output must not overwrite. */
import { linkSync, mkdtempSync, readdirSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Writable } from 'node:stream'
import { stripVTControlCharacters } from 'node:util'
import { afterAll, describe, expect, it } from 'vitest'
import { demoTraces } from '../../src/audit/demo/demo.ts'
import { styleFor } from '../../src/cli/colours.ts'
import { Output, placeOfResults } from '../../src/cli/output.ts'
import { targetTable } from '../../src/cli/targets.ts'
import { plain } from '../../src/report/style.ts'
import { project, start, type Ended } from './arke.ts'
import { itForSome, long } from '../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-output-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
const here = (name: string): string => join(folder, name)
const written = (name: string): string => readFileSync(here(name), 'utf8')
const arke = (...args: string[]): Promise<Ended> => start(args, [project.main], folder).ended

/** A module that makes the command believe that its output is a terminal. */
writeFileSync(here('terminal.mjs'), 'process.stdout.isTTY = process.stderr.isTTY = true\n')
const onTerminal = (...args: string[]): Promise<Ended> =>
  start(args, ['--import', here('terminal.mjs'), project.main], folder).ended

const broken = join(project.folder, 'examples/broken/message-passing.ts')
for (const { name, text } of demoTraces().slice(0, 2)) writeFileSync(here(name), text)

describe('colours', () => {
  const terminal = { isTTY: true }

  it.each([
    ['on a terminal', terminal, {}, true],
    ['in a pipe', {}, {}, false],
    ['with NO_COLOR', terminal, { NO_COLOR: '1' }, false],
    ['with an empty NO_COLOR, which means nothing', terminal, { NO_COLOR: '' }, true],
    ['on a terminal that has none', terminal, { TERM: 'dumb' }, false],
  ])('%s', (_, stream, env, isColoured) => {
    expect(styleFor(stream, env).bad('race')).toBe(isColoured ? '\u001b[31mrace\u001b[39m' : 'race')
  })

  it('leave the columns of a table where they were', () => {
    const targets = [
      { name: 'check', usable: true, about: 'needs nothing' },
      { name: 'cuda', usable: false, about: 'no driver' },
    ]
    const coloured = targetTable(targets, styleFor(terminal, {}))
    expect(coloured).toContain('\u001b[32myes\u001b[39m')
    expect(stripVTControlCharacters(coloured)).toBe(targetTable(targets))
    expect(targetTable(targets)).toBe('check  yes  needs nothing\ncuda   no   no driver')
  })

  const coloured = [
    ['check', [broken, '--schedules', '0'], '\u001b[31mrace\u001b[39m in signalTooEarly'],
    ['audit', ['rank0.json', '--no-html'], '\u001b[1m  rank  wall'],
    ['targets', [], '\u001b[32myes\u001b[39m'],
  ] as const
  itForSome(coloured, ([command]) => command === 'targets')(
    'of arke %s change nothing but the colours',
    async ([command, args, part]) => {
      const [coloured, piped] = await Promise.all([onTerminal(command, ...args), arke(command, ...args)])
      expect(coloured.stdout.replace(/ {2,}/g, '  ')).toContain(part)
      expect(stripVTControlCharacters(coloured.stdout)).toBe(piped.stdout)
      expect(piped.stdout).not.toContain('\u001b')
    },
  )

  it('are never in JSON, nor in a file', async () => {
    const { stdout } = await onTerminal('check', broken, '--schedules', '0', '--json')
    expect(stdout).not.toContain('\u001b')
    await onTerminal('targets', '--out', 'plain.txt')
    expect(written('plain.txt')).not.toContain('\u001b')
  })
})

describe('--out', () => {
  const commands = [
    ['check', [broken, '--schedules', '0', '--json']],
    ['check', [broken, '--schedules', '0']],
    ['audit', ['rank0.json', '--json']],
    ['emit', [broken]],
    ['targets', ['--json']],
  ] as const
  itForSome(commands, ([command]) => command === 'targets')(
    'of arke %s %j takes what would be printed',
    async ([command, args]) => {
      const printed = await arke(command, ...args)
      const ended = await arke(command, ...args, '--out', 'out.txt')
      expect(ended).toEqual({ ...printed, stdout: '' })
      expect(written('out.txt')).toBe(printed.stdout)
    },
  )

  it('replaces a file that is no input, and leaves nothing beside it', async () => {
    writeFileSync(here('old.json'), 'old')
    expect((await arke('targets', '--json', '--out', 'old.json')).code).toBe(0)
    const { targets } = JSON.parse(written('old.json')) as { targets: { name: string; usable: boolean }[] }
    expect(targets.map(({ name }) => name)).toEqual(['check', 'wasm', 'native', 'cuda'])
    expect(targets[0].usable).toBe(true)
    expect(readdirSync(folder).filter((name) => name.endsWith('.part'))).toEqual([])
  })

  it('after an interrupt takes the results so far', async () => {
    const printed: string[] = []
    const stream = new Writable({
      decodeStrings: false,
      write: (text: string, _, done) => {
        printed.push(text)
        done()
      },
    }) as unknown as NodeJS.WriteStream
    const output = new Output(stream, here('interrupted.txt'), plain)
    output.print('so far')
    await output.done(AbortSignal.abort())
    expect(printed).toEqual([])
    expect(written('interrupted.txt')).toBe('so far\n')
    expect(placeOfResults()).toBe(`in ${here('interrupted.txt')}`)
  })
})

describe('a reader that stops reading', () => {
  /** Starts the command with a standard output that no process reads. The result is the exit status of the command. */
  const unreadEnded = (...args: string[]): Promise<Ended> => {
    const { child, ended } = start(args, [project.main], folder)
    child.stdout!.destroy()
    return ended
  }
  const unread = async (...args: string[]): Promise<number | null> => (await unreadEnded(...args)).code
  const run = [
    'run',
    join(project.folder, 'examples/00-load.ts'),
    '--target',
    'wasm',
    '--ranks',
    '1',
    '--runs',
    '1',
  ]

  it('ends a command that only prints', long, async () => {
    expect(await unread('audit', '--demo', '--no-html')).toBe(0)
    const { code, stderr } = await unreadEnded('check', join(project.folder, 'examples/00-load.ts'))
    expect({ code, stderr }).toEqual({ code: 0, stderr: '' })
  })

  it('does not lose the files that a command writes', long, async () => {
    expect(await unread(...run, '--report', 'unread.html', '--trace', 'unread.json')).toBe(0)
    expect(written('unread.html')).toMatch(/^<!doctype html>/i)
    expect(JSON.parse(written('unread.json'))).toHaveProperty('traceEvents')
    // The command writes a large document in many steps, and has to wait for the process that reads it.
    expect(await unread('audit', '--demo', '--json', '--html', 'audit.html')).toBe(0)
    expect(written('audit.html')).toMatch(/^<!doctype html>/i)
  })

  it('does not change the exit status of such a command', async () => {
    writeFileSync(
      here('fails.mjs'),
      `import { scenario } from ${JSON.stringify(join(project.folder, 'node_modules/arke/dist/index.js'))}
export const fails = scenario('fails', { ranks: 1 }, async () => { throw new Error('not today') })
`,
    )
    expect(await unread('run', 'fails.mjs', '--target', 'wasm', '--report', 'fails.html')).toBe(1)
    expect(written('fails.html')).toContain('not today')
  })
})

describe('no output overwrites an input', () => {
  symlinkSync('rank0.json', here('symbolic.json'))
  linkSync(here('rank1.json'), here('hard.txt'))
  writeFileSync(here('kernel.mjs'), readFileSync(broken, 'utf8'))
  const traces = written('rank0.json') + written('rank1.json') + written('kernel.mjs')

  const overwriting = [
    ['itself', ['audit', 'rank0.json', '--json', '--out', 'rank0.json'], 'the input;'],
    ['itself by another path', ['audit', 'rank0.json', '--out', './rank0.json'], 'the input rank0.json'],
    ['a symbolic link to it', ['audit', 'rank0.json', '--out', 'symbolic.json'], 'the input rank0.json'],
    ['what it is a link to', ['audit', 'symbolic.json', '--out', 'rank0.json'], 'the input symbolic.json'],
    ['a hard link to it', ['audit', 'rank1.json', '--out', 'hard.txt'], 'the input rank1.json'],
    ['a file of the folder', ['audit', '.', '--json', '--out', 'rank1.json'], 'the input'],
    ['a file of the pattern', ['audit', 'rank*.json', '--html', 'rank1.json'], 'the input'],
    [
      'what it is compared with',
      ['audit', 'rank0.json', '--compare', 'rank1.json', '--out', 'rank1.json'],
      'the input',
    ],
    ['the merged trace', ['audit', 'rank0.json', '--trace', 'rank0.json'], 'the input'],
    ['a checked file', ['check', 'kernel.mjs', '--out', 'kernel.mjs'], 'the input'],
    ['an emitted file', ['emit', 'kernel.mjs', '--out', 'kernel.mjs'], 'the input'],
  ] as const
  // The short tests have one case of each kind of input and of each option that writes a file.
  const shortOnes = [
    ...['itself', 'a symbolic link to it', 'a file of the pattern', 'what it is compared with'],
    ...['the merged trace', 'a checked file'],
  ]
  itForSome(overwriting, ([name]) => shortOnes.includes(name))('%s', async ([, args, what]) => {
    const { code, stdout, stderr } = await arke(...args)
    expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
    expect(stderr).toMatch(
      /^arke: --(?:out|html|trace) \S+: would overwrite .*; give another --(?:out|html|trace)\n$/,
    )
    expect(stderr).toContain(`would overwrite ${what}`)
    expect(written('rank0.json') + written('rank1.json') + written('kernel.mjs')).toBe(traces)
  })

  it('nor another output', async () => {
    const { code, stderr } = await arke('audit', 'rank0.json', '--out', 'both', '--html', './both')
    expect({ code, stderr }).toEqual({
      code: 2,
      stderr: 'arke: ./both: given for --out and for --html; give two names\n',
    })
  })
})
