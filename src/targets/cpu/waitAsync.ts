/** Wraps `Atomics.waitAsync`, with which the host waits without blocking its thread. */

type AsyncWait = (
  words: Int32Array,
  index: number,
  value: number,
  timeout?: number,
) => { readonly async: false } | { readonly async: true; readonly value: Promise<'ok' | 'timed-out'> }

export const waitAsync = (Atomics as unknown as { readonly waitAsync: AsyncWait }).waitAsync.bind(Atomics)

/**
 * Waits until a word differs from `value`, or until the timeout in milliseconds. If the word differs already, the wait
 * ends at once.
 */
export async function changed(
  words: Int32Array,
  address: number,
  value: number,
  milliseconds: number,
): Promise<void> {
  const wait = waitAsync(words, address >>> 2, value, milliseconds)
  if (wait.async) await wait.value
}
