/**
 * Resolves the arguments of an audit to files. An argument is a file, a folder or a glob pattern. A folder means the
 * traces in it and in its direct subfolders. A glob pattern reaches Arke if the user quotes the pattern or if the shell
 * does not expand patterns. The files of a folder are sorted by name, with numbers in numeric order.
 */
import { readdirSync, statSync } from 'node:fs'
import { join, sep } from 'node:path'
import { isArchiveName } from './archive.ts'
import { AuditError } from './auditError.ts'

const traceName = /\.(?:json|json\.gz|json\.zst|sqlite|trace|trace\.gz|trace\.zst)$/i

export const isTraceName = (path: string): boolean => traceName.test(path)
/**
 * True for the files of a folder that are audited if the user names the folder. Archives are included, so that a
 * warning can say that archives are skipped.
 */
const isTaken = (path: string): boolean => isTraceName(path) || isArchiveName(path)

/** Returns the distinct paths. Throws an `AuditError` if a path does not exist or yields no file. */
export function tracePaths(inputs: readonly string[]): string[] {
  const found = new Set<string>()
  for (const input of inputs) for (const path of pathsOf(input)) found.add(path)
  return [...found]
}

function pathsOf(input: string): string[] {
  const kind = kindOf(input)
  if (kind === 'file') return [input]
  if (kind === 'folder') {
    const paths = filesIn(input, 1).filter(isTaken)
    if (paths.length > 0) return paths
    throw new AuditError(
      `${input}: no trace found in this folder or its subfolders; trace files end in .json, .json.gz, .trace or .sqlite`,
    )
  }
  if (!/[*?[{]/.test(input)) throw new AuditError(`${input}: no such file or folder; check the path`)
  const matching = matches(input)
  const paths = matching.flatMap((path) =>
    kindOf(path) === 'folder' ? filesIn(path, 1).filter(isTaken) : [path],
  )
  if (paths.length === 0) throw new AuditError(`${input}: no file matches this pattern; check the path`)
  return paths
}

function kindOf(path: string): 'file' | 'folder' | null {
  try {
    return statSync(path).isDirectory() ? 'folder' : 'file'
  } catch {
    return null
  }
}

const byName = (a: string, b: string): number => a.localeCompare(b, 'en', { numeric: true })

/** The files of a folder and of `depth` levels of subfolders, without hidden files and folders. */
function filesIn(folder: string, depth: number): string[] {
  const names = list(folder).filter((name) => !name.startsWith('.'))
  const files: string[] = []
  const folders: string[] = []
  for (const name of names) {
    const path = join(folder, name)
    const kind = kindOf(path)
    if (kind === 'file') files.push(path)
    else if (kind === 'folder') folders.push(path)
  }
  return depth === 0 ? files : [...files, ...folders.flatMap((one) => filesIn(one, depth - 1))]
}

function list(folder: string): string[] {
  try {
    return readdirSync(folder === '' ? '.' : folder).sort(byName)
  } catch {
    return []
  }
}

const DEPTH_LIMIT = 16

/** The files and folders that match a pattern of `*`, `?`, `**`, `{a,b}` and `[..]`. */
function matches(pattern: string): string[] {
  const found = new Set<string>()
  for (const plain of expandBraces(pattern)) {
    const parts = plain.split(sep === '\\' ? /[/\\]/ : '/')
    const root = parts[0] === '' ? sep : ''
    walk(root, parts[0] === '' ? parts.slice(1) : parts, 0, found)
  }
  return [...found]
}

function walk(folder: string, parts: readonly string[], depth: number, found: Set<string>): void {
  if (depth > DEPTH_LIMIT) return
  const [part, ...rest] = parts
  if (part === undefined) return
  if (part === '') return walk(folder, rest, depth, found)
  const go = (path: string): void => {
    if (rest.length > 0) walk(path, rest, depth + 1, found)
    else if (kindOf(path) !== null) found.add(path)
  }
  if (part === '**') {
    if (rest.length > 0) walk(folder, rest, depth, found)
    for (const name of list(folder)) {
      if (name.startsWith('.')) continue
      const path = join(folder, name)
      if (kindOf(path) === 'folder') walk(path, parts, depth + 1, found)
      else if (rest.length === 0) found.add(path)
    }
    return
  }
  if (!/[*?[]/.test(part)) return go(join(folder, part))
  const wanted = partPattern(part)
  for (const name of list(folder))
    if (wanted.test(name) && (part.startsWith('.') || !name.startsWith('.'))) go(join(folder, name))
}

/** Returns the regular expression for the text between two slashes of a glob pattern. */
export function partPattern(part: string): RegExp {
  let text = ''
  for (let at = 0; at < part.length; at++) {
    const character = part[at]
    const close = character === '[' ? part.indexOf(']', at + 2) : -1
    if (character === '*') text += '.*'
    else if (character === '?') text += '.'
    else if (close > 0) {
      const set = part.slice(at + 1, close).replace(/[\\\]^[]/g, '\\$&')
      text += `[${/^(!|\\\^)/.test(set) ? `^${set.replace(/^(!|\\\^)/, '')}` : set}]`
      at = close
    } else text += character.replace(/[.+^${}()|[\]\\]/g, '\\$&')
  }
  try {
    return new RegExp(`^${text}$`, 's')
  } catch {
    // An invalid set such as [z-a] matches nothing.
    return /^(?!)/
  }
}

/** Expands braces: `a{b,c}d` becomes `abd` and `acd`. Braces may nest. */
export function expandBraces(pattern: string): string[] {
  const open = pattern.indexOf('{')
  if (open < 0) return [pattern]
  const choices: string[] = []
  let depth = 0
  let from = open + 1
  for (let at = open; at < pattern.length; at++) {
    if (pattern[at] === '{') depth++
    else if (pattern[at] === ',' && depth === 1) {
      choices.push(pattern.slice(from, at))
      from = at + 1
    } else if (pattern[at] === '}' && --depth === 0) {
      choices.push(pattern.slice(from, at))
      const [before, after] = [pattern.slice(0, open), pattern.slice(at + 1)]
      return choices.flatMap((choice) => expandBraces(before + choice + after))
    }
  }
  return [pattern]
}
