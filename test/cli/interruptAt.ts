/** Defines a progress line that interrupts a command at its first message: without a signal, and at a known moment. */
import { Progress } from '../../src/cli/progress.ts'

export function interruptAt(what: string): { progress: Progress; interrupt: AbortSignal } {
  const controller = new AbortController()
  class Interrupting extends Progress {
    override show(text: () => string): void {
      if (text().includes(what)) controller.abort(new Error(`interrupted while ${what}`))
    }
  }
  return { progress: new Interrupting(process.stderr), interrupt: controller.signal }
}
