/**
 * How a command ends on SIGINT or SIGTERM: with 130 or 143, after it has printed the results so far.
 *
 * The first signal aborts the `AbortSignal` that the work was given; CPU worlds stop their kernels by themselves. The work then
 * returns after it has printed what it has, or throws. Whatever it does, the process ends soon after; on a second signal, at once.
 * A signal is heard when the event loop turns: see src/runs/breath.ts.
 */
import { writeSync } from 'node:fs'

const codes = { SIGINT: 130, SIGTERM: 143 } as const
type Ending = keyof typeof codes
const endings = Object.keys(codes) as Ending[]

/** How long the work may take to print what it has, in milliseconds. */
const grace = 500

/**
 * Signals that follow the first one within so many milliseconds are the same one: `tsx` sends one again that a program has not heard within
 * 30 ms, although the terminal sends it to both of them.
 */
const echo = 100

/** Why the work ends early. */
export class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly signal: Ending
  constructor(signal: Ending) {
    super(`interrupted by ${signal}`)
    this.signal = signal
  }
}

/** Runs `work`; after a signal it does not return. */
export async function interruptible<T>(work: (interrupt: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController()
  const { signal: interrupt } = controller
  let heard = 0
  const hear = (signal: Ending): void => {
    if (!interrupt.aborted) {
      heard = performance.now()
      setTimeout(() => end(new Interrupted(signal), 'the results are incomplete'), grace)
      controller.abort(new Interrupted(signal))
    } else if (performance.now() - heard > echo)
      end(interrupt.reason as Interrupted, 'the results are incomplete')
  }
  for (const signal of endings) process.on(signal, hear)
  try {
    const result = await work(interrupt)
    if (!interrupt.aborted) return result
    await new Promise<void>((resolve) => process.stdout.write('', () => resolve()))
    return end(interrupt.reason as Interrupted, 'the results above are incomplete')
  } catch (error) {
    if (!interrupt.aborted) throw error
    return end(interrupt.reason as Interrupted, 'there are no results')
  } finally {
    for (const signal of endings) process.off(signal, hear)
  }
}

/** The exit handlers of others remove what is temporary, and let threads and compilers end. */
function end({ message, signal }: Interrupted, results: string): never {
  try {
    writeSync(process.stderr.fd, `${process.stderr.isTTY ? '\r\u001b[2K' : ''}arke: ${message}; ${results}\n`)
  } catch {
    // Nobody reads it.
  }
  process.exit(codes[signal])
}
