/** Formats errors of the command line as one line: the position in the author's file first, then the problem. */
import { relative } from 'node:path'
import { fileURLToPath, pathToFileURL } from 'node:url'
import { isOwnCode } from '../files.ts'

/** An error in the command or its input files. The message states the problem and what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return flat(`something that is no Error was thrown: ${String(error)}`)
  // The messages of KernelError and Stray begin with a position. UsageError and AuditError need no position.
  if (['KernelError', 'UsageError', 'AuditError', 'Stray'].includes(error.name)) return flat(error.message)
  const place = authorPlace(error.stack ?? '')
  const what = ['Error', 'RangeError', 'WorldError'].includes(error.name) ? '' : `${error.name}: `
  const message = flat(`${what}${error.message}`)
  return place && !message.includes(place) && !/^\S+:\d+:\d+: /.test(message)
    ? `${place}: ${message}`
    : message
}

/** The position of the first stack frame that is not in Node, in a dependency or in Arke. */
function authorPlace(stack: string): string | undefined {
  for (const line of stack.split('\n').slice(1)) {
    const match = /(?:\(|at |async )((?:file:\/\/)?[/A-Za-z][^()]*?):(\d+):(\d+)\)?$/.exec(line.trim())
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

function flat(text: string): string {
  const folder = `${process.cwd()}/`
  return text.split(folder).join('').split('\n').filter(Boolean).join(' ').replace(/\s+/g, ' ').trim()
}
