/**
 * CPU worlds on Node: threads are worker threads. The same file is what a thread runs (`serveMessages`), so that it imports no
 * more than that needs. The one file of the CPU targets that imports Node.
 */
import { createRequire } from 'node:module'
import { availableParallelism } from 'node:os'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parentPort, Worker } from 'node:worker_threads'
import { isBuilt, moduleFile } from '../../files.ts'
import { serve, type Load } from './serve.ts'
import type { Assignment, Failure, Thread, Threads } from './threads.ts'

type Message = { readonly assignment: Assignment } | { readonly collect: true }

/** The system's steady clock, which native kernels read too. */
const now = (): number => {
  const [seconds, nanoseconds] = process.hrtime()
  return seconds * 1e9 + nanoseconds
}

let collector: (() => void) | undefined

function collect(): void {
  if (!collector) {
    setFlagsFromString('--expose-gc')
    collector = runInNewContext('gc') as () => void
  }
  collector()
}

class NodeThread implements Thread {
  readonly #worker: Worker
  #terminated = false
  onFailure: ((failure: Failure) => void) | undefined
  onEnd: ((why: string) => void) | undefined

  constructor() {
    this.#worker = startWorker()
    this.#worker.on('message', (failure: Failure) => this.onFailure?.(failure))
    let why: string | undefined
    this.#worker.on('error', (error: unknown) => {
      why = error instanceof Error ? error.message : String(error)
    })
    this.#worker.on('exit', (code) => {
      if (!this.#terminated) this.onEnd?.(why ?? `it ended with code ${code}`)
    })
    // Last: whoever listens for messages keeps the process alive again.
    this.#worker.unref()
  }

  /** For tests that end it from outside. */
  worker(): Worker {
    return this.#worker
  }

  assign(assignment: Assignment): void {
    this.#worker.postMessage({ assignment } satisfies Message)
  }
  collect(): void {
    this.#worker.postMessage({ collect: true } satisfies Message)
  }
  async terminate(): Promise<void> {
    this.#terminated = true
    await this.#worker.terminate()
  }
}

/** A thread of this file, from source or built. */
function startWorker(): Worker {
  const self = JSON.stringify(moduleFile('targets/cpu/node'))
  const run = `import(${self}).then(({ serveMessages }) => serveMessages())`
  if (isBuilt) return new Worker(run, { eval: true, execArgv: [] })
  // From source there is only TypeScript: the thread registers its loader itself, found from here.
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx'))
  const loader = JSON.stringify(new URL('./esm/api/index.mjs', tsx).href)
  return new Worker(`import(${loader}).then(({ register }) => { register(); return ${run} })`, {
    eval: true,
    execArgv: [],
  })
}

/** The thread's side: serve what the messages say, one after the other. */
export function serveMessages(): void {
  const port = parentPort!
  let earlier: Promise<void> = Promise.resolve()
  port.on('message', (message: Message) => {
    earlier = earlier.then(() => ('collect' in message ? collect() : serveAssignment(message.assignment)))
  })
}

async function serveAssignment(assignment: Assignment): Promise<void> {
  const { loader, slot } = assignment
  const failed = (text: string): void => parentPort!.postMessage({ slot, text } satisfies Failure)
  const module = (await import(loader.module)) as Record<string, Load>
  serve({ ...assignment, load: module[loader.name], now, failed })
}

interface Ending {
  readonly stop: () => Promise<void>
  readonly exiting: () => void
}
const endings = new Set<Ending>()

/** What asks a process to end. */
const signals = ['SIGINT', 'SIGTERM'] as const

async function onSignal(signal: NodeJS.Signals): Promise<void> {
  process.removeListener(signal, signalled)
  await Promise.allSettled([...endings].map(({ stop }) => stop()))
  // Whoever else listens decides what becomes of the process; nobody: it ends as it would have without us.
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

export const nodeThreads: Threads = {
  cores: availableParallelism(),
  now,
  start: () => new NodeThread(),
  block: (words, index, value, milliseconds) => void Atomics.wait(words, index, value, milliseconds),
  collect,
  onInterrupt(stop, exiting) {
    const ending: Ending = { stop, exiting }
    listen()
    endings.add(ending)
    return () => {
      endings.delete(ending)
      if (endings.size === 0) listenNoMore()
    }
  },
}
