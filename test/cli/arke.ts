/** Runs the command from its source, as a user would, and gives back what it printed and how it ended. */
import { exec, spawn, type ChildProcess } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { join, relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll } from 'vitest'

export const root = fileURLToPath(new URL('../..', import.meta.url))
const command = ['--import', 'tsx', join(root, 'src/cli/main.ts')]

export interface Ended {
  readonly code: number | null
  readonly stdout: string
  readonly stderr: string
}

export function start(
  args: readonly string[],
  node: readonly string[] = command,
  cwd = root,
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

/** What a reader types at the root of the repository. */
export async function inShell(line: string): Promise<Pick<Ended, 'code' | 'stdout'>> {
  return new Promise((resolve) => {
    const child = exec(line, { cwd: root }, (_error, stdout) => resolve({ code: child.exitCode, stdout }))
  })
}

/** A folder in the repository for the author's files of a test, gone when the test file is done. */
export function authorFolder(): (name: string, text: string) => string {
  mkdirSync(join(root, '.arke-cache'), { recursive: true })
  const folder = mkdtempSync(join(root, '.arke-cache/author-'))
  afterAll(() => rmSync(folder, { recursive: true, force: true }))
  return (name, text) => {
    const path = join(folder, name)
    writeFileSync(path, text)
    return relative(root, path)
  }
}

/** The line of `text`, counted from 1, and the column of `needle` in it. */
export function placeOf(text: string, needle: string): { line: number; column: number } {
  const lines = text.split('\n')
  const line = lines.findIndex((one) => one.includes(needle))
  if (line < 0) throw new Error(`there is no ${needle}`)
  return { line: line + 1, column: lines[line].indexOf(needle) + 1 }
}
