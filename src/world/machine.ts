/**
 * Machines described as data: the facts about a machine that operations, tuning, `auto`, limits and benchmarks may use.
 * That code branches on these facts and never on the name of a target. A machine record does not need a world:
 * `sharedOut` and `oneEach` build one from the description of a device, so that the same rules work for a machine that
 * is not present.
 */

/**
 * A cache and the ranks that share it. `ranks` is absent if each processor has its own, or if it is unknown which ranks
 * share it.
 */
export interface CacheDomain {
  readonly level: number
  readonly bytes: number
  readonly ranks?: readonly number[]
}

/** The capabilities of a machine. Each one is the reason for a branch in the code. */
export interface Capabilities {
  /** True if products of f16 and bf16 run on a matrix unit. */
  readonly matrixUnit: boolean
  /**
   * True if one thread of a program starts the asynchronous copies for the whole program. Each flag that this thread
   * polls delays the copies that follow, so few flags are better than many.
   */
  readonly copyEngine: boolean
  /**
   * True if accessing a flag or counter of a peer costs about as much as accessing a local one, as on cores of one
   * processor. Ranks can then steal each other's work, synchronise, and send the same data to all ranks at little cost.
   */
  readonly nearPeers: boolean
  /**
   * True if several programs may share one processor at the same time. Otherwise each program has a processor to
   * itself.
   */
  readonly sharedProcessors: boolean
  /** True if launches wait in queues of the device, which have limited capacity, and if a polling loop never sleeps. */
  readonly deviceQueues: boolean
}

/** What the programs that are resident on one processor share. */
export interface ProcessorLimits {
  readonly programs: number
  readonly threads: number
  /** 32-bit registers. Each of the equal partitions of the processor has its share of them. */
  readonly registers: number
  readonly partitions: number
  /** The registers of a warp are allocated in multiples of this number. */
  readonly registerUnit: number
  /** Scratch memory in bytes, of which the system reserves some for each program. */
  readonly sharedBytes: number
  readonly reservedBytes: number
  /** The scratch memory of a program is allocated in multiples of this number of bytes. */
  readonly sharedUnit: number
}

/** The tiles of matrix products that a target supports on a device with scratch memory. */
export interface ProductLimits {
  /** The bytes of scratch memory that a program needs besides its tiles, for staged output and barriers. */
  readonly besideTiles: number
  /**
   * The numbers of rows that a tile may have. For a product of `m` rows, the first list applies whose first number is at
   * least `m`, otherwise the last list.
   */
  readonly tileRows: readonly (readonly number[])[]
}

/** The device of a rank, independent of the number of ranks. */
export interface Device {
  /**
   * The name by which tables of tuned tiles identify the device. On a CPU it is the name of the target, because code of
   * different targets has different tiles on the same processor.
   */
  readonly name: string
  /** The model of the processor, if it is known and is not the name. */
  readonly model?: string
  /**
   * The target whose code the device runs. Measurements on one machine of a family apply to other machines of that
   * family.
   */
  readonly family: string
  /** The number of threads that run in lockstep (a warp or wave), or 1 if there are no such threads. */
  readonly warp: number
  /**
   * Scratch memory that a program can declare, in bytes. Absent if tiles are held in caches; tiles are then sized for
   * the caches, and data that is stored and soon read again stays in a cache.
   */
  readonly sharedBytes?: number
  /** Absent if tiles are held in caches. */
  readonly products?: ProductLimits
  /** Absent if each program has a processor to itself. */
  readonly perProcessor?: ProcessorLimits
  /**
   * For machines that hold tiles in caches: the number of steps along the inner axis of a product for which a panel of
   * the right operand fills half of the L1 cache. The number was found by measurement.
   */
  readonly panelSteps?: number
  /**
   * Measured memory read bandwidth of all processors together, in bytes per second. Absent if not measured. CPU worlds never state it:
   * measuring takes longer than opening a world, and it depends on the other programs of the computer. `readBandwidth` (src/runs) measures it.
   */
  readonly bandwidth?: number
  /** Measured rate of bf16 products on all processors, in floating-point operations per second. */
  readonly flops?: number
  /**
   * Link bandwidth between two memories, per direction, in bytes per second. Absent if neither measured nor specified.
   */
  readonly link?: number
  /** Measured host time of one launch on one rank, in nanoseconds. Absent if not measured, as on every CPU. */
  readonly launchCost?: number
  readonly capabilities: Capabilities
}

/** What is known of a device only if it has been measured. */
export type Measured = Pick<Device, 'bandwidth' | 'flops' | 'link' | 'launchCost'>

/** The machine on which the ranks of a world run. All ranks have the same kind of device. */
export interface Machine extends Device {
  /**
   * The number of processors of each rank: those of its GPU or of its share of a GPU, or worker threads of a CPU.
   */
  readonly processors: readonly number[]
  /**
   * Ranks grouped by the memory that holds their heaps. With one group, all ranks share one memory. There are links
   * between groups.
   */
  readonly memories: readonly (readonly number[])[]
  /** The known caches. Empty if the system does not tell of any. */
  readonly caches: readonly CacheDomain[]
}

/** A whole device as sold. `processors` and `cacheBytes` describe the whole device. */
export interface DeviceDescription extends Device {
  readonly processors: number
  readonly cacheBytes: number
}

const upTo = (ranks: number): number[] => Array.from({ length: ranks }, (_, rank) => rank)

/** The machine of ranks that share one device and its memory, each with the same number of processors. */
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

/** The machine of ranks that have one whole device each, with links between the devices. */
export function oneEach({ cacheBytes, ...device }: DeviceDescription, ranks: number): Machine {
  return {
    ...device,
    processors: upTo(ranks).map(() => device.processors),
    memories: upTo(ranks).map((rank) => [rank]),
    caches: upTo(ranks).map((rank) => ({ level: 2, bytes: cacheBytes, ranks: [rank] })),
  }
}

/**
 * The number of processors of the rank that has the fewest. A kernel can rely on this number if all ranks launch
 * equally many programs.
 */
export const fewestProcessors = ({ processors }: Pick<Machine, 'processors'>): number =>
  Math.min(...processors)

/** The facts about a device that limit the programs on it. */
export type DeviceLimits = Required<Pick<Device, 'warp' | 'sharedBytes' | 'perProcessor'>>

export function limitsOf({ name, warp, sharedBytes, perProcessor }: Device): DeviceLimits {
  if (sharedBytes === undefined || perProcessor === undefined)
    throw new TypeError(`${name} has no scratch memory, or programs do not share its processors`)
  return { warp, sharedBytes, perProcessor }
}

/** What a program of a kernel needs. */
export interface ProgramNeeds {
  readonly threads: number
  readonly sharedBytes: number
  readonly registersPerThread: number
}

/**
 * The number of programs of a kernel that fit one processor together, or 0 if not even one program fits. As a driver
 * does, it takes the least of what threads, scratch memory, registers and the number of programs allow.
 */
export function programsPerProcessor(
  { warp, sharedBytes, perProcessor }: Pick<Device, 'warp' | 'sharedBytes' | 'perProcessor'>,
  needs: ProgramNeeds,
): number {
  if (!perProcessor) return 1
  if (needs.sharedBytes > (sharedBytes ?? Infinity)) return 0
  const warps = Math.ceil(needs.threads / warp)
  return Math.min(
    perProcessor.programs,
    Math.floor(Math.floor(perProcessor.threads / warp) / warps),
    programsByMemory(perProcessor, needs.sharedBytes),
    programsByRegisters(perProcessor, warps, needs.registersPerThread * warp),
  )
}

const roundUp = (count: number, unit: number): number => unit * Math.ceil(count / unit)

const programsByMemory = (
  { sharedBytes, reservedBytes, sharedUnit }: ProcessorLimits,
  needed: number,
): number => {
  const bytes = roundUp(needed + reservedBytes, sharedUnit)
  return bytes === 0 ? Infinity : Math.floor(sharedBytes / bytes)
}

/**
 * Each warp takes its registers from one partition. A launch is rejected if its program would exceed all registers with
 * a whole number of warps in each partition.
 */
function programsByRegisters(
  { registers, partitions, registerUnit }: ProcessorLimits,
  warps: number,
  registersPerWarp: number,
): number {
  if (registersPerWarp === 0) return Infinity
  const taken = roundUp(registersPerWarp, registerUnit)
  if (taken * roundUp(warps, partitions) > registers) return 0
  return Math.floor((partitions * Math.floor(registers / partitions / taken)) / warps)
}

/**
 * The number of programs that are resident on a rank at once. `perProcessor` is the number of programs of the kernel that fit one
 * processor together; 1 always fits. It has an effect only if programs share processors.
 */
export const residentPrograms = (
  { processors, capabilities }: Pick<Machine, 'processors' | 'capabilities'>,
  rank: number,
  perProcessor = 1,
): number => processors[rank] * (capabilities.sharedProcessors ? perProcessor : 1)

/** Exceeds the caches of common CPUs. Used only if the caches of a machine are unknown. */
const beyondUnknownCaches = 64e6

/** Bytes that no cache of the machine holds, even partly: several times the largest one. */
export const beyondCaches = ({ caches }: Pick<Machine, 'caches'>): number =>
  caches.length === 0 ? beyondUnknownCaches : Math.max(...caches.map(({ bytes }) => 5 * bytes))

/**
 * True if waiting threads may spin: devices poll on their own processors, but CPU ranks share `cores`. If there are more ranks than cores, a
 * thread that spins takes the core of the one it waits for.
 */
export const maySpin = (
  { processors, capabilities }: Pick<Machine, 'processors' | 'capabilities'>,
  cores: number,
): boolean => capabilities.deviceQueues || processors.length <= cores

/** True if all ranks share one memory. */
export const isOneMemory = ({ memories }: Pick<Machine, 'memories'>): boolean => memories.length === 1

/** Memory read bandwidth of one rank while all ranks of its memory read, in bytes per second. Infinite if not measured. */
export const bandwidthPerRank = ({ bandwidth, memories }: Pick<Machine, 'bandwidth' | 'memories'>): number =>
  bandwidth === undefined ? Infinity : bandwidth / Math.max(...memories.map((ranks) => ranks.length))

/** True if tiles are held in caches instead of scratch memory that a program declares. */
export const isCached = ({ sharedBytes }: Pick<Machine, 'sharedBytes'>): boolean => sharedBytes === undefined
