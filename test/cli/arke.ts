/**
 * Runs the `arke` command as a user would, installed or from source. The result is the command's output and its exit
 * status.
 */
import { exec, spawn, type ChildProcess } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'
import { installed } from './installed.ts'

export const root = fileURLToPath(new URL('../..', import.meta.url))
/** A project folder with the package installed, in which the command runs. */
export const project = await installed()

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export function start(
  args: readonly string[],
  node: readonly string[] = [project.main],
  cwd = project.folder,
): { child: ChildProcess; ended: Promise<Ended> } {
  const child = spawn(process.execPath, [...node, ...args], { cwd, stdio: ['ignore', 'pipe', 'pipe'] })
  let stdout = ''
  let stderr = ''
  child.stdout.setEncoding('utf8').on('data', (text: string) => (stdout += text))
  child.stderr.setEncoding('utf8').on('data', (text: string) => (stderr += text))
  const ended = new Promise<Ended>((resolve, reject) => {
    child.on('error', reject)
    child.on('close', (code) => resolve({ code, stdout, stderr }))
  })
  return { child, ended }
}

export const arke = (...args: string[]): Promise<Ended> => start(args).ended

/** Runs the command from source, in the root of the repository, as `npm start` does. */
export const arkeFromSource = (...args: string[]): Promise<Ended> =>
  start(args, ['--import', 'tsx', join(root, 'src/cli/main.ts')], root).ended

/** Runs a shell command line in the project folder. */
export async function inShell(line: string): Promise<Pick<Ended, 'code' | 'stdout'>> {
  return new Promise((resolve) => {
    const child = exec(line, { cwd: project.folder }, (_error, stdout) =>
      resolve({ code: child.exitCode, stdout }),
    )
  })
}

/**
 * Creates a folder in the project for the author's files of a test. The folder is removed after the last test of the
 * file.
 */
export function authorFolder(): (name: string, text: string) => string {
  const folder = mkdtempSync(join(project.folder, 'author-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return relative(project.folder, path)
  }
}

/** The line number (counted from 1) and the column of the string `needle` in `text`. */
export function placeOf(text: string, needle: string): { line: number; column: number } {
  const lines = text.split('\n')
  const line = lines.findIndex((one) => one.includes(needle))
  if (line < 0) throw new Error(`there is no ${needle}`)
  return { line: line + 1, column: lines[line].indexOf(needle) + 1 }
}
