/**
 * The interface of a vendor's compiler: kernels for its devices (device.ts). `Platform` has the devices and everything that a world on
 * them needs from the vendor. Contract: `emit` returns the same object for the same IR and
 * facts, even in several worlds.
 */
import type { DType } from '../../ir/dtype.ts'
import type { KernelIR } from '../../ir/node.ts'
import type { HeapTensor } from '../../world/backend.ts'
import type { Capabilities, DeviceLimits, Measured, ProductLimits } from '../../world/machine.ts'
import type { LaunchArguments, RankMemory } from './arguments.ts'
import type { Device } from './device.ts'

/** The facts about a world for which kernels are specialised. */
export interface WorldFacts {
  /** True if kernels write a log of their actions with timestamps (log.ts). */
  readonly record: boolean
  /** True if all ranks share one device, so flags need not be visible to other devices. */
  readonly oneDevice: boolean
  /** What limits the programs on a device. All devices of a world are of the same kind. */
  readonly device: DeviceLimits
  /** True if the host signals flags of the kernel, so flags must be visible to the host. */
  readonly hostSignals?: boolean
}

/** The source of a kernel parameter's value. */
export type Param =
  | { readonly kind: 'pointer'; readonly tensor: string }
  | { readonly kind: 'dim'; readonly of: string; readonly axis: number }
  | { readonly kind: 'flags'; readonly flags: string }
  /**
   * Two u32 on this rank: the number of launches that have signalled the flag set, and the number that have waited for
   * it.
   */
  | { readonly kind: 'epochs'; readonly flags: string }
  | { readonly kind: 'scalar'; readonly name: string; readonly dtype: DType }
  | { readonly kind: 'rank' }
  /** The distance in bytes between the heaps of consecutive ranks. */
  | { readonly kind: 'heapStride' }
  /**
   * u32 words that only this kernel uses, on this rank. They are initially zero, and every launch resets them to zero.
   */
  | { readonly kind: 'counters'; readonly words: number }
  /**
   * A bit per group of tensors, set if no running launch of any rank writes a tensor of the group. 0 is always safe.
   */
  | { readonly kind: 'settled'; readonly groups: readonly (readonly string[])[] }
  /** The rank's abort word and one wait record per program (control.ts). */
  | { readonly kind: 'control' }
  /** The event log of this rank's queue (log.ts). */
  | { readonly kind: 'log' }
  | OpaqueParam

/** A parameter in a format that only the vendor knows, such as a tensor descriptor. `Platform.encode` makes its value. */
export interface OpaqueParam {
  readonly kind: 'opaque'
  readonly tensor: string
}

export interface EmittedAssertion {
  /** The position in the kernel's source, as file:line:column. */
  readonly site: string
  readonly message: string
}

export interface RecordedSite {
  /** The line in the kernel's source, as file:line. */
  readonly line: string
  /** For a wait, the name of the flag parameter. */
  readonly flags: string | undefined
}

/**
 * A kernel, specialised for the shapes of its arguments and for a world. `Platform.compile` turns it into machine code.
 */
export interface Emitted {
  readonly name: string
  readonly params: readonly Param[]
  /** The number of threads per program. */
  readonly block: number
  /** The dynamic shared memory per program, in bytes. */
  readonly sharedBytes: number
  /** Tensors that the kernel writes, on this rank or another. No other parameter may overlap their memory. */
  readonly writes: readonly string[]
  /** The source lines of the waits. Entry i - 1 belongs to site i of a wait record. */
  readonly waitSites: readonly string[]
  /** The assertions of a kernel that has any. Entry i - 1 has number i. */
  readonly assertions?: readonly EmittedAssertion[]
  /** For a kernel that records, the source sites that its events refer to by index. */
  readonly recordedSites?: readonly RecordedSite[]
  /** The names of the tensors whose words may contain epochs (flag-in-data). */
  readonly carriesEpochs: readonly string[]
  /** The differences from the kernel without recording. Empty if the kernel does not record events. */
  readonly unlike: readonly string[]
}

export interface Platform {
  /** The name of the target. */
  readonly target: string
  readonly devices: readonly Device[]
  readonly capabilities: Capabilities
  /** The tiles of products that the compiler supports. */
  readonly products: ProductLimits
  /** The rates that have been measured on devices with this name. */
  measuredOn(name: string): Measured
  /** The kernel that reads the clock of a device (clock.ts). */
  readonly clock: Emitted
  emit(recorded: KernelIR, args: LaunchArguments, facts: WorldFacts): Emitted
  /** Compiles a kernel that this platform has emitted to machine code for one of its devices. */
  compile(emitted: Emitted, device: Device): Uint8Array
  /** Encodes the value of a parameter of a kernel that this platform has emitted. */
  encode(param: OpaqueParam, tensor: HeapTensor, memory: RankMemory): Uint8Array
}
