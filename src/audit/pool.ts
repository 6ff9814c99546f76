/**
 * Reads files either on worker threads, starting with the largest file, or one after the other on the calling thread.
 * If a worker thread cannot be started or dies, its file is read on the calling thread.
 */
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { Worker } from 'node:worker_threads'
import { isBuilt, moduleFile } from '../files.ts'
import { readTraceFile } from './readFile.ts'
import type { TraceFile } from './traceFile.ts'
import type { WorkerAnswer, WorkerTask } from './worker.ts'

export interface PoolTask extends WorkerTask {
  /** The size of the file in bytes. */
  readonly bytes: number
}

/**
 * Returns the files in the order of the tasks. `progress` is called with the index of a task and the number of bytes of
 * its file that have been read so far.
 */
export async function readFiles(
  tasks: readonly PoolTask[],
  threads: number,
  progress: (task: number, bytes: number) => void,
  start: () => Worker = startWorker,
): Promise<TraceFile[]> {
  const files: TraceFile[] = []
  const queue = tasks.map((_, index) => index).sort((a, b) => tasks[b].bytes - tasks[a].bytes || a - b)
  const readHere = async (index: number): Promise<void> => {
    const { path, rank, detail, communication } = tasks[index]
    const onProgress = (bytes: number): void => progress(index, bytes)
    files[index] = await readTraceFile(path, { rank, detail, communication, onProgress })
  }
  if (threads < 2 || tasks.length < 2) {
    for (let index = 0; index < tasks.length; index++) await readHere(index)
    return files
  }

  const left: number[] = []
  const serve = async (): Promise<void> => {
    let worker: Worker | undefined
    for (let index = queue.shift(); index !== undefined; index = queue.shift()) {
      try {
        worker ??= start()
        const task = index
        files[task] = await ask(worker, tasks[task], (bytes) => progress(task, bytes))
      } catch {
        left.push(index)
        void worker?.terminate()
        worker = undefined
      }
    }
    await worker?.terminate()
  }
  await Promise.all(Array.from({ length: Math.min(threads, tasks.length) }, serve))
  for (const index of left) await readHere(index)
  return files
}

/** Starts a thread that runs `worker.ts`, either from source or from the build. */
export function startWorker(): Worker {
  // If Arke runs from source, the worker is TypeScript, and each thread must register the tsx loader itself. The loader
  // is resolved relative to this file, not to the working directory. `require` resolves `tsx/esm/api` to a CommonJS
  // build, which does not work in threads.
  if (!isBuilt) {
    const tsx = pathToFileURL(createRequire(import.meta.url).resolve('tsx'))
    const loader = JSON.stringify(new URL('./esm/api/index.mjs', tsx).href)
    const source = JSON.stringify(moduleFile('audit/worker'))
    const start = `import(${loader}).then(({ register }) => { register(); return import(${source}) })`
    return new Worker(start, { eval: true, execArgv: [] })
  }
  return new Worker(new URL(moduleFile('audit/worker')))
}

function ask(
  worker: Worker,
  { path, rank, detail, communication }: WorkerTask,
  progress: (bytes: number) => void,
): Promise<TraceFile> {
  return new Promise((resolve, reject) => {
    const done = (): void => {
      worker.off('message', onMessage)
      worker.off('error', onError)
      worker.off('exit', onExit)
    }
    const onMessage = (answer: WorkerAnswer): void => {
      if ('progress' in answer) return progress(answer.progress)
      done()
      if ('file' in answer) resolve(answer.file)
      else reject(new Error(answer.failed))
    }
    const onError = (error: Error): void => {
      done()
      reject(error)
    }
    const onExit = (code: number): void => {
      done()
      reject(new Error(`the worker thread exited with code ${code}`))
    }
    worker.on('message', onMessage)
    worker.on('error', onError)
    worker.on('exit', onExit)
    worker.postMessage({ path, rank, detail, communication } satisfies WorkerTask)
  })
}
