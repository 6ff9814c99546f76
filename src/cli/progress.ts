/**
 * Shows the current progress of a command on one line of a terminal. The progress is not shown if the stream is not a
 * terminal.
 */
import { reportPrint, type OnPrint } from '../world/prints.ts'

export class Progress {
  readonly #stream: NodeJS.WriteStream | undefined
  #last = 0
  #shown = false

  constructor(stream: NodeJS.WriteStream) {
    this.#stream = stream.isTTY ? stream : undefined
  }

  show(text: () => string): void {
    const now = performance.now()
    if (!this.#stream || now - this.#last < 80) return
    this.#last = now
    this.#shown = true
    this.#stream.write(`\r\u001b[2K${text().slice(0, (this.#stream.columns ?? 80) - 1)}`)
  }

  clear(): void {
    if (this.#shown) this.#stream?.write('\r\u001b[2K')
    this.#shown = false
  }
}

/** Prints a line of kernel output on stderr, in place of the line that shows the progress. */
export const printAbove =
  (progress: Progress): OnPrint =>
  (line) => {
    progress.clear()
    reportPrint(line)
  }
