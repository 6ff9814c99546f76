/**
 * Writes the text of a kernel: indented lines with the source line as a comment, and names that are unique per scope.
 */
import type { Site } from '../../../ir/site.ts'

export class Writer {
  readonly #lines: string[] = []
  #indent: string
  #lastSite: string | undefined

  constructor(indent = '  ') {
    this.#indent = indent
  }

  line(text: string, site?: Site): void {
    const where = lineOf(site)
    const comment = where && where !== this.#lastSite ? `  // ${where}` : ''
    if (where) this.#lastSite = where
    if (text === '__syncthreads();' && this.#lines.at(-1)?.trim().startsWith(text)) return
    this.#lines.push(text === '' ? '' : `${this.#indent}${text}${comment}`)
  }

  /** Writes `head {`, the indented body, and `}`. */
  block(head: string, body: () => void, site?: Site, tail = '}'): void {
    this.line(head === '' ? '{' : `${head} {`, site)
    this.indented(body)
    this.line(tail)
  }

  indented(body: () => void): void {
    const outer = this.#indent
    this.#indent += '  '
    body()
    this.#indent = outer
  }

  /** Returns the lines that `body` writes, instead of appending them. The caller may drop or wrap them. */
  aside(body: () => void): string[] {
    const mark = this.#lines.length
    body()
    return this.#lines.splice(mark)
  }

  append(lines: readonly string[]): void {
    this.#lines.push(...lines)
  }

  unrolled(count: string | number, body: string, site?: Site, index = 'i'): void {
    this.line('#pragma unroll')
    this.line(`for (u32 ${index} = 0; ${index} < ${count}; ++${index}) ${body}`, site)
  }

  toString(): string {
    return this.#lines.join('\n')
  }
}

/** Returns `file:line` without the column, so that statements of one source line share a comment. */
export function lineOf(site: Site | undefined): string | undefined {
  const at = site?.position
  return at ? String(site).replace(/:\d+$/, '') : undefined
}

export class Names {
  #taken: Set<string>

  constructor(taken: Iterable<string> = []) {
    this.#taken = new Set([...reserved, ...taken])
  }

  take(base: string): string {
    const clean = base.replace(/\W+/g, '_').replace(/^(\d)/, '_$1')
    let name = clean
    for (let i = 2; this.#taken.has(name); i++) name = `${clean}_${i}`
    this.#taken.add(name)
    return name
  }

  /** Runs `body`. Names that are taken inside `body` are available again afterwards. */
  scope<T>(body: () => T): T {
    const outer = this.#taken
    this.#taken = new Set(outer)
    try {
      return body()
    } finally {
      this.#taken = outer
    }
  }
}

const reserved = [
  // Keywords of C++, and types of the prelude.
  'alignas auto bool break case char class const continue default delete do double else enum extern float for if inline',
  'int long namespace new operator register return short signed sizeof static struct switch template this typedef typename',
  'union unsigned using void volatile while and bitand bitor compl not or xor u8 i8 u16 u32 u64 i32 i64',
  // Variables that every kernel declares, and variables of the short loops in rendered statements.
  'thread rank control shared shared_memory heap_stride counters event_log settled is_early',
  'i p w chunk row single column box staging value total step octet right left0 left1 left2 left3 right0 right1 right2 right3',
].flatMap((line) => line.split(' '))
