/**
 * Defines the inputs and the result of the emitter. An `EmittedKernel` consists of text and plain data. The recipe of
 * an emitted kernel has one entry per kernel parameter, so a runtime can launch any emitted kernel in the same way.
 */
import type { DType, StorageDType } from '../../../ir/dtype.ts'
import { dtypes } from '../../../ir/dtype.ts'
import type { Emitted, OpaqueParam, Param } from '../../gpu/platform.ts'
import { limitsOf, type DeviceLimits } from '../../../world/machine.ts'
import { describedGpu } from '../description.ts'
import type { Swizzle } from '../tensormap.ts'

/** The target architecture of the emitted text. */
export const ARCHITECTURE = 'sm_90a'

/**
 * Facts about a tensor at compile time. The facts about tensors are part of the cache key of a compiled kernel. Every
 * tensor starts at a multiple of 16 bytes on every rank, because every allocation does.
 */
export interface TensorFacts {
  /** For each axis, the largest power of two up to 1024 that divides the extent. */
  readonly divisors: readonly number[]
  /** True if the tensor has fewer than 2^31 elements. */
  readonly small: boolean
  /** True if the tensor has at least one element. */
  readonly filled: boolean
}

export interface EmitFacts {
  readonly tensors: Readonly<Record<string, TensorFacts>>
  /** True if the kernel writes a log of its actions with timestamps (record.ts). */
  readonly record?: boolean
  /** True if all ranks share one device, so flags need not be visible to other devices. */
  readonly oneDevice?: boolean
  /**
   * The limits of a program and of a multiprocessor (threads, registers, shared memory). The default is the limits of
   * the usual device (../description.ts).
   */
  readonly device?: DeviceLimits
  /** True if the host signals flags of the kernel, so flags must be visible to the host. */
  readonly hostSignals?: boolean
  /**
   * True if the kernel is launched on a group whose ranks are not at a constant distance in the world. For a group with
   * unevenly spaced ranks, a kernel parameter holds a table with the position of each rank's heap.
   */
  readonly scattered?: boolean
}

const usualDevice: DeviceLimits = limitsOf(describedGpu())
export const deviceOf = ({ device = usualDevice }: Pick<EmitFacts, 'device'>): DeviceLimits => device

/**
 * True if flag-in-data words may replace flags (words.ts). A kernel that records events keeps its waits for flags,
 * because its log shows each wait.
 */
export const mayCarryEpochs = ({ record = false }: Pick<EmitFacts, 'record'>): boolean => !record

export function factsOf(shape: readonly number[]): TensorFacts {
  const divisor = (extent: number): number => {
    let power = 1
    while (power < 1024 && extent % (2 * power) === 0) power *= 2
    return power
  }
  const elements = shape.reduce((product, extent) => product * extent, 1)
  return { divisors: shape.map(divisor), small: elements < 2 ** 31, filled: elements > 0 }
}

/** True if each row of the tensor starts at a multiple of 16 bytes. */
export function hasAlignedRows(facts: TensorFacts, dtype: StorageDType | DType): boolean {
  const inner = facts.divisors[facts.divisors.length - 1]
  return (inner * dtypes[dtype].bytes) % 16 === 0
}

/** A parameter that is a tensor map. */
export interface MapRecipe {
  readonly kind: 'map'
  readonly tensor: string
  /** The extents of one TMA copy in elements, innermost axis first; 1 for axes that a `pick` has indexed. */
  readonly box: readonly number[]
  readonly swizzle: Swizzle
  /**
   * True if one tensor map covers the copies of all ranks. The outermost axis of the map is the rank, with the distance
   * between heaps as its stride. For a group with unevenly spaced ranks, the map covers the copies of all ranks of the
   * world.
   */
  readonly ranked: boolean
}

/** The source of a kernel parameter's value. */
export type ParamRecipe = Exclude<Param, OpaqueParam> | MapRecipe

export interface EmittedKernel extends Omit<Emitted, 'params' | 'carriesEpochs' | 'unlike'> {
  readonly source: string
  /**
   * The text of `source` without the comments that state facts or name the author's source lines. Kernels with equal
   * `code` are compiled once.
   */
  readonly code: string
  readonly architecture: typeof ARCHITECTURE
  readonly params: readonly ParamRecipe[]
  /**
   * The flag sets whose signal epoch a launch advances. `waits` lists the flag sets whose wait epoch a launch advances.
   */
  readonly signals: readonly string[]
  readonly waits: readonly string[]
  /** Performance notes for the kernel's author. */
  readonly notes: readonly EmitNote[]
}

export interface EmitNote {
  readonly message: string
  /** The position in the kernel's source, as file:line:column. */
  readonly at: string | undefined
}
