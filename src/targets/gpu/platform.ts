/**
 * The interface of a vendor's compiler, which produces kernels for the vendor's devices (device.ts). A `Platform` lists
 * the devices and provides everything that a world on them needs from the vendor. Contract: `emit` returns the same
 * object for the same IR and facts, even in several worlds.
 */
import type { DType } from '../../ir/dtype.ts'
import type { KernelIR } from '../../ir/node.ts'
import type { HeapTensor } from '../../world/backend.ts'
import type { Capabilities, DeviceLimits, Measured, ProductLimits } from '../../world/machine.ts'
import type { LaunchArguments, RankMemory } from './arguments.ts'
import type { Device } from './device.ts'

/** The facts about a world for which kernels are specialised. */
export interface WorldFacts {
  /** True if kernels write a log of their actions with time stamps (log.ts). */
  readonly record: boolean
  /** True if all ranks share one device, so that flags need not be visible to other devices. */
  readonly oneDevice: boolean
  /** The limits of the programs on a device. All devices of a world have the same limits. */
  readonly device: DeviceLimits
  /** True if the host signals flags of the kernel, so flags must be visible to the host. */
  readonly hostSignals?: boolean
  /**
   * True if the kernel is launched on a group whose ranks are not at a constant distance in the world. For a group with
   * unevenly spaced ranks, a kernel parameter holds a table with the position of each rank's heap.
   */
  readonly scattered?: boolean
}

/** The source of a kernel parameter's value. */
export type Param =
  | { readonly kind: 'pointer'; readonly tensor: string }
  | { readonly kind: 'dim'; readonly of: string; readonly axis: number }
  | { readonly kind: 'flags'; readonly flags: string }
  /**
   * Two u32 epoch counters on the executing rank: the number of launches that have signalled the flag set, and the
   * number that have waited for it.
   */
  | { readonly kind: 'epochs'; readonly flags: string }
  | { readonly kind: 'scalar'; readonly name: string; readonly dtype: DType }
  | { readonly kind: 'rank' }
  /** The distance in bytes between consecutive heaps. */
  | { readonly kind: 'heapStride' }
  /**
   * For a group with unevenly spaced ranks, a table with one i32 per rank: the position of the rank's heap in the
   * world.
   */
  | { readonly kind: 'places'; readonly ranks: number }
  /**
   * Counter words (u32) on the executing rank that only one kernel uses. The counter words of a kernel are initially
   * zero, and every launch resets them to zero.
   */
  | { readonly kind: 'counters'; readonly words: number }
  /**
   * One bit per group of tensors, which is set if no running launch of any rank writes a tensor of the group. The value
   * 0, with which no tensor is read early, is always safe.
   */
  | { readonly kind: 'settled'; readonly groups: readonly (readonly string[])[] }
  /** The control block of the launch on the rank: the abort word and one wait record per program (control.ts). */
  | { readonly kind: 'control' }
  /** The event log of the queue on which the kernel runs (log.ts). */
  | { readonly kind: 'log' }
  | OpaqueParam

/**
 * A parameter in a format that only the vendor knows, such as a tensor descriptor. The function `Platform.encode`
 * computes the value of a vendor-specific parameter.
 */
export interface OpaqueParam {
  readonly kind: 'opaque'
  readonly tensor: string
}

export interface EmittedAssertion {
  /** The position in the kernel's source code, as file:line:column. */
  readonly site: string
  readonly message: string
}

export interface RecordedSite {
  /** The line in the kernel's source code, as file:line. */
  readonly line: string
  /** The name of the flag parameter, for a source location that waits. */
  readonly flags: string | undefined
}

/**
 * A kernel, specialised for the shapes of its arguments and for a world. The function `Platform.compile` turns an
 * emitted kernel into machine code.
 */
export interface Emitted {
  readonly name: string
  readonly params: readonly Param[]
  /** The number of threads per program. */
  readonly block: number
  /** The dynamic shared memory of each program, in bytes. */
  readonly sharedBytes: number
  /**
   * The names of the tensors that the kernel writes, on its own rank or on another rank. The memory of the tensors that
   * a kernel writes must not overlap with the memory of any other parameter.
   */
  readonly writes: readonly string[]
  /** The source lines of the waits. A wait record with the site number i refers to entry i - 1 of `waitSites`. */
  readonly waitSites: readonly string[]
  /**
   * The assertions of the kernel. `assertions` is undefined if the kernel has no assertions. Entry i - 1 of the list of
   * assertions belongs to the assertion with number i.
   */
  readonly assertions?: readonly EmittedAssertion[]
  /** The source locations to which the events of a recording kernel refer by index. */
  readonly recordedSites?: readonly RecordedSite[]
  /** The names of the tensors with flag-in-data words, which may contain epochs. */
  readonly carriesEpochs: readonly string[]
  /**
   * The differences between a kernel that records events and the same kernel without recording. The list of differences
   * is empty if the kernel does not record events.
   */
  readonly unlike: readonly string[]
}

export interface Platform {
  /** The name of the target. */
  readonly target: string
  readonly devices: readonly Device[]
  readonly capabilities: Capabilities
  /** The tile sizes of matrix products that the compiler supports. */
  readonly products: ProductLimits
  /** Returns the measured rates (bandwidth and operations per second) of the devices called `name`. */
  measuredOn(name: string): Measured
  /** The kernel that reads the clock of a device (clock.ts). */
  readonly clock: Emitted
  emit(recorded: KernelIR, args: LaunchArguments, facts: WorldFacts): Emitted
  /** Compiles a kernel that this platform has emitted to machine code for one of its devices. */
  compile(emitted: Emitted, device: Device): Uint8Array
  /** Encodes the value of a parameter of a kernel that this platform has emitted, in the vendor's format. */
  encode(param: OpaqueParam, tensor: HeapTensor, memory: RankMemory): Uint8Array
}
