/**
 * What every ready operation offers, whatever it computes: allocated on a world, filled, launched, read and compared with a
 * reference. Benches and tests know operations by this alone.
 *
 * One execution (`launch`) is enqueued on all ranks without a host wait, and the next may follow at once: every variant
 * learns inside its kernels that the inputs of its peers are ready and that its buffers may be written again. What a rank
 * launches before, on the same stream, may write the inputs; what it launches after may read the outputs and write the
 * inputs again.
 */
import { round } from '../ir/dtype.ts'
import type { Recogniser } from '../taxes/recognition.ts'
import type { Tiling, TilesFrom } from '../tune/configurations.ts'
import type { Measurement } from './choice.ts'
import type { Points } from './points.ts'
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

/** One kernel of an execution. */
export interface Step {
  readonly name: string
  /** On all ranks; returns at once. */
  launch(): void
}

/** An operation in one variant and shape, on a world. `Contents` is what fills the inputs of all ranks. */
export interface Operation<Contents = never> {
  readonly name: string
  readonly variant: string
  /** Why it is this variant, where `auto` was asked for. */
  readonly reason?: string
  readonly dtype: OperandDType
  readonly inputs: Readonly<Record<string, SymmetricTensor>>
  readonly outputs: Readonly<Record<string, SymmetricTensor>>
  readonly traffic: Traffic
  /** What its kernels cut their work into, and why it is that. */
  readonly tiles: Readonly<Record<string, number>>
  readonly tilesFrom: TilesFrom
  /** What one execution launches, in order. Each may be launched alone, on inputs that are there already, to see what it takes. */
  readonly steps: readonly Step[]
  /** One execution on all ranks; returns at once. */
  launch(): void
  /** Bring the inputs that stay, such as weights, into the order in which the target reads them; `fill` takes that back. */
  pack(): Promise<void>
  /** Random contents that the dtype represents. */
  random(seed: number): Contents
  /** Give every rank its part of the contents; not ordered with launches that may still run. */
  fill(contents: Contents): void
  /** What a rank holds when the launches so far have ended, in row-major order and without padding. */
  result(rank: number): Promise<Float64Array>
  /** What it should hold, in float64; with `rows` only those, where a row is the last axis of the output. */
  reference(contents: Contents, rank: number, rows?: readonly number[]): Float64Array
  /** How far a result may be from it because of rounding alone, where contents are random. */
  readonly tolerance: number
}

/** What tiles depend on: a world, or a machine that is only described (src/world/machine.ts). */
export type TilingWorld = Pick<World, 'ranks' | 'machine'>

/** What all operations can be told. A `variant` may also be `auto`: see choice.ts. */
export interface OperationOptions {
  readonly shape: Readonly<Record<string, number>>
  readonly dtype: OperandDType
  readonly variant: string
  readonly tiles?: Readonly<Record<string, number | undefined>>
  readonly stream?: number
}

/** An operation that can be had: its variants, and the shape it is shown with. */
export interface OperationDefinition<Options extends OperationOptions, Contents> {
  readonly name: string
  /** As people call it: a heading. */
  readonly title: string
  /** From bulk synchronous to fused, without `auto`. */
  readonly variants: readonly Options['variant'][]
  /** Those that communicate from inside the kernel that computes. */
  readonly fused: readonly Options['variant'][]
  readonly defaults: Options
  /** What the command line calls extents beside their names, in lower case: { kv: 'tokens' }. */
  readonly aliases?: Readonly<Record<string, keyof Options['shape'] & string>>
  /** Options that say how inputs are laid out, with their values: { shard: ['K', 'M'] }. What is measured holds for one of them. */
  readonly layouts?: Readonly<Record<string, readonly string[]>>
  /** Whether inputs are weights, which `Operation.pack` brings into the target's order. */
  readonly packs: boolean
  /** What `auto` goes by where a program has measured nothing itself. */
  readonly measurements: readonly Measurement[]
  /** What `arke demo` shows it with: extents that differ from the defaults, and by how many percent a rank is late. */
  readonly demo?: { readonly shape: Partial<Options['shape']>; readonly skews: readonly number[] }
  /** Where tests and benchmarks look at it. */
  readonly points: Points<Options, Contents>
  /** How its tiles are chosen, where nobody gives them. */
  tiling(world: TilingWorld, options: Omit<Options, 'tiles'>): Tiling
  /** With `inputs` of an operation of the same shape, dtype and layout, that one's are used, packed ones too. */
  make(world: World, options: Options, inputs?: Operation['inputs']): Operation<Contents>
  /** What no variant can be faster than: a step of `bsp` that has all it needs on its own rank. */
  readonly limit: { readonly step: string; readonly name: string }
  /** Its options for a chain of kernels in a trace that does the same. */
  readonly recognise?: Recogniser['recognise']
}

/** What rounding to a dtype changes, relative to the number. */
export const roundoff: Readonly<Record<OperandDType, number>> = {
  f32: 2 ** -24,
  f16: 2 ** -11,
  bf16: 2 ** -8,
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

/** How many numbers are drawn before they come again; a prime, so that rows of no usual length repeat each other. */
const period = 1_048_573

/** `count` numbers between -1 and 1 that the dtype represents; the same for the same seed. */
export function randomNumbers(dtype: OperandDType, count: number, seed: number): Float32Array {
  let state = (seed * 2654435761) >>> 0 || 1
  const numbers = new Float32Array(count)
  for (let i = 0; i < Math.min(count, period); i++) {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    numbers[i] = dtype === 'f32' ? (state | 0) / 2 ** 31 : round(dtype, (state | 0) / 2 ** 31)
  }
  for (let done = period; done < count; done *= 2) numbers.copyWithin(done, 0, Math.min(done, count - done))
  return numbers
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

/** Refuses what was asked for and only other variants have. Where the variant is chosen, that may be one that has not. */
export function expectOptionsOf(
  what: string,
  options: { readonly variant: string },
  variantsOf: Readonly<Record<string, readonly string[]>>,
): void {
  const { variant } = options
  if (variant === 'auto') return
  const given = options as Readonly<Record<string, unknown>>
  for (const [name, variants] of Object.entries(variantsOf))
    if (given[name] && !variants.includes(variant))
      throw new RangeError(`${what}: ${name} is an option of ${variants.join(' and ')}; here is ${variant}`)
}
