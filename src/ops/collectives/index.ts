/**
 * Collectives written as kernels of the language. For each collective there is a function that allocates its buffers on
 * a world and launches it.
 */
export { allGather, allGatherKernel, type AllGather } from './allGather.ts'
export { allReduce, type AllReduce, type AllReduceOptions, type AllReduceVariant } from './allReduce.ts'
export { allToAll, allToAllKernel, type AllToAll } from './allToAll.ts'
export { barrier, barrierKernel, type Barrier } from './barrier.ts'
export { broadcast, broadcastKernel, type Broadcast } from './broadcast.ts'
export type { CollectiveDType, CollectiveOptions } from './collective.ts'
export { oneShotAllReduce } from './oneShot.ts'
export { reduceScatter, reduceScatterKernel, type ReduceScatter } from './reduceScatter.ts'
export { ringAllReduce } from './ring.ts'
export { twoShotAllReduce } from './twoShot.ts'
