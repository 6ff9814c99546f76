/**
 * A worker thread that reads whole files. The thread receives a message with the path of a file. The thread sends
 * progress messages and finally the file's ranks, whose columns are transferred without a copy.
 */
import { parentPort } from 'node:worker_threads'
import type { RankTimeline } from '../timeline/timeline.ts'
import { readTraceFile } from './readFile.ts'
import type { HostDetail, TraceFile } from './traceFile.ts'

export interface WorkerTask {
  readonly path: string
  readonly rank: number | undefined
  readonly detail?: HostDetail
  readonly communication?: string
}

export type WorkerAnswer =
  { readonly progress: number } | { readonly file: TraceFile } | { readonly failed: string }

/** The array buffers of a rank's columns. */
function buffersOf({ events }: RankTimeline): ArrayBuffer[] {
  return Object.values(events)
    .filter((column: unknown) => ArrayBuffer.isView(column))
    .map((column) => (column as Float64Array).buffer as ArrayBuffer)
}

const port = parentPort
port?.on('message', ({ path, rank, detail, communication }: WorkerTask) => {
  const answer = (message: WorkerAnswer, transfer: ArrayBuffer[] = []): void =>
    port.postMessage(message, transfer)
  readTraceFile(path, { rank, detail, communication, onProgress: (progress) => answer({ progress }) }).then(
    (file) => answer({ file }, [...new Set(file.ranks.flatMap(({ timeline }) => buffersOf(timeline)))]),
    (error: unknown) => answer({ failed: String(error) }),
  )
})
