/**
 * Describes machines as data: the facts about a machine that operations, tuning, the variant `auto`, limits and
 * benchmarks may use. Code outside the targets branches on the facts in a machine record and never on the name of a
 * target. A machine record does not need a world: `sharedOut` and `oneEach` build one from the description of a device,
 * so that the same rules work for a machine that is not present.
 */

/**
 * A cache and the ranks that share it. `ranks` is absent if each processor has its own cache, or if it is unknown which
 * ranks share the cache.
 */
export interface CacheDomain {
  readonly level: number
  readonly bytes: number
  readonly ranks?: readonly number[]
}

/** The capabilities of a machine. The code of operations branches on each of these capabilities. */
export interface Capabilities {
  /** True if matrix products of f16 and bf16 run on a matrix unit. */
  readonly matrixUnit: boolean
  /**
   * True if one thread of a program starts the asynchronous copies for the whole program. Each flag that the copying
   * thread polls delays the copies after the poll, so a kernel with few flags is faster.
   */
  readonly copyEngine: boolean
  /**
   * True if accessing a flag or counter of another rank costs about as much as accessing a local one, as on cores of
   * one processor. With cheap remote flags, ranks can steal each other's work, synchronise, and send the same data to
   * all ranks at little cost.
   */
  readonly nearPeers: boolean
  /**
   * True if several programs may share one processor at the same time. If programs do not share processors, each
   * program has a processor to itself.
   */
  readonly sharedProcessors: boolean
  /** True if launches wait in queues of the device, which have limited capacity, and if a polling loop never sleeps. */
  readonly deviceQueues: boolean
}

/** The resources that the programs on one processor share. */
export interface ProcessorLimits {
  readonly programs: number
  readonly threads: number
  /**
   * The number of 32-bit registers of a processor. Each of the equal partitions of the processor has an equal share of
   * the registers.
   */
  readonly registers: number
  readonly partitions: number
  /** The registers of a warp are allocated in multiples of this number. */
  readonly registerUnit: number
  /** The scratch memory of a processor in bytes. The system reserves some of these bytes for each program. */
  readonly sharedBytes: number
  readonly reservedBytes: number
  /** The scratch memory of a program is allocated in multiples of this number of bytes. */
  readonly sharedUnit: number
}

/** The tile sizes of matrix products that a target supports on a device with scratch memory. */
export interface ProductLimits {
  /** The bytes of scratch memory that a program needs besides its tiles, for staged output and barriers. */
  readonly besideTiles: number
  /**
   * The numbers of rows that a tile of a matrix product may have. A matrix product of `m` rows uses the first list that
   * begins with a number of at least `m`, or the last list if none does.
   */
  readonly tileRows: readonly (readonly number[])[]
}

/** The device of a rank, described independently of the number of ranks. */
export interface Device {
  /**
   * The name by which tables of tuned tiles identify the device. On a CPU, the name is that of the target, because the
   * code of different targets needs different tile sizes on the same processor.
   */
  readonly name: string
  /** The model of the processor, if it is known and differs from the name. */
  readonly model?: string
  /**
   * The target whose code the device runs (its family). Measurements on one machine of a family may be used for other
   * machines of that family.
   */
  readonly family: string
  /** The number of threads that run in lockstep (a warp or wave), or 1 if there are no such threads. */
  readonly warp: number
  /**
   * The scratch memory that a program can declare, in bytes. The field for scratch memory is absent if tiles are held
   * in caches. If tiles are held in caches, their sizes are chosen for the caches, and data that is stored and soon
   * read again stays in a cache.
   */
  readonly sharedBytes?: number
  /** The tile sizes of matrix products; absent if tiles are held in caches. */
  readonly products?: ProductLimits
  /** The limits of one processor are absent if each program has a processor to itself. */
  readonly perProcessor?: ProcessorLimits
  /**
   * The number of steps along K for which a panel of the right operand of a matrix product fills half of the L1 cache,
   * on machines that hold tiles in caches. This number of steps was found by measurement, not computed.
   */
  readonly panelSteps?: number
  /**
   * The measured memory read bandwidth of all processors together, in bytes per second. The bandwidth is absent if it
   * was not measured. Worlds on a CPU never state the bandwidth: measuring takes longer than opening a world, and the
   * result depends on the other programs of the computer. The function `readBandwidth` (src/runs) measures the
   * bandwidth.
   */
  readonly bandwidth?: number
  /**
   * The measured bandwidth at which one program reads memory while other programs leave it enough bandwidth, in bytes
   * per second. The bandwidth is absent if it was not measured.
   */
  readonly programBandwidth?: number
  /** The measured rate of bf16 matrix products on all processors, in floating-point operations per second. */
  readonly flops?: number
  /**
   * The bandwidth of a link between two memories, per direction, in bytes per second. The link bandwidth is absent if
   * it was neither measured nor specified.
   */
  readonly link?: number
  /**
   * The measured host time of one launch on one rank, in nanoseconds. The launch time is absent if it was not measured,
   * as on every CPU.
   */
  readonly launchCost?: number
  readonly capabilities: Capabilities
}

/** Facts about a device that are known only if they have been measured. */
export type Measured = Pick<Device, 'bandwidth' | 'programBandwidth' | 'flops' | 'link' | 'launchCost'>

/** The machine on which the ranks of a world run. All ranks of a world have the same kind of device. */
export interface Machine extends Device {
  /**
   * The number of processors of each rank: those of its GPU or of its share of a GPU, or worker threads of a CPU.
   */
  readonly processors: readonly number[]
  /**
   * Ranks grouped by the memory that holds their heaps. If there is one group of ranks, all ranks share one memory. If
   * there are several groups, physical links connect their memories.
   */
  readonly memories: readonly (readonly number[])[]
  /** The known caches of the machine. The list of caches is empty if the system reports none. */
  readonly caches: readonly CacheDomain[]
}

/**
 * A whole device, before it is divided among ranks. The fields `processors` and `cacheBytes` describe the whole device.
 */
export interface DeviceDescription extends Device {
  readonly processors: number
  readonly cacheBytes: number
}

const upTo = (ranks: number): number[] => Array.from({ length: ranks }, (_, rank) => rank)

/** The machine record of ranks that share one device and its memory, each with the same number of processors. */
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

/** The machine record of ranks that have one whole device each, with links between the devices. */
export function oneEach({ cacheBytes, ...device }: DeviceDescription, ranks: number): Machine {
  return {
    ...device,
    processors: upTo(ranks).map(() => device.processors),
    memories: upTo(ranks).map((rank) => [rank]),
    caches: upTo(ranks).map((rank) => ({ level: 2, bytes: cacheBytes, ranks: [rank] })),
  }
}

/**
 * The number of processors of the rank that has the fewest. A kernel can rely on the smallest number of processors if
 * all ranks launch equally many programs.
 */
export const fewestProcessors = ({ processors }: Pick<Machine, 'processors'>): number =>
  Math.min(...processors)

/** The facts about a device that limit how many programs it can run. */
export type DeviceLimits = Required<Pick<Device, 'warp' | 'sharedBytes' | 'perProcessor'>>

export function limitsOf({ name, warp, sharedBytes, perProcessor }: Device): DeviceLimits {
  if (sharedBytes === undefined || perProcessor === undefined)
    throw new TypeError(`${name} has no scratch memory, or programs do not share its processors`)
  return { warp, sharedBytes, perProcessor }
}

/** The resources that one program of a kernel needs. */
export interface ProgramNeeds {
  readonly threads: number
  readonly sharedBytes: number
  readonly registersPerThread: number
}

/**
 * The number of programs of a kernel that fit on one processor together, or 0 if not even one program fits. As in a GPU
 * driver, the number of programs is the minimum of four limits: threads, scratch memory, registers and the number of
 * programs per processor.
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
 * Each warp takes its registers from one partition of the processor. The hardware rejects a launch if the registers do
 * not suffice for the program's number of warps, rounded up to a multiple of the number of partitions.
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
 * The number of programs that are resident on a rank at the same time. The argument `perProcessor` is the number of
 * programs of the kernel that fit on one processor together; 1 program always fits. The argument `perProcessor` has an
 * effect only if programs share processors.
 */
export const residentPrograms = (
  { processors, capabilities }: Pick<Machine, 'processors' | 'capabilities'>,
  rank: number,
  perProcessor = 1,
): number => processors[rank] * (capabilities.sharedProcessors ? perProcessor : 1)

/** A number of bytes that exceeds the caches of common CPUs; used only for machines whose caches are unknown. */
const beyondUnknownCaches = 64e6

/** A number of bytes that no cache of the machine can hold, even partly: several times the largest cache. */
export const beyondCaches = ({ caches }: Pick<Machine, 'caches'>): number =>
  caches.length === 0 ? beyondUnknownCaches : Math.max(...caches.map(({ bytes }) => 5 * bytes))

/**
 * True if waiting threads may poll without sleeping: GPU programs poll on their own processors, but CPU ranks share
 * `cores`. If there are more ranks than cores, a thread that polls occupies the core of the thread that it waits for.
 */
export const maySpin = (
  { processors, capabilities }: Pick<Machine, 'processors' | 'capabilities'>,
  cores: number,
): boolean => capabilities.deviceQueues || processors.length <= cores

/** True if all ranks share one memory. */
export const isOneMemory = ({ memories }: Pick<Machine, 'memories'>): boolean => memories.length === 1

/**
 * The memory read bandwidth of one rank while all ranks of its memory read, in bytes per second. The bandwidth is
 * infinite if it was not measured.
 */
export const bandwidthPerRank = ({ bandwidth, memories }: Pick<Machine, 'bandwidth' | 'memories'>): number =>
  bandwidth === undefined ? Infinity : bandwidth / Math.max(...memories.map((ranks) => ranks.length))

/** True if tiles are held in caches instead of declared scratch memory. */
export const isCached = ({ sharedBytes }: Pick<Machine, 'sharedBytes'>): boolean => sharedBytes === undefined
