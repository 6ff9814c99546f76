/**
 * What every ready operation offers, whatever it computes: allocated on a world, filled, launched, read and compared with a
 * reference. Benches and tests know operations by this alone.
 *
 * One execution (`launch`) is enqueued on all ranks without a host wait, and the next may follow at once: every variant
 * learns inside its kernels that the inputs of its peers are ready and that its buffers may be written again. What a rank
 * launches before, on the same stream, may write the inputs; what it launches after may read the outputs and write the
 * inputs again.
 */
import { round, type DType } from '../ir/dtype.ts'
import type { SymmetricTensor, World } from '../world/world.ts'

/** What operations multiply; sums are f32. */
export type OperandDType = 'f32' | 'f16' | 'bf16'
export const operandDTypes: readonly OperandDType[] = ['f32', 'f16', 'bf16']

/** Of one execution, for each rank. */
export interface Traffic {
  /** Bytes that cross from one rank to another, counted where they arrive: the rank with the most. */
  readonly remoteBytes: number
  /** The least that any variant must move. */
  readonly leastRemoteBytes: number
  /** Multiplications and additions, two for each pair: the rank with the most. */
  readonly flops: number
  /** Kernels. */
  readonly launches: number
}

/** An operation in one variant and shape, on a world. `Contents` is what fills the inputs of all ranks. */
export interface Operation<Contents = never> {
  readonly name: string
  readonly variant: string
  readonly dtype: OperandDType
  readonly inputs: Readonly<Record<string, SymmetricTensor>>
  readonly outputs: Readonly<Record<string, SymmetricTensor>>
  readonly traffic: Traffic
  /** One execution on all ranks; returns at once. */
  launch(): void
  /** Random contents that the dtype represents. */
  random(seed: number): Contents
  /** Give every rank its part of the contents; not ordered with launches that may still run. */
  fill(contents: Contents): void
  /** What a rank holds when the launches so far have ended, in row-major order and without padding. */
  result(rank: number): Promise<Float64Array>
  /** What it should hold, in float64. */
  reference(contents: Contents, rank: number): Float64Array
}

/** An operation that can be had: its variants, and the shape it is shown with. */
export interface OperationDefinition<Options extends { readonly variant: string }, Contents> {
  readonly name: string
  /** From bulk synchronous to fused. */
  readonly variants: readonly Options['variant'][]
  readonly defaults: Options
  readonly make: (world: World, options: Options) => Operation<Contents>
}

/** A kernel for each choice, made once: a kernel keeps what was recorded of it. */
export function oncePer<Choice, Made>(make: (choice: Choice) => Made): (choice: Choice) => Made {
  const made = new Map<string, Made>()
  return (choice) => {
    const key = JSON.stringify(choice)
    let known = made.get(key)
    if (known === undefined) made.set(key, (known = make(choice)))
    return known
  }
}

/** `count` numbers between -1 and 1 that the dtype represents; the same for the same seed. */
export function randomNumbers(dtype: DType, count: number, seed: number): Float64Array {
  let state = (seed * 2654435761) >>> 0 || 1
  return Float64Array.from({ length: count }, () => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return round(dtype, (state | 0) / 2 ** 31)
  })
}

export function expectExtents(what: string, extents: Readonly<Record<string, number>>, least = 1): void {
  for (const [name, extent] of Object.entries(extents))
    if (!Number.isInteger(extent) || extent < least)
      throw new RangeError(`${what}: ${name} is ${extent}; it is a whole number of at least ${least}`)
}

/** The entry of a table by its name, or an error that lists them. */
export function chosen<T>(what: string, table: Readonly<Record<string, T>>, name: string): T {
  if (!Object.hasOwn(table, name))
    throw new RangeError(`${what}: there is no ${name}; there is ${Object.keys(table).join(', ')}`)
  return table[name]
}
