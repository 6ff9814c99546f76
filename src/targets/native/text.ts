/** Collects indented lines of text. */
export class Text {
  readonly #lines: string[] = []
  #indent = ''

  line(text: string): void {
    this.#lines.push(text === '' ? '' : this.#indent + text)
  }

  /** Writes `head {`, the indented body, and `tail` as lines. */
  block(head: string, body: () => void, tail = '}'): void {
    this.line(`${head} {`)
    this.indented(body)
    this.line(tail)
  }

  indented(body: () => void): void {
    const outer = this.#indent
    this.#indent += '  '
    body()
    this.#indent = outer
  }

  toString(): string {
    return this.#lines.join('\n')
  }
}
