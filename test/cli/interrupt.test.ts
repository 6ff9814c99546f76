/**
 * Sends real signals to the installed command: while kernels run, while a compiler runs, while the checker runs, and
 * while files are read. The command must exit with status 130 or 143, print a message, and leave no process and no
 * temporary file.
 */
import { spawn } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as pause } from 'node:timers/promises'
import { afterAll, describe, expect, it } from 'vitest'
import { nativeStatus } from '../../src/targets/native/world.ts'
import { authorFolder, project } from './arke.ts'
import { long } from '../long.ts'

const folder = mkdtempSync(join(tmpdir(), 'arke-interrupt-'))
afterAll(() => rmSync(folder, { recursive: true, force: true }))
/** The cache folder of compiled kernels and tuned tiles. */
const cache = join(folder, 'cache')
/** The folder in which the command creates temporary files. */
const temporary = join(folder, 'temporary')
mkdirSync(temporary)
const file = authorFolder()

interface Ended {
  readonly code: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

/**
 * Sends the signal at the given moment. Kills the command with SIGKILL if it has not ended 20 s later, so that the
 * returned `signal` is SIGKILL.
 */
async function signalled(
  args: readonly string[],
  moment: (child: { stdout: () => string; stderr: () => string }) => Promise<void>,
  { name = 'SIGINT' as NodeJS.Signals, env = {}, times = 1 } = {},
): Promise<Ended> {
  const child = spawn(process.execPath, [project.main, ...args], {
    cwd: project.folder,
    stdio: ['ignore', 'pipe', 'pipe'],
    env: { ...process.env, TMPDIR: temporary, ARKE_CACHE: cache, ...env },
  })
  const printed = { stdout: '', stderr: '' }
  for (const stream of ['stdout', 'stderr'] as const)
    child[stream].setEncoding('utf8').on('data', (text: string) => (printed[stream] += text))
  const ended = new Promise<Ended>((resolve) =>
    child.on('close', (code, signal) => resolve({ code, signal, ...printed })),
  )
  await moment({ stdout: () => printed.stdout, stderr: () => printed.stderr })
  for (let n = 0; n < times; n++) {
    if (n > 0) await pause(20) // the system merges pending signals into one
    child.kill(name)
  }
  const timer = setTimeout(() => child.kill('SIGKILL'), 20_000)
  return ended.finally(() => clearTimeout(timer))
}

async function until(isTrue: () => boolean): Promise<void> {
  while (!isTrue()) await pause(10)
}

/** Files that an interrupted command may have left behind: unfinished libraries and incomplete output files. */
function left(): string[] {
  const libraries = join(cache, 'native')
  return [
    ...readdirSync(temporary),
    ...(existsSync(cache) ? readdirSync(cache).filter((name) => /\.json\./.test(name)) : []),
    ...(existsSync(libraries)
      ? readdirSync(libraries).filter((name) => /^building-|^broken-/.test(name))
      : []),
    ...readdirSync(project.folder).filter((name) => name.endsWith('.part')),
  ]
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch {
    return false
  }
}

const native = nativeStatus()
if (!native.usable) console.warn(`skipped: ${native.about}`)
const targets = native.usable ? ['wasm', 'native'] : ['wasm']
const said = /^arke: interrupted by SIGINT; (there are no results|the results above are incomplete)\n$/

describe.each(targets)('a signal while kernels run on %s', (target) => {
  const decode = ['flash-decode', '--target', target, '--seconds', '60']

  it('ends arke bench with 130 and the rows so far', long, async () => {
    const ended = await signalled(['bench', ...decode], async ({ stdout }) => {
      await until(() => stdout().includes('flashDecode on 2 ranks'))
      await pause(2500)
    })
    expect(ended).toMatchObject({ code: 130, signal: null })
    expect(ended.stderr).toMatch(said)
    if (ended.stderr.includes('incomplete'))
      expect(ended.stdout).toMatch(/interrupted after \d+ rounds?\n.*\n *bsp /)
    expect(left()).toEqual([])
  })

  it('ends arke tune with 130', long, async () => {
    const ended = await signalled(['tune', ...decode], () => pause(2000))
    expect(ended).toMatchObject({ code: 130, signal: null })
    expect(ended.stderr).toMatch(said)
    expect(left()).toEqual([])
  })

  it('ends it with 143, and with a whole JSON document or none', long, async () => {
    const ended = await signalled(['tune', ...decode, '--json'], () => pause(2500), { name: 'SIGTERM' })
    expect(ended).toMatchObject({ code: 143, signal: null })
    expect(ended.stderr).toMatch(/^arke: interrupted by SIGTERM; /)
    if (ended.stdout !== '') expect(JSON.parse(ended.stdout)).toMatchObject({ interrupted: true })
  })
})

describe.skipIf(!native.usable)('a signal while a compiler runs', () => {
  it('ends the compiler and what that has started, and removes their files', async () => {
    const started = join(folder, 'started')
    const compiler = join(folder, 'slow-compiler')
    // A fake compiler that writes its process ids to a file and leaves a temporary file, as compilers do. Queries for
    // predefined macros are passed to the real compiler.
    writeFileSync(
      compiler,
      `#!/bin/sh
case " $* " in *" -dM "*) exec ${process.env['ARKE_CXX'] ?? 'c++'} "$@" ;; esac
touch "$TMPDIR/compiler-file.s"
sleep 300 &
echo $$ $! > '${started}.part'
mv '${started}.part' '${started}'
wait
`,
    )
    chmodSync(compiler, 0o755)
    const env = { ARKE_CXX: compiler, ARKE_CACHE: join(folder, 'slow-cache') }
    const ended = await signalled(
      ['bench', 'flash-decode', '--target', 'native'],
      () => until(() => existsSync(started)),
      { env },
    )
    expect(ended).toMatchObject({ code: 130, signal: null })
    const pids = readFileSync(started, 'utf8').trim().split(' ').map(Number)
    expect(pids).toHaveLength(2)
    await until(() => !pids.some(isAlive))
    expect(readdirSync(join(env.ARKE_CACHE, 'native'))).toEqual([])
    expect(left()).toEqual([])
  })
})

describe('a signal to arke check', () => {
  const program = `import { f32, kernel, scenario, tensor } from 'arke'
const fill = kernel('fill', { x: tensor(f32, 1) }, (t, { x }) => t.store(x.at([0]), t.rank.to(f32)))
export const scenarios = [
  scenario('fills', { ranks: 2 }, async (world) => {
    process.stderr.write('running\\n')
    const x = world.zeros(f32, [1])
    world.launch(fill, { x }, { grid: 1 })
    await world.read(x, 0)
  }),
]
`
  const endless = ['--limit', '0', '--schedules', '100000000']
  const running = async ({ stderr }: { stderr: () => string }): Promise<void> =>
    until(() => stderr().includes('running'))

  it('prints what was explored, as incomplete', async () => {
    const ended = await signalled(['check', file('fills.mjs', program), ...endless], running)
    expect(ended.code).toBe(130)
    expect(ended.stdout).toMatch(
      /2 ranks, recorded: \d+ random schedules? \(seeds from 1; incomplete: interrupted\): ok so far, interrupted\n1 scenario, 0 findings, 1 of 1 run incomplete; interrupted\n$/,
    )
    expect(ended.stderr).toMatch(/arke: interrupted by SIGINT; the results above are incomplete\n$/)
  })

  it('counts once if a wrapper has sent it again at once', async () => {
    const text = program.replace(
      "process.stderr.write('running\\n')",
      "process.stderr.write('running\\n')\n    const until = Date.now() + 100\n    while (Date.now() < until);",
    )
    const ended = await signalled(['check', file('fills3.mjs', text), ...endless], running, { times: 2 })
    expect(ended.code).toBe(130)
    expect(ended.stdout).toMatch(/1 scenario, 0 findings, 1 of 1 run incomplete; interrupted\n$/)
  })

  it('writes the results so far to the file of --out', async () => {
    const args = ['check', file('fills4.mjs', program), ...endless, '--json', '--out', 'partial.json']
    const ended = await signalled(args, running)
    expect(ended).toMatchObject({ code: 130, stdout: '' })
    expect(ended.stderr).toMatch(/the results in partial\.json are incomplete\n$/)
    const text = readFileSync(join(project.folder, 'partial.json'), 'utf8')
    expect(JSON.parse(text)).toMatchObject({ interrupted: true, scenarios: [{ interrupted: true }] })
  })

  it('marks its JSON document', long, async () => {
    const ended = await signalled(['check', file('fills2.mjs', program), ...endless, '--json'], running)
    expect(ended.code).toBe(130)
    expect(JSON.parse(ended.stdout)).toMatchObject({ interrupted: true, scenarios: [{ interrupted: true }] })
  })

  it('ends the process at once while a file of the author is loaded, whatever that does', async () => {
    const text = "process.stderr.write('running\\n')\nfor (;;);\n"
    const ended = await signalled(['check', file('loops.mjs', text)], running)
    expect(ended).toMatchObject({ code: null, signal: 'SIGINT' })
  })
})

describe('a signal to arke audit', () => {
  it('prints nothing but that, and leaves no file', async () => {
    const ended = await signalled(['audit', '--demo', '--html', 'interrupted.html'], () =>
      until(() => readdirSync(temporary).some((name) => name.startsWith('arke-demo-'))),
    )
    expect(ended).toEqual({
      code: 130,
      signal: null,
      stdout: '',
      stderr: 'arke: interrupted by SIGINT; there are no results\n',
    })
    expect(left()).toEqual([])
    expect(existsSync(join(project.folder, 'interrupted.html'))).toBe(false)
  })
})
