/** `Atomics.waitAsync`, which the host waits with: it must not block its thread. */

type AsyncWait = (
  words: Int32Array,
  index: number,
  value: number,
  timeout?: number,
) => { readonly async: false } | { readonly async: true; readonly value: Promise<'ok' | 'timed-out'> }

export const waitAsync = (Atomics as unknown as { readonly waitAsync: AsyncWait }).waitAsync.bind(Atomics)

/** Until a word is no longer what it is, or so many milliseconds have passed; nothing is missed if it changed before. */
export async function changed(
  words: Int32Array,
  address: number,
  value: number,
  milliseconds: number,
): Promise<void> {
  const wait = waitAsync(words, address >>> 2, value, milliseconds)
  if (wait.async) await wait.value
}
