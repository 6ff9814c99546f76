/**
 * Formats errors of the command line: the position in the author's file first, then the problem. The text is one line,
 * except for the error of a stopped world, whose message has one line per waiting program and per signal.
 */
import { relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isOwnCode } from '../files.ts'

/**
 * The error for a mistake in the command or in its input files. The message of a UsageError states the problem and what
 * to do.
 */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return flat(`a value that is not an Error was thrown: ${String(error)}`)
  // The messages of KernelError and Stray begin with a position. The errors UsageError and AuditError need no position
  // in a file.
  if (['KernelError', 'UsageError', 'AuditError', 'Stray'].includes(error.name)) return flat(error.message)
  const place = authorPlace(error.stack ?? '')
  const isStopped = error.name === 'WorldStopped'
  const what =
    isStopped || ['Error', 'RangeError', 'WorldError'].includes(error.name) ? '' : `${error.name}: `
  const message = isStopped ? withoutFolder(error.message) : flat(`${what}${error.message}`)
  return place && !message.includes(place) && !/^\S+:\d+:\d+: /.test(message)
    ? `${place}: ${message}`
    : message
}

/** The position of the first stack frame outside Node, the dependencies and Arke. */
function authorPlace(stack: string): string | undefined {
  for (const line of stack.split('\n').slice(1)) {
    const match = /(?:\(|at )(?:async )?((?:file:\/\/)?[/A-Za-z][^()]*?):(\d+):(\d+)\)?$/.exec(line.trim())
    if (!match) continue
    const path = toPath(match[1])
    if (path.startsWith('node:') || path.includes('node_modules')) continue
    if (isOwnCode(pathToFileURL(path).href)) continue
    return `${shorten(path)}:${match[2]}:${match[3]}`
  }
  return undefined
}

function toPath(file: string): string {
  const plain = file.replace(/\?.*$/, '')
  return plain.startsWith('file://') ? fileURLToPath(plain) : plain
}

export function shorten(path: string): string {
  const short = relative(process.cwd(), path)
  return short.startsWith('..') ? path : short
}

const withoutFolder = (text: string): string => text.replaceAll(`${process.cwd()}/`, '')

function flat(text: string): string {
  return withoutFolder(text).split('\n').filter(Boolean).join(' ').replace(/\s+/g, ' ').trim()
}
