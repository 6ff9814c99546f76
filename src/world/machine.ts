/**
 * Machines as data: what operations, tuning, `auto`, limits and benchmarks may know of the machine under a world. They branch on these
 * facts and never on the name of a target. A record needs no world: `sharedOut` and `oneEach` make one of a device that is only
 * described, so that the same rules answer for a machine that is not here.
 */

/** A cache, and the ranks that share one of it; where each processor has its own, no ranks are named. */
export interface CacheDomain {
  readonly level: number
  readonly bytes: number
  readonly ranks?: readonly number[]
}

/** What a machine can do, each the reason for a branch somewhere. */
export interface Capabilities {
  /** Products of f16 and bf16 run on a unit that takes 8, 16, 32, 64 or 128 rows at once. */
  readonly matrixUnit: boolean
  /**
   * One thread of a program starts asynchronous copies for all of them. Each flag that it looks at in between holds the copies after
   * it up, so few flags are better than many.
   */
  readonly copyEngine: boolean
  /**
   * A flag or a counter of a peer is about as near as one's own, as where ranks are cores of one processor. Then ranks may draw each
   * other's work, meet, and send the same to everyone at little cost.
   */
  readonly nearPeers: boolean
  /** Several programs may run on one processor at once and share it; otherwise each has one to itself. */
  readonly sharedProcessors: boolean
  /** Launches wait in the device's own queues, which hold a limited number, and a loop that polls never goes to sleep. */
  readonly deviceQueues: boolean
}

/** What a rank's device is, whatever the number of ranks. */
export interface Device {
  /** What tables of tuned tiles know it by. */
  readonly name: string
  /** The target whose code it runs: what was measured on one machine of a family says something about another. */
  readonly family: string
  /** Threads that run in step: a warp or a wave; 1 where there are no such threads. */
  readonly warp: number
  /**
   * Scratch memory that a program can declare, in bytes. Not there where tiles lie in caches: they are then sized for those, and what is
   * put away and read again soon stays near.
   */
  readonly sharedBytes?: number
  /** Registers of 32 bits that the programs on a processor share; not there where none are counted. */
  readonly registers?: number
  /**
   * Where tiles lie in caches: the steps along the inner axis of a product whose panel of the right operand fills half of the
   * first-level cache, as found by measuring.
   */
  readonly panelSteps?: number
  /** Bytes per second that all processors together read from memory, as measured; not there where nobody has. */
  readonly bandwidth?: number
  /** Operations per second of products of bf16 on all processors, as measured. */
  readonly flops?: number
  /** Bytes per second from one memory to another, each way; not there where nobody has measured or stated it. */
  readonly link?: number
  /** Nanoseconds of the host for one launch on one rank, as measured. */
  readonly launchCost?: number
  readonly capabilities: Capabilities
}

/** The machine under the ranks of a world. All ranks have the same kind of device. */
export interface Machine extends Device {
  /** Of each rank: multiprocessors of its GPU or of its share of one, or worker threads of a CPU. */
  readonly processors: readonly number[]
  /** Ranks by the memory that holds their heaps. One group: a peer's memory is one's own. Between groups there are links. */
  readonly memories: readonly (readonly number[])[]
  readonly caches: readonly CacheDomain[]
}

/** A whole device, as it is sold: `processors` and the last-level cache are those of all of it. */
export interface DeviceDescription extends Device {
  readonly processors: number
  readonly cacheBytes: number
}

const upTo = (ranks: number): number[] => Array.from({ length: ranks }, (_, rank) => rank)

/** Ranks that share one device and its memory, each with as many processors. */
export function sharedOut(
  { cacheBytes, ...device }: DeviceDescription,
  ranks: number,
  each = Math.floor(device.processors / ranks),
): Machine {
  return {
    ...device,
    processors: upTo(ranks).map(() => each),
    memories: [upTo(ranks)],
    caches: [{ level: 2, bytes: cacheBytes, ranks: upTo(ranks) }],
  }
}

/** Ranks that have a whole device each, with links between. */
export function oneEach({ cacheBytes, ...device }: DeviceDescription, ranks: number): Machine {
  return {
    ...device,
    processors: upTo(ranks).map(() => device.processors),
    memories: upTo(ranks).map((rank) => [rank]),
    caches: upTo(ranks).map((rank) => ({ level: 2, bytes: cacheBytes, ranks: [rank] })),
  }
}

/** Of the rank that has the fewest: what a kernel can count on where all ranks launch as many programs. */
export const fewestProcessors = ({ processors }: Pick<Machine, 'processors'>): number =>
  Math.min(...processors)

/** Whether all ranks share one memory. */
export const isOneMemory = ({ memories }: Pick<Machine, 'memories'>): boolean => memories.length === 1

/** Whether tiles lie in caches and not in scratch memory that a program declares. */
export const isCached = ({ sharedBytes }: Pick<Machine, 'sharedBytes'>): boolean => sharedBytes === undefined
