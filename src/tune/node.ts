/** Reads and writes the files of tuning. No other file in this folder uses Node's API. */
import { mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { homedir } from 'node:os'
import { dirname, join } from 'node:path'
import process from 'node:process'

export function cachePath(): string {
  const caches = process.env['XDG_CACHE_HOME'] || join(homedir(), '.cache')
  return join(process.env['ARKE_CACHE'] || join(caches, 'arke'), 'tuned.json')
}

/** The contents of a file, or undefined if the file does not exist or cannot be read. */
export function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

/** Replaces a file atomically: writes a temporary file and renames it. */
export function replaceText(path: string, text: string): void {
  mkdirSync(dirname(path), { recursive: true })
  const aside = `${path}.${process.pid}`
  try {
    writeFileSync(aside, text)
    renameSync(aside, path)
  } catch (error) {
    rmSync(aside, { force: true })
    throw error
  }
}
