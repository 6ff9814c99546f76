/**
 * What was tuned on this machine: one file, `tuned.json` in the folder of caches. A file that is no such table is ignored, with a
 * warning; it is replaced as a whole, so that a reader finds the old one or the new one.
 */
import { withTiles, type Asked, type Numbers, type Table, type Tables } from './tables.ts'
import { cachePath, readText, replaceText } from './node.ts'

let known: { readonly path: string; readonly tables: Tables } | undefined

/** Read once a process. */
export function tunedHere(): Tables {
  const path = cachePath()
  if (known?.path !== path) known = { path, tables: readTables(path) }
  return known.tables
}

/** Adds to what the file has by now; gives its path. */
export function remember(found: readonly { asked: Asked; tiles: Numbers }[]): string {
  const path = cachePath()
  const tables = withTiles(readTables(path), found)
  replaceText(path, `${JSON.stringify(tables, undefined, 1)}\n`)
  known = { path, tables }
  return path
}

function readTables(path: string): Tables {
  const text = readText(path)
  if (text === undefined) return {}
  try {
    const found: unknown = JSON.parse(text)
    if (isRecordOf(isTable)(found)) return found
  } catch {
    // It is no JSON, and so no table.
  }
  console.warn(`arke: ${path} is no table of tiles and is ignored: run arke tune again, or remove it`)
  return {}
}

const isRecordOf =
  <Value>(isValue: (value: unknown) => value is Value) =>
  (value: unknown): value is Readonly<Record<string, Value>> =>
    typeof value === 'object' &&
    value !== null &&
    !Array.isArray(value) &&
    Object.values(value).every(isValue)
const isNumber = (value: unknown): value is number => typeof value === 'number'
const isTable: (value: unknown) => value is Table = isRecordOf(isRecordOf(isRecordOf(isNumber)))
