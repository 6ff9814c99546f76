/**
 * Tests the inputs that the command rejects: one line on stderr with the problem and its position, exit status 2, and
 * nothing on stdout.
 */
import { describe, expect, it } from 'vitest'
import { arke, authorFolder, placeOf } from './arke.ts'
import { itForSome, long } from '../long.ts'

const file = authorFolder()
const fill = `import { f32, i32, kernel, scenario, tensor } from 'arke'
export const fill = kernel('fill', { x: tensor(f32, 1) }, { B: 4, fast: true, tag: 'a' }, (t, { x }, { B }) => {
  t.store(x.tile([0], [B]), 1)
})
`

async function refused(args: readonly string[], problem: RegExp): Promise<void> {
  const { code, stdout, stderr } = await arke(...args)
  expect(stderr).toMatch(problem)
  expect(stderr.split('\n')).toHaveLength(2)
  expect(stderr).toMatch(/^arke: /)
  expect(stdout).toBe('')
  expect(code).toBe(2)
}

describe('files', () => {
  it('that do not exist', () => refused(['check', 'none.ts'], /none\.ts: there is no such file/))
  it('that are folders', long, () => refused(['check', 'examples'], /examples: is not a file/))
  it('that hold no program', () => refused(['check', 'package.json'], /\.ts, \.js, \.mjs/))
  it('that export no kernel', long, () =>
    refused(['check', file('empty.mjs', 'export const x = 1\n')], /exports no kernel, scenario or operation/),
  )

  it('that throw while loading, in TypeScript', () => {
    const text = "interface A { a: 1 }\nexport const a: A = { a: 1 }\n  throw new Error('not\\ntoday')\n"
    const path = file('throws.ts', text)
    return refused(['check', path], new RegExp(`${path}:3:9: not today`))
  })
  it('that throw while loading, in JavaScript', long, () => {
    const path = file('throws.mjs', '\nnull.x\n')
    return refused(['emit', path], new RegExp(`${path}:2:6: TypeError: `))
  })
  it('that are not TypeScript', () => {
    const path = file('syntax.ts', 'export const x = 1\nconst = 2\n')
    return refused(['check', path], new RegExp(`${path}:2:6`))
  })
  it('that are not JavaScript', long, () =>
    refused(
      ['check', file('syntax.mjs', 'export const x = 1\nconst = 2\n')],
      /does not load: line 2: SyntaxError/,
    ),
  )
  it('that import what is not there', () =>
    refused(['check', file('imports.ts', "import './nothing.ts'\n")], /does not load: Cannot find module/))
})

describe('kernels', () => {
  it('that cannot be recorded', long, () => {
    const text = fill.replace('t.store(', 'void `${x as unknown as string}`\n  t.store(')
    const path = file('coerced.ts', text)
    const { line } = placeOf(text, 'void `')
    return refused(['emit', path], new RegExp(`${path}:${line}:\\d+: a symbolic value has no number`))
  })
  it('that throw while they are recorded', long, () => {
    const text = fill.replace('t.store(', "JSON.parse('{')\n  t.store(")
    const path = file('throwing.mjs', text)
    return refused(
      ['emit', path],
      new RegExp(`${path}:${placeOf(text, 'JSON.parse').line}:\\d+: SyntaxError`),
    )
  })
  it('that the file does not have', long, () =>
    refused(['emit', file('named.mjs', fill), '--kernel', 'pour'], /has no kernel pour; it has fill/),
  )
})

it('an unknown command lists the commands', async () => {
  const { code, stdout, stderr } = await arke('chekc')
  expect({ code, stdout }).toEqual({ code: 2, stdout: '' })
  const [line, , title, ...commands] = stderr.trimEnd().split('\n')
  expect(line).toBe("arke: unknown command 'chekc' (did you mean check?)")
  expect(title).toBe('Commands:')
  expect(commands.map((one) => /^ {2}(\w+) {2,}\S/.exec(one)?.[1])).toEqual([
    'check',
    'audit',
    'emit',
    'bench',
    'tune',
    'run',
    'targets',
    'operations',
    'demo',
  ])
})

describe('options', () => {
  const path = file('fill.mjs', fill)
  const wrong = [
    [['check', path, '--ranks', '0'], /--ranks.*from 1 to 64/],
    [['check', path, '--ranks', '65'], /--ranks.*from 1 to 64/],
    [['check', path, '--ranks', 'two'], /'two' is invalid.*from 1 to 64/],
    [['check', path, '--schedules', '1.5'], /--schedules.*whole number from 0 up/],
    [['check', path, '--preemptions', '-1'], /--preemptions.*whole number from 0 up/],
    [
      ['check', path, '--stage', 'raw'],
      /--stage raw: cuda has no such stage; it has recorded, .*, words, order\s*$/,
    ],
    [['check', path, '--rank', '2'], /unknown option '--rank'.*--ranks/],
    [
      ['check', path, '--limit', '0', '--schedules', '0'],
      /--limit 0 --schedules 0: nothing would be checked, neither by a search nor/,
    ],
    [['check', path, '--scenario', 'x'], /--scenario "x": there is no such scenario; there is none/],
    [
      ['check', 'examples/00-load.ts', 'examples/01-store.ts', '--scenario', 'load'],
      /there is "load from a peer", "store to a peer"/,
    ],
    [['check'], /missing required argument 'file'/],
    [['emit', path, '--ranks', '100'], /--ranks.*from 1 to 64/],
    [
      ['emit', path, '--stage', 'ptx'],
      /--stage ptx: cuda has no such stage; it has recorded, .*, order, decide\s*$/,
    ],
    [['emit', path, '--meta', 'C=1'], /fill has no meta-parameter C; it has B, fast, tag/],
    [['emit', path, '--meta', 'B=x'], /B=x: must be a number/],
    [['emit', path, '--meta', 'fast=1'], /fast=1: must be true or false/],
    [['emit', path, '--meta', 'B'], /write KEY=VALUE/],
  ] as const
  itForSome(wrong, (_, place) => place % 6 === 0)('%j', ([args, problem]) => refused(args, problem))
})
