/**
 * Where in the author's source a node was recorded.
 *
 * Taking a site must be cheap (it happens for every node), so it keeps an Error, whose stack the engine formats, with
 * source maps where they are enabled, only when somebody reads it.
 */
import { packageFile } from '../files.ts'

export interface SourcePosition {
  readonly file: string
  readonly line: number
  readonly column: number
}

/**
 * Frames of these folders are Arke's own; the first frame outside them is the author's. Operations are author code. With source
 * maps, frames of the built files stand in the source folder too; without, the names of those say which have operations in them.
 */
const ownFolders = ['lang', 'ir', 'targets', 'world'].map((folder) => packageFile(`src/${folder}/`))
const builtFolder = packageFile('dist/')

const isOwn = (url: string): boolean =>
  url.startsWith(builtFolder)
    ? !/\/(?:ops\/index|operations-\w+)\.js$/.test(url)
    : ownFolders.some((folder) => url.startsWith(folder))

/** Arke's own frames between a node and its author are fewer than this; more would only cost time. */
const frames = 14

export class Site {
  readonly #trace: Error
  #position: SourcePosition | null | undefined

  private constructor(trace: Error) {
    this.#trace = trace
  }

  static here(): Site {
    const limit = Error.stackTraceLimit
    Error.stackTraceLimit = frames
    const trace = new Error()
    Error.stackTraceLimit = limit
    return new Site(trace)
  }

  /** Where an error was thrown. */
  static of(error: Error): Site {
    return new Site(error)
  }

  get position(): SourcePosition | undefined {
    if (this.#position === undefined) this.#position = authorFrame(this.#trace.stack ?? '') ?? null
    return this.#position ?? undefined
  }

  toString(): string {
    const at = this.position
    return at ? `${shorten(at.file)}:${at.line}:${at.column}` : '(unknown line)'
  }
}

/** The first frame that is not Arke's; one of a package only if there is no other. */
function authorFrame(stack: string): SourcePosition | undefined {
  let packaged: SourcePosition | undefined
  for (const line of stack.split('\n').slice(1)) {
    const match = /(?:\(|at |@)(?:async )?([^()\s]*?):(\d+):(\d+)\)?$/.exec(line.trim())
    if (!match) continue
    const file = match[1]
    if (file.startsWith('node:')) continue
    const url = file.startsWith('/') ? `file://${file}` : file
    if (isOwn(url) && !/\.test\.[jt]s$/.test(url)) continue
    const position = {
      file: file.replace(/^file:\/\//, '').replace(/\?.*$/, ''),
      line: Number(match[2]),
      column: Number(match[3]),
    }
    if (!file.includes('node_modules')) return position
    packaged ??= position
  }
  return packaged
}

function shorten(file: string): string {
  const folder = typeof process === 'undefined' ? '' : `${process.cwd()}/`
  return folder && file.startsWith(folder) ? file.slice(folder.length) : file
}

/** A mistake in a kernel, found while recording or verifying it: what is wrong, where, and what to do. */
export class KernelError extends Error {
  readonly site: Site | undefined
  readonly problem: string

  constructor(problem: string, site?: Site) {
    super(site ? `${site}: ${problem}` : problem)
    this.name = 'KernelError'
    this.problem = problem
    this.site = site
  }
}
