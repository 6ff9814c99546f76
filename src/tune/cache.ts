/**
 * The tuned tiles for this machine, which are stored in the file `tuned.json` in the cache folder. A file that is not a
 * valid table is ignored with a warning. The file is replaced atomically, so that a reader finds either the old table
 * or the new table.
 */
import { withTiles, type Asked, type Numbers, type Table, type Tables } from './tables.ts'
import { cachePath, readText, replaceText } from './node.ts'

let known: { readonly path: string; readonly tables: Tables } | undefined

/** The tables of tuned tiles, once they have been read. Each process reads the file only once. */
export function tunedHere(): Tables {
  const path = cachePath()
  if (known?.path !== path) known = { path, tables: readTables(path) }
  return known.tables
}

/** Adds tuned tiles to the current contents of the file. Returns the path of the tuning file. */
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
    // If the file is not JSON, it is not a table of tiles.
  }
  console.warn(
    `arke: ${path} is ignored because it is not a table of tiles: run arke tune again, or remove the file`,
  )
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
