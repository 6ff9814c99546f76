/**
 * The location in the author's source at which a node was recorded.
 *
 * A source position (site) is recorded for every node, so recording it must be cheap. Each recorded source position
 * (site) therefore keeps a JavaScript Error object. The JavaScript engine formats the stack of the Error, with source
 * maps if they are enabled, only when the position is read.
 */
import { isOwnCode } from '../files.ts'

export interface SourcePosition {
  readonly file: string
  readonly line: number
  readonly column: number
}

/**
 * Files of Arke that count as author code, because they define kernels: the operations, the kernels for measurements,
 * and the tests. Without source maps, the names of the bundled files show which of them contain operations.
 */
const withKernels =
  /\/src\/(?:ops\/|runs\/(?:gate|bandwidth)\.ts$)|\/ops\/index\.js$|\/operations-\w+\.js$|\.test\.[jt]s$/

/**
 * Stack frames in Arke's own files without kernels are skipped, and the first remaining frame is that of the kernel's
 * author. Stack frames of the command line library Commander are skipped, too, because Commander calls the functions
 * that run the commands.
 */
const isOwn = (url: string): boolean =>
  url.includes('/node_modules/commander/') || (isOwnCode(url) && !withKernels.test(url))

/**
 * The maximum number of stack frames that are captured for a source position. The limit is larger than the number of
 * Arke's frames above the author's frame, and capturing more frames would cost time.
 */
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

  /** The location at which an error was thrown. */
  static of(error: Error): Site {
    return new Site(error)
  }

  get position(): SourcePosition | undefined {
    if (this.#position === undefined) this.#position = authorFrame(this.#trace.stack ?? '') ?? null
    return this.#position ?? undefined
  }

  /** The position as `file:line`, without the column; undefined if the position is unknown. */
  get line(): string | undefined {
    const at = this.position
    return at && `${shorten(at.file)}:${at.line}`
  }

  toString(): string {
    const { line } = this
    return line === undefined ? '(unknown line)' : `${line}:${this.position!.column}`
  }
}

/** The first stack frame outside Arke. A frame of a package in node_modules is used only if there is no other frame. */
function authorFrame(stack: string): SourcePosition | undefined {
  let packaged: SourcePosition | undefined
  for (const line of stack.split('\n').slice(1)) {
    const match = /(?:\(|at |@)(?:async )?([^()\s]*?):(\d+):(\d+)\)?$/.exec(line.trim())
    if (!match) continue
    const file = match[1]
    if (file.startsWith('node:')) continue
    const url = file.startsWith('/') ? `file://${file}` : file
    if (isOwn(url)) continue
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

/**
 * A mistake in a kernel that was found while recording or verifying it. The message of the error says what is wrong,
 * where it is wrong, and what to do.
 */
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
