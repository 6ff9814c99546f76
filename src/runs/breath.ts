/**
 * Long work on the main thread lets the event loop turn now and then: a signal is delivered there and nowhere else. Waiting for a
 * world is not enough, since what ends soon is seen without a turn.
 */

/** How long the process may be deaf to signals, in milliseconds. `tsx` kills a program that has not heard one after 60. */
const longest = 20

let last = performance.now()

/** Lets the event loop turn if that was long ago. Throws the reason of `interrupt` once that is aborted. */
export async function breathe(interrupt?: AbortSignal): Promise<void> {
  if (performance.now() - last >= longest) {
    await new Promise((resolve) => setImmediate(resolve))
    last = performance.now()
  }
  interrupt?.throwIfAborted()
}

/** The result of work in pieces; breathes between them. */
export async function inBreaths<T>(pieces: Generator<void, T>, interrupt?: AbortSignal): Promise<T> {
  for (;;) {
    await breathe(interrupt)
    const piece = pieces.next()
    if (piece.done) return piece.value
  }
}

/** What `work` gives, unless it is interrupted before: then nobody waits for it any more. */
export function unlessInterrupted<T>(work: Promise<T>, interrupt?: AbortSignal): Promise<T> {
  if (!interrupt) return work
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(interrupt.reason as Error)
    interrupt.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => interrupt.removeEventListener('abort', stop))
  })
}
