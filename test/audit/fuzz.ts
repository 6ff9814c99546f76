/**
 * Corrupts traces and audits them in a separate process that can be killed. An audit must not fail with anything but an
 * `AuditError`, must not hang, and must not exceed its memory limit. The results of an audit must be consistent.
 *
 *   npx tsx test/audit/fuzz.ts [--count 10000] [--seed 1] [--only INDEX]
 *
 * A try is identified by its seed and index: `--seed S --only I` repeats a single try.
 */
import { fork } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { AuditError } from '../../src/audit/auditError.ts'
import { auditFiles, type TraceBytes } from './auditFiles.ts'
import { corpus, type CorpusItem, haveRealTraces } from './corpus.ts'
import { corrupt } from './mutate.ts'
import { random } from './trace.ts'
import { problemsOf } from './wellFormed.ts'

export interface Try {
  readonly index: number
  /** The name of the trace and the corruptions that were applied to it. */
  readonly what: string
  readonly outcome: 'audited' | 'refused' | 'wrong' | 'thrown' | 'hung' | 'died'
  /** The problem that was found, or an empty string. */
  readonly problem: string
  readonly milliseconds: number
  /** The memory use of the process after the try, in MB. */
  readonly memory: number
}

export interface FuzzReport {
  readonly seed: number
  readonly count: number
  readonly real: boolean
  readonly outcomes: Readonly<Record<string, number>>
  readonly failures: readonly Try[]
  readonly slowest: Try | null
  /** The highest resident size of the process, in MB. */
  readonly memory: number
}

/** The number of milliseconds after which a try counts as hung. */
const LIMIT_MS = 20_000

/** Prepares one try. The same seed and index give the same files. */
function prepare(
  items: readonly CorpusItem[],
  seed: number,
  index: number,
): { files: TraceBytes[]; what: string } {
  const draw = random(Math.imul(seed, 0x9e3779b1) ^ Math.imul(index + 1, 0x85ebca6b))
  const total = items.reduce((sum, { weight }) => sum + weight, 0)
  let at = (draw(1e6) / 1e6) * total
  const item = items.find(({ weight }) => (at -= weight) < 0) ?? items[0]
  const other = items[draw(items.length)]
  const { bytes, how } = corrupt(item.bytes, other.bytes.subarray(0, 200_000), draw)
  const beside = items.filter(({ name }) => item.beside.includes(name))
  const files = [{ name: item.name, bytes }, ...beside.map(({ name, bytes }) => ({ name, bytes }))]
  return { files, what: `${item.name}: ${how}` }
}

/**
 * True if an "unreadable" message comes from an error in the reader. All files exist, so only the bytes of a database
 * may make a file unreadable, and the message must not be that of a JavaScript error.
 */
function isOwnError(message: string, files: readonly TraceBytes[]): boolean {
  const database = files.some(({ name }) => name.endsWith('.sqlite'))
  return (
    !database || /undefined|null|is not a|Invalid|[Oo]ut of (range|bounds|memory)|does not fit/.test(message)
  )
}

async function attempt(items: readonly CorpusItem[], seed: number, index: number): Promise<Try> {
  const { files, what } = prepare(items, seed, index)
  const from = performance.now()
  let [outcome, problem]: [Try['outcome'], string] = ['audited', '']
  try {
    const audited = await auditFiles(files)
    const problems = problemsOf(audited)
    const unread = audited.warnings.find((one) => one.class === 'unreadable')
    if (unread && isOwnError(unread.message, files)) problems.push(unread.message)
    if (problems.length > 0) [outcome, problem] = ['wrong', problems.join('; ')]
  } catch (error) {
    const unread = error instanceof AuditError && error.message.includes(': not readable (')
    if (error instanceof AuditError && !(unread && isOwnError(error.message, files))) outcome = 'refused'
    else [outcome, problem] = ['thrown', (error as Error).stack ?? String(error)]
  }
  const milliseconds = Math.round(performance.now() - from)
  return {
    index,
    what,
    outcome,
    problem,
    milliseconds,
    memory: Math.round(process.memoryUsage().rss / 2 ** 20),
  }
}

/** Runs the tries from 0 up to `count` in other processes. `onTry` is called after each try. */
export async function fuzz(
  count: number,
  seed: number,
  onTry: (one: Try) => void = () => {},
): Promise<FuzzReport> {
  const outcomes: Record<string, number> = {}
  const failures: Try[] = []
  let slowest: Try | null = null
  let memory = 0
  const note = (one: Try): void => {
    outcomes[one.outcome] = (outcomes[one.outcome] ?? 0) + 1
    if (one.outcome !== 'audited' && one.outcome !== 'refused') failures.push(one)
    if (slowest === null || one.milliseconds > slowest.milliseconds) slowest = one
    memory = Math.max(memory, one.memory)
    onTry(one)
  }
  for (let next = 0; next < count;) next = await runProcess(next, count, seed, note)
  return { seed, count, real: haveRealTraces, outcomes, failures, slowest, memory }
}

/** Runs tries from `from` on until the process ends or is killed. Returns the index of the next try. */
function runProcess(from: number, count: number, seed: number, note: (one: Try) => void): Promise<number> {
  return new Promise((resolve) => {
    let next = from
    let last = ''
    let hung = false
    const child = fork(
      fileURLToPath(import.meta.url),
      ['--child', String(seed), String(from), String(count)],
      {
        execArgv: ['--import', 'tsx', '--max-old-space-size=1024'],
        stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
      },
    )
    child.stderr?.on('data', (data: Buffer) => (last = (last + data.toString()).slice(-4000)))
    // The process reads all traces to corrupt before the first try.
    const wait = (limit: number): NodeJS.Timeout =>
      setTimeout(() => {
        hung = true
        child.kill('SIGKILL')
      }, limit)
    let timer = wait(3 * LIMIT_MS)
    child.on('message', (one: Try) => {
      clearTimeout(timer)
      note(one)
      next = one.index + 1
      timer = wait(LIMIT_MS)
    })
    child.on('exit', () => void finish())
    const finish = async (): Promise<void> => {
      clearTimeout(timer)
      if (next < count) {
        const { what } = prepare(await corpus(), seed, next)
        const outcome = hung ? 'hung' : 'died'
        note({ index: next, what, outcome, problem: last, milliseconds: hung ? LIMIT_MS : 0, memory: 0 })
        next++
      }
      resolve(next)
    }
  })
}

async function childMain([seed, from, count]: readonly number[]): Promise<void> {
  const items = await corpus()
  for (let index = from; index < count; index++) {
    const one = await attempt(items, seed, index)
    await new Promise<void>((resolve) => process.send?.(one, () => resolve()))
  }
  process.disconnect()
}

async function main(words: readonly string[]): Promise<void> {
  const option = (name: string, otherwise: number): number => {
    const at = words.indexOf(name)
    return at < 0 ? otherwise : Number(words[at + 1])
  }
  const seed = option('--seed', 1)
  const only = option('--only', -1)
  if (only >= 0) return console.log(await attempt(await corpus(), seed, only))
  const count = option('--count', 1000)
  if (!haveRealTraces)
    console.log('the real traces are not beside this checkout; only generated ones are corrupted')
  const report = await fuzz(count, seed, ({ index, outcome, what, problem }) => {
    if (outcome !== 'audited' && outcome !== 'refused')
      console.log(`${index} ${outcome}: ${what}\n${problem}\n`)
    else if ((index + 1) % 1000 === 0) console.log(`${index + 1} of ${count}`)
  })
  const { failures, ...rest } = report
  console.log({ ...rest, failures: failures.length })
  if (failures.length > 0) process.exitCode = 1
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const words = process.argv.slice(2)
  if (words[0] === '--child') await childMain(words.slice(1).map(Number))
  else await main(words)
}
