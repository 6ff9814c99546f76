/**
 * Ends a command on SIGINT or SIGTERM with exit status 130 or 143, after the command has printed the results so far.
 *
 * The first signal aborts the `AbortSignal` that the work receives. Worlds abort their kernels themselves
 * (src/targets/interrupts.ts). After the signal, the work prints its results and returns, or throws an error. After a
 * signal, the process ends in any case after a short grace period. A second signal ends the process immediately. Node
 * handles signals only in its event loop (src/runs/breath.ts).
 */
import { writeSync } from 'node:fs'
import { placeOfResults } from './output.ts'

const codes = { SIGINT: 130, SIGTERM: 143 } as const
type Ending = keyof typeof codes
const endings = Object.keys(codes) as Ending[]

/** The time in which the work may print its results after the first signal, in milliseconds. */
const grace = 500

/**
 * A signal within this time (in milliseconds) after the first signal is treated as a duplicate. If a program has not
 * handled a signal within 30 ms, `tsx` sends it again, although the terminal sends the signal to both processes.
 */
const echo = 100

/** The reason with which the work is aborted. */
class Interrupted extends Error {
  override readonly name = 'Interrupted'
  readonly signal: Ending
  constructor(signal: Ending) {
    super(`interrupted by ${signal}`)
    this.signal = signal
  }
}

/** Runs the function `work` of a command. After a signal, the function ends the process instead of returning. */
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
    return end(interrupt.reason as Interrupted, `the results ${placeOfResults()} are incomplete`)
  } catch (error) {
    if (!interrupt.aborted) throw error
    return end(interrupt.reason as Interrupted, 'there are no results')
  } finally {
    for (const signal of endings) process.off(signal, hear)
  }
}

/**
 * Ends the process with the exit status of the signal. Exit handlers of other modules remove temporary files and end
 * threads and compilers.
 */
function end({ message, signal }: Interrupted, results: string): never {
  try {
    writeSync(process.stderr.fd, `${process.stderr.isTTY ? '\r\u001b[2K' : ''}arke: ${message}; ${results}\n`)
  } catch {
    // The stream stderr may be closed when the process ends. If stderr is closed, the message of the interrupt is lost.
  }
  process.exit(codes[signal])
}
