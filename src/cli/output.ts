/**
 * Files that a command writes. They are checked before the work: no output overwrites an input or another output. A file is written
 * whole or not at all, also when the command is interrupted.
 */
import { once } from 'node:events'
import { accessSync, constants, realpathSync, rmSync, type Stats, statSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { plain, type Style } from '../report/style.ts'
import { breathe } from '../runs/breath.ts'
import { UsageError } from './errors.ts'

const statOf = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false })

/** Names of options with their files; undefined where there is none. */
export type Outputs = Readonly<Record<string, string | undefined>>

/** Throws a `UsageError` for an output that cannot be written, that is an input, or that another option names, too. */
export function checkOutputs(outputs: Outputs, inputs: readonly string[] = []): void {
  const checked = new Map<string, string>()
  for (const [option, path] of Object.entries(outputs)) {
    if (path === undefined) continue
    checkOutput(path, `give another --${option}`)
    const input = inputs.find((one) => isSameFile(one, path))
    if (input !== undefined)
      throw new UsageError(
        `--${option} ${path}: would overwrite the input${input === path ? '' : ` ${input}`}; give another --${option}`,
      )
    for (const [other, written] of checked)
      if (resolve(written) === resolve(path) || isSameFile(written, path))
        throw new UsageError(`${path}: given for --${other} and for --${option}; give two names`)
    checked.set(option, path)
  }
}

/** Whether both paths lead to one file that is there: through links of either kind. */
function isSameFile(one: string, other: string): boolean {
  const [a, b] = [statOf(one), statOf(other)]
  return a !== undefined && b !== undefined && a.isFile() && a.dev === b.dev && a.ino === b.ino
}

/** Throws a `UsageError` where `path` cannot become a file; `instead` says what to do. */
function checkOutput(path: string, instead: string): void {
  const folder = dirname(path)
  const cannot = (why: string): UsageError => new UsageError(`${path}: cannot be written: ${why}; ${instead}`)
  try {
    if (!statOf(folder)?.isDirectory()) throw cannot(`there is no folder ${folder}`)
    const there = statOf(path)
    if (there?.isDirectory()) throw cannot('it is a folder')
    accessSync(there && !there.isFile() ? path : folder, constants.W_OK)
    if (there) accessSync(path, constants.W_OK)
  } catch (error) {
    throw error instanceof UsageError ? error : cannot(reason(error))
  }
}

/** To a name beside it first, so that a file that is there is complete; what is no plain file is written as it is. */
export async function writeOutput(
  path: string,
  pieces: Iterable<string>,
  interrupt?: AbortSignal,
): Promise<void> {
  const there = statOf(path)
  const plain = !there || there.isFile()
  const target = there ? realpathSync(path) : path
  const written = plain ? `${target}.${process.pid}.part` : target
  const remove = (): void => rmSync(written, { force: true })
  // An interrupt ends the process from wherever it is.
  if (plain) process.once('exit', remove)
  try {
    await writeFile(written, breathing(pieces, interrupt), { signal: interrupt })
    if (plain) await rename(written, target)
  } catch (error) {
    if (plain) await rm(written, { force: true })
    if ((error as NodeJS.ErrnoException).syscall === undefined) throw error
    throw new UsageError(`${path}: cannot be written: ${reason(error)}`)
  } finally {
    process.off('exit', remove)
  }
}

/** Making a page takes a while: signals are heard meanwhile. */
async function* breathing(
  pieces: Iterable<string>,
  interrupt: AbortSignal | undefined,
): AsyncGenerator<string> {
  for (const piece of pieces) {
    await breathe(interrupt)
    yield piece
  }
}

const reason = (error: unknown): string =>
  (error as Error).message.replace(/^\w+: /, '').replace(/, \w+ '.*$/, '')

/** Where a command prints: on a terminal or a pipe, or, with --out, into a file. */
export class Output {
  readonly #stream: NodeJS.WriteStream
  readonly #file: string | undefined
  readonly #pieces: Iterable<string>[] = []
  readonly style: Style

  constructor(stream: NodeJS.WriteStream, file: string | undefined, style: Style) {
    this.#stream = stream
    this.#file = file
    this.style = file === undefined ? style : plain
  }

  readonly print = (text: string): void => {
    if (this.#file === undefined) this.#stream.write(`${text}\n`)
    else this.#pieces.push([`${text}\n`])
  }

  /** Prints a text that may be too long for one string. */
  readonly pour = async (pieces: Iterable<string>): Promise<void> => {
    if (this.#file !== undefined) this.#pieces.push(pieces)
    else for (const piece of pieces) if (!this.#stream.write(piece)) await once(this.#stream, 'drain')
  }

  /** Writes the file. After an interrupt there is none: what was printed goes to the stream. */
  async done(interrupt?: AbortSignal): Promise<void> {
    if (this.#file === undefined) return
    if (!interrupt?.aborted) return writeOutput(this.#file, all(this.#pieces), interrupt)
    for (const piece of all(this.#pieces)) this.#stream.write(piece)
  }
}

function* all(texts: readonly Iterable<string>[]): Generator<string> {
  for (const text of texts) yield* text
}
