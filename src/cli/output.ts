/** Files that a command writes: checked before the work, and there whole or not at all. */
import { accessSync, constants, realpathSync, rmSync, type Stats, statSync } from 'node:fs'
import { rename, rm, writeFile } from 'node:fs/promises'
import { dirname } from 'node:path'
import { breathe } from '../runs/breath.ts'
import { UsageError } from './errors.ts'

const statOf = (path: string): Stats | undefined => statSync(path, { throwIfNoEntry: false })

/** Throws a `UsageError` where `path` cannot become a file; `instead` says what to do. */
export function checkOutput(path: string, instead: string): void {
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
