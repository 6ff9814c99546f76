/** What goes wrong at the command line, as one line for a person: the author's place first, then the problem. */
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { ownFile } from '../files.ts'

/** Something about the command or its files is wrong; the message says what and what to do. */
export class UsageError extends Error {
  override readonly name = 'UsageError'
}

/** The package's own code, whose frames are not the author's. */
const ownRoot = fileURLToPath(ownFile(''))

export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return flat(`something that is no Error was thrown: ${String(error)}`)
  // An error of the language starts with its place; one of the command line or of its input needs none.
  if (['KernelError', 'UsageError', 'AuditError', 'Stray'].includes(error.name)) return flat(error.message)
  const place = authorPlace(error.stack ?? '')
  const what = ['Error', 'RangeError', 'WorldError'].includes(error.name) ? '' : `${error.name}: `
  const message = flat(`${what}${error.message}`)
  return place && !message.includes(place) ? `${place}: ${message}` : message
}

/** The first frame of a stack that is neither Node's, nor a dependency's, nor ours. */
function authorPlace(stack: string): string | undefined {
  for (const line of stack.split('\n').slice(1)) {
    const match = /(?:\(|at |async )((?:file:\/\/)?[/A-Za-z][^()]*?):(\d+):(\d+)\)?$/.exec(line.trim())
    if (!match) continue
    const path = toPath(match[1])
    if (path.startsWith('node:') || path.includes('node_modules') || path.startsWith(ownRoot)) continue
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
