/**
 * Writes the output files of a command. Paths are checked before the work begins, so that no output overwrites an input
 * or another output. A file is written completely or not at all, even if the command is interrupted.
 */
import { once } from 'node:events'
import { accessSync, constants, realpathSync, rmSync, type Stats, statSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { dirname, resolve } from 'node:path'
import { plain, type Style } from '../report/style.ts'
import { breathe } from '../runs/breath.ts'
import { UsageError } from './errors.ts'

const statOf = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false })

/** Maps the names of options to output paths. The path is undefined if the option is not given. */
export type Outputs = Readonly<Record<string, string | undefined>>

let hasOutputs = false
let resultsPlace = 'above'

/**
 * Where a user finds the results of an interrupted command: `above` on the terminal, or `in FILE` with the option
 * `--out`.
 */
export const placeOfResults = (): string => resultsPlace

/**
 * True if the command of this process writes files. A command that writes files continues when the reader of its
 * standard output stops reading.
 */
export const writesFiles = (): boolean => hasOutputs

/** Throws a `UsageError` if an output cannot be written, is also an input, or is given for two options. */
export function checkOutputs(outputs: Outputs, inputs: readonly string[] = []): void {
  const checked = new Map<string, string>()
  for (const [option, path] of Object.entries(outputs)) {
    if (path === undefined) continue
    hasOutputs = true
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

/** True if both paths refer to the same existing file, also through symbolic or hard links. */
function isSameFile(one: string, other: string): boolean {
  const [a, b] = [statOf(one), statOf(other)]
  return a !== undefined && b !== undefined && a.isFile() && a.dev === b.dev && a.ino === b.ino
}

/**
 * Throws a `UsageError` if `path` cannot be written as a file. The argument `instead` is advice to the user, with which
 * the error message ends.
 */
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

/**
 * Writes to a temporary file in the same folder and renames it, so that an existing file is always complete. A path
 * that does not name a regular file, such as a pipe, is written directly.
 */
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
  // An interrupt may end the process at any time, so an exit handler removes the temporary file.
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

/** Yields to the event loop between two writes, so that signals are handled while a large page is written. */
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

/** The destination of a command's text output: a terminal, a pipe, or the file given by `--out`. */
export class Output {
  readonly #stream: NodeJS.WriteStream
  readonly #file: string | undefined
  readonly #pieces: Iterable<string>[] = []
  readonly style: Style
  /**
   * True if the reader of the stream has stopped reading. Text that is printed after the reader has stopped reading is
   * lost.
   */
  #isClosed = false

  constructor(stream: NodeJS.WriteStream, file: string | undefined, style: Style) {
    this.#stream = stream
    // The command's listener for stream errors may end the process.
    stream.prependOnceListener('error', () => (this.#isClosed = true))
    this.#file = file
    this.style = file === undefined ? style : plain
  }

  get isClosed(): boolean {
    return this.#isClosed
  }

  readonly print = (text: string): void => {
    if (this.#isClosed) return
    if (this.#file === undefined) this.#stream.write(`${text}\n`)
    else this.#pieces.push([`${text}\n`])
  }

  /** Prints a text as several strings, because the text may be too long for one string. */
  readonly pour = async (pieces: Iterable<string>): Promise<void> => {
    if (this.#file !== undefined) {
      this.#pieces.push(pieces)
      return
    }
    for (const piece of pieces) {
      if (this.#isClosed) return
      // The error listener of the stream handles errors of the stream, so the promise of `once` ignores these errors.
      if (!this.#stream.write(piece)) await once(this.#stream, 'drain').catch(() => undefined)
    }
  }

  /** Writes the `--out` file. After an interrupt, the file contains the results so far. */
  async done(interrupt?: AbortSignal): Promise<void> {
    if (this.#file === undefined) return
    const isPartial = interrupt?.aborted ?? false
    if (isPartial && this.#pieces.length === 0) return
    await writeOutput(this.#file, all(this.#pieces), isPartial ? undefined : interrupt)
    if (isPartial) resultsPlace = `in ${this.#file}`
  }
}

function* all(texts: readonly Iterable<string>[]): Generator<string> {
  for (const text of texts) yield* text
}
