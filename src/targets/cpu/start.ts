/** Starts the worker threads of a Node world while the remaining modules of the target are still being loaded. */
import { nodeThreads } from './node.ts'
import { poolOf } from './pool.ts'

export const startThreads = (ranks: number, workers = 1): void => poolOf(nodeThreads).warm(ranks * workers)
