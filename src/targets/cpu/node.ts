/**
 * Runs CPU worlds on Node, where threads are worker threads. A worker thread runs the same file (`serveMessages`), so
 * this file imports only the modules that serving needs. Within the CPU targets, only this file imports Node modules.
 */
import { createRequire } from 'node:module'
import { readFileSync } from 'node:fs'
import { availableParallelism, cpus } from 'node:os'
import { pathToFileURL } from 'node:url'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { parentPort, Worker } from 'node:worker_threads'
import { isBuilt, moduleFile } from '../../files.ts'
import { onInterrupt } from '../interrupts.ts'
import { systemCaches, type SystemCache } from './caches.ts'
import { serve, type Load } from './serve.ts'
import type { Assignment, Failure, Thread, Threads } from './threads.ts'

type Message = { readonly assignment: Assignment } | { readonly collect: true }

/** The system's monotonic clock, which native kernels also read. */
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
    // `unref` comes last, because adding a message listener would keep the process alive again.
    this.#worker.unref()
  }

  /** Returns Node's worker object, with which tests terminate the thread. */
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

/** Starts a worker thread that runs this file, from TypeScript source or from the built package. */
function startWorker(): Worker {
  const self = JSON.stringify(moduleFile('targets/cpu/node'))
  const run = `import(${self}).then(({ serveMessages }) => serveMessages())`
  if (isBuilt) return new Worker(run, { eval: true, execArgv: [] })
  // If the package is not built, there is only TypeScript source, so the thread first registers the tsx loader.
  const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx'))
  const loader = JSON.stringify(new URL('./esm/api/index.mjs', tsx).href)
  return new Worker(`import(${loader}).then(({ register }) => { register(); return ${run} })`, {
    eval: true,
    execArgv: [],
  })
}

/** Runs in the worker thread, and handles the messages of the host one after the other. */
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

let caches: readonly SystemCache[] | undefined

function readText(path: string): string | undefined {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return undefined
  }
}

export const nodeThreads: Threads = {
  cores: availableParallelism(),
  get model() {
    return cpus()[0]?.model.trim() || undefined
  },
  get caches() {
    return (caches ??= systemCaches(readText))
  },
  now,
  start: () => new NodeThread(),
  block: (words, index, value, milliseconds) => void Atomics.wait(words, index, value, milliseconds),
  collect,
  onInterrupt,
}
