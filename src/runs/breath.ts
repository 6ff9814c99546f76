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
