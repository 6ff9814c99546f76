/** Starts the worker threads of a Node world early, while the rest of the target is still being loaded. */
import { nodeThreads } from './node.ts'
import { poolOf } from './pool.ts'

export const startThreads = (ranks: number, workers = 1): void => poolOf(nodeThreads).warm(ranks * workers)
