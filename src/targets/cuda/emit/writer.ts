/** Writes the lines of a kernel with indentation. A comment at the end of a line names the author's source line. */
import type { Site } from '../../../ir/site.ts'
import { code, type Code, type Part } from './code.ts'

/** A line of an emitted kernel, with a comment that names the author's source line, or without a comment. */
export interface Line {
  readonly text: Code
  readonly comment: string
}

export class Writer {
  readonly #lines: Line[] = []
  #indent: string
  #lastSite: string | undefined

  constructor(indent = '  ') {
    this.#indent = indent
  }

  line(text: Part, site?: Site): void {
    const where = site?.line
    const comment = where && where !== this.#lastSite ? `  // ${where}` : ''
    this.reach(site)
    this.#lines.push({ text: code`${this.#indent}${text}`, comment })
  }

  /**
   * Makes the next emitted lines belong to a line of the author's source, without writing a comment that names this
   * line.
   */
  reach(site: Site | undefined): void {
    this.#lastSite = site?.line ?? this.#lastSite
  }

  /** Writes `head {`, the indented body, and `}`. */
  block(head: Part, body: () => void, site?: Site, tail = '}'): void {
    this.line(head === '' ? '{' : code`${head} {`, site)
    this.indented(body)
    this.line(tail)
  }

  indented(body: () => void): void {
    const outer = this.#indent
    this.#indent += '  '
    body()
    this.#indent = outer
  }

  /** Returns the lines that `body` writes, instead of appending them, so that the caller can drop or wrap the lines. */
  aside(body: () => void): Line[] {
    const mark = this.#lines.length
    body()
    return this.#lines.splice(mark)
  }

  append(lines: readonly Line[]): void {
    this.#lines.push(...lines)
  }

  unrolled(count: number, body: Part, site?: Site, index = 'i'): void {
    this.line('#pragma unroll')
    this.line(code`for (u32 ${index} = 0; ${index} < ${count}; ++${index}) ${body}`, site)
  }
}
