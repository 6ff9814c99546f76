/**
 * What the emitter is given and what it hands back. `EmittedKernel` is text and plain data: a runtime that follows its
 * recipe, one entry a kernel parameter, can launch it without knowing the kernel.
 */
import type { DType, StorageDType } from '../../../ir/dtype.ts'
import { dtypes } from '../../../ir/dtype.ts'
import type { Swizzle } from '../tensormap.ts'

/** What text is written for. */
export const ARCHITECTURE = 'sm_90a'

/** What is known of a tensor when the kernel is compiled; part of what a compiled kernel is cached by. */
export interface TensorFacts {
  /** Its address, on every rank, is a multiple of 16 bytes. */
  readonly aligned: boolean
  /** For each axis, the largest power of two up to 1024 that divides the extent. */
  readonly divisors: readonly number[]
  /** Its elements are counted in 31 bits; there are some. */
  readonly small: boolean
  readonly filled: boolean
}

export interface EmitFacts {
  readonly tensors: Readonly<Record<string, TensorFacts>>
  /** The kernel writes down what it does, and when: record.ts. */
  readonly record?: boolean
  /** All ranks share one device: no flag has to be seen outside it. */
  readonly oneDevice?: boolean
}

/** Whether flag-in-data words may replace flags (words.ts). A recorded kernel waits for flags, because its log shows each wait. */
export const mayCarryEpochs = ({ record = false }: Pick<EmitFacts, 'record'>): boolean => !record

export function factsOf(shape: readonly number[]): TensorFacts {
  const divisor = (extent: number): number => {
    let power = 1
    while (power < 1024 && extent % (2 * power) === 0) power *= 2
    return power
  }
  const elements = shape.reduce((product, extent) => product * extent, 1)
  return { aligned: true, divisors: shape.map(divisor), small: elements < 2 ** 31, filled: elements > 0 }
}

/** Whether every row starts at a multiple of 16 bytes, given that the tensor does. */
export function hasAlignedRows(facts: TensorFacts, dtype: StorageDType | DType): boolean {
  const inner = facts.divisors[facts.divisors.length - 1]
  return facts.aligned && (inner * dtypes[dtype].bytes) % 16 === 0
}

/** Where the value of a kernel parameter comes from. */
export type ParamRecipe =
  | { readonly kind: 'pointer'; readonly tensor: string }
  | { readonly kind: 'dim'; readonly of: string; readonly axis: number }
  | {
      readonly kind: 'map'
      readonly tensor: string
      /** Elements of one copy, innermost axis first; the tensor's axes that are picked from have 1. */
      readonly box: readonly number[]
      readonly swizzle: Swizzle
      /** All ranks' copies as one tensor: rank is the outermost axis, the heap stride its stride. */
      readonly ranked: boolean
    }
  | { readonly kind: 'flags'; readonly flags: string }
  /** Two u32 on this rank: how many launches have signalled the set, how many have waited for it. */
  | { readonly kind: 'epochs'; readonly flags: string }
  | { readonly kind: 'scalar'; readonly name: string; readonly dtype: DType }
  | { readonly kind: 'rank' }
  /** Bytes from one rank's heap to the next one's. */
  | { readonly kind: 'heapStride' }
  /** u32 words of this kernel's own on this rank, zero at first and left so by every launch. */
  | { readonly kind: 'counters'; readonly words: number }
  /** A bit for each group of tensors, set where no launch under way, on any rank, writes one of them; 0 is always right. */
  | { readonly kind: 'settled'; readonly groups: readonly (readonly string[])[] }
  /** This rank's abort word and a record of waiting for each of its programs, in memory that host and device see. */
  | { readonly kind: 'control' }
  /** Where this rank's queue keeps what was recorded. */
  | { readonly kind: 'log' }

export interface EmittedKernel {
  readonly name: string
  readonly source: string
  readonly architecture: typeof ARCHITECTURE
  /** Threads of one program. */
  readonly block: number
  /** Dynamic shared memory of one program. */
  readonly sharedBytes: number
  readonly params: readonly ParamRecipe[]
  /** Tensors that the kernel writes, on this rank or another: no other parameter may be the same memory. */
  readonly writes: readonly string[]
  /** Flag sets whose epochs a launch advances, by side. */
  readonly signals: readonly string[]
  readonly waits: readonly string[]
  /** The author's lines of waits: entry i - 1 is what a wait record calls site i. */
  readonly waitSites: readonly string[]
  /** What its author should know. */
  readonly notes: readonly EmitNote[]
  /** Of a kernel that records: what its events number. */
  readonly recordedSites?: readonly RecordedSite[]
}

export interface EmitNote {
  readonly message: string
  /** The author's line, as file:line:column. */
  readonly at: string | undefined
}

export interface RecordedSite {
  /** The author's. */
  readonly line: string
  /** Of a wait: the parameter. */
  readonly flags: string | undefined
}
