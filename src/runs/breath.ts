/**
 * Lets long computations on the main thread yield to the event loop, because the process handles signals only in the
 * event loop. Awaiting a launch is not enough, because the end of a short launch is observed without a pass through the
 * event loop.
 */

/**
 * The longest time without a pass through the event loop, in milliseconds. `tsx` kills a program that has not handled a
 * signal after 60 ms.
 */
const longest = 20

let last = performance.now()

/**
 * Yields to the event loop if the last yield was more than `longest` milliseconds ago. If the signal `interrupt` was
 * aborted, its reason is thrown.
 */
export async function breathe(interrupt?: AbortSignal): Promise<void> {
  if (performance.now() - last >= longest) {
    await new Promise((resolve) => setImmediate(resolve))
    last = performance.now()
  }
  interrupt?.throwIfAborted()
}

/**
 * Runs a generator to its end and returns its result. The generator's steps alternate with passes through the event
 * loop.
 */
export async function inBreaths<T>(pieces: Generator<void, T>, interrupt?: AbortSignal): Promise<T> {
  for (;;) {
    await breathe(interrupt)
    const piece = pieces.next()
    if (piece.done) return piece.value
  }
}

/** Returns the result of `work`, or rejects with the reason of `interrupt` as soon as `interrupt` is aborted. */
export function unlessInterrupted<T>(work: Promise<T>, interrupt?: AbortSignal): Promise<T> {
  if (!interrupt) return work
  return new Promise((resolve, reject) => {
    const stop = (): void => reject(interrupt.reason as Error)
    interrupt.addEventListener('abort', stop, { once: true })
    work.then(resolve, reject).finally(() => interrupt.removeEventListener('abort', stop))
  })
}
