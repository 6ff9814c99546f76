/**
 * Aborts the work of a process before a signal or an exit ends it. On any target, every world with kernels in flight,
 * and every compiler process, registers with `onInterrupt`. Contract: if the program has no listener of its own for the
 * signal, the signal has its default effect after all work is aborted. If the program has a listener of its own, this
 * listener decides whether the process ends. interrupts.ts needs the object `process` of Node.
 */

interface Ending {
  readonly stop: () => Promise<void>
  readonly exiting: () => void
}
const endings = new Set<Ending>()

/** The process signals that ask a process to end. */
const signals = ['SIGINT', 'SIGTERM'] as const

async function onSignal(signal: NodeJS.Signals): Promise<void> {
  process.removeListener(signal, signalled)
  await Promise.allSettled([...endings].map(({ stop }) => stop()))
  // If the program has other listeners, they decide what happens to the process. Without other listeners, the signal is
  // sent again, now with its default effect.
  if (process.listenerCount(signal) === 0) process.kill(process.pid, signal)
}
const signalled = (signal: NodeJS.Signals): void => void onSignal(signal)
const exiting = (): void => endings.forEach((ending) => ending.exiting())

function listen(): void {
  for (const signal of signals)
    if (!process.listeners(signal).includes(signalled)) process.on(signal, signalled)
  if (!process.listeners('exit').includes(exiting)) process.on('exit', exiting)
}

function listenNoMore(): void {
  for (const signal of signals) process.removeListener(signal, signalled)
  process.removeListener('exit', exiting)
}

/**
 * Registers handlers. `stop` is called when a signal asks the process to end, before the process ends. The function
 * `exiting` is called when the process exits, and must not wait. Returns a function that removes the handlers `stop`
 * and `exiting`.
 */
export function onInterrupt(stop: () => Promise<void>, exiting: () => void): () => void {
  const ending: Ending = { stop, exiting }
  listen()
  endings.add(ending)
  return () => {
    endings.delete(ending)
    if (endings.size === 0) listenNoMore()
  }
}
