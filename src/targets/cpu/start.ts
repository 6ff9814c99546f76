/** Starts the threads of a world that is about to be opened, on Node, before the rest of its target is even loaded. */
import { nodeThreads } from './node.ts'
import { poolOf } from './pool.ts'

export const startThreads = (ranks: number, workers = 1): void => poolOf(nodeThreads).warm(ranks * workers)
