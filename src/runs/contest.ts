/**
 * The variants of an operation on a world, ready to be executed in interleaved rounds. Every variant of the operation
 * exists on every set of inputs. The sets of inputs rotate over more memory than the caches hold, in the same way for
 * all variants.
 */
import { dtypes } from '../ir/dtype.ts'
import type { Operation, OperationDefinition, OperationOptions } from '../operation/definition.ts'
import type { SymmetricTensor, World } from '../world/world.ts'
import { breathe } from './breath.ts'
import { Gate, type Timed } from './gate.ts'
import type { Deviation } from './results.ts'

/**
 * The largest number of floating-point operations that a reference may take over all ranks. If the full reference would
 * take more operations than the limit, only some of its rows are computed.
 */
const mostWork = 4e9
/** The largest number of input sets, which is reached if each set is small. */
const mostSets = 32
/** The name of the lower bound, which is executed like a variant. No variant has the name of the lower bound. */
export const limitName = ' limit'

export interface ContestOptions<Options extends OperationOptions> {
  /** The options of the operation, without the variant and the stream. */
  readonly options: Omit<Options, 'variant' | 'stream'>
  readonly variants: readonly Options['variant'][]
  /**
   * The number of bytes over which inputs rotate. The inputs should rotate over more bytes than the last-level cache
   * holds.
   */
  readonly rotate: number
  /** The host's clock in nanoseconds. */
  readonly now: () => number
  /** True if every worker of every rank has its own core, so that start gates may spin. */
  readonly spin: boolean
  /** The abort signal that ends long work on this thread. */
  readonly interrupt?: AbortSignal
}

export interface Checked {
  readonly deviation: Deviation
  readonly launches: number
  readonly remoteBytes: number
}

export const bytesOf = ({ dtype, shape }: SymmetricTensor): number =>
  shape.reduce((product, extent) => product * extent, dtypes[dtype].bytes)

export interface Contestant {
  readonly name: string
  /**
   * Returns the execution that has the number `turn` in the measurement. Each execution uses the next set of inputs, so
   * that no execution finds inputs in a cache because the previous execution has read them.
   */
  readonly at: (turn: number) => Timed
}

/** All variants of an operation for one shape, on every set of inputs. */
export class Contest<Options extends OperationOptions, Contents> {
  readonly gate: Gate
  readonly #definition: OperationDefinition<Options, Contents>
  readonly #world: World
  readonly #variants: readonly Options['variant'][]
  readonly #interrupt: AbortSignal | undefined
  /** The operations, indexed by set of inputs and by variant. */
  readonly #sets: readonly ReadonlyMap<string, Operation<Contents>>[]

  private constructor(
    definition: OperationDefinition<Options, Contents>,
    { variants, now, spin, interrupt }: ContestOptions<Options>,
    world: World,
    stream: ReturnType<World['stream']>,
    sets: readonly ReadonlyMap<string, Operation<Contents>>[],
  ) {
    this.#definition = definition
    this.#world = world
    this.#variants = variants
    this.#interrupt = interrupt
    this.#sets = sets
    this.gate = new Gate(world, stream, now, spin)
  }

  static async make<Options extends OperationOptions, Contents>(
    definition: OperationDefinition<Options, Contents>,
    settings: ContestOptions<Options>,
    world: World,
  ): Promise<Contest<Options, Contents>> {
    const stream = world.stream()
    const needed = new Set(['bsp', ...settings.variants])
    const makeSet = (): Map<string, Operation<Contents>> => {
      const set = new Map<string, Operation<Contents>>()
      let inputs: Operation['inputs'] | undefined
      for (const variant of needed) {
        const options = { ...settings.options, variant, stream: stream.id } as unknown as Options
        const operation = definition.make(world, options, inputs)
        inputs ??= operation.inputs
        set.set(variant, operation)
      }
      return set
    }
    const sets = [makeSet()]
    const [operation] = sets[0].values()
    const bytes =
      world.ranks * Object.values(operation.inputs).reduce((sum, input) => sum + bytesOf(input), 0)
    while (sets.length * bytes < settings.rotate && sets.length < mostSets) {
      await breathe(settings.interrupt)
      sets.push(makeSet())
    }
    const contest = new Contest(definition, settings, world, stream, sets)
    await contest.gate.prepare()
    return contest
  }

  async fill(seed: number): Promise<Contents> {
    const operation = (set: ReadonlyMap<string, Operation<Contents>>): Operation<Contents> =>
      [...set.values()][0]
    const contents = operation(this.#sets[0]).random(seed)
    for (const set of this.#sets) {
      await breathe(this.#interrupt)
      operation(set).fill(contents)
    }
    return contents
  }

  /**
   * Runs every variant once before the measurement, so that nothing has to be compiled or loaded during a timed
   * execution.
   */
  async warm(): Promise<void> {
    for (const operation of this.#sets[0].values()) {
      await breathe(this.#interrupt)
      await this.#world.compile?.(() => operation.launch())
      operation.launch()
    }
    await this.#world.synchronize()
  }

  async pack(): Promise<void> {
    for (const set of this.#sets)
      for (const operation of set.values()) {
        await breathe(this.#interrupt)
        await operation.pack()
      }
  }

  /**
   * Compares the result of every variant with the reference, on fresh inputs and poisoned outputs. An error is thrown
   * if the result of a variant is wrong.
   */
  async check(seed: number, pack: boolean): Promise<Map<string, Checked>> {
    const contents = await this.fill(seed)
    if (pack) await this.pack()
    const checked = new Map<string, Checked>()
    const world = this.#world
    const references = new Map<number, Float64Array>()
    const { height, rows } = sampleOf([...this.#sets[0].values()][0], world.localRanks.length, seed)
    const sample = rows && { sample: { rows: rows.length, of: height } }
    for (const [variant, operation] of this.#sets[0]) {
      const largest = await deviationOf(world, operation, contents, references, rows, this.#interrupt)
      const { launches, remoteBytes } = operation.traffic
      const deviation = { largest, bound: operation.tolerance, ...sample }
      checked.set(variant, { deviation, launches, remoteBytes })
    }
    return checked
  }

  /**
   * The executions of a whole variant, and of each of its kernels alone, as functions of the number of the execution.
   */
  stepsOf(variant: Options['variant']): { whole: Contestant['at']; steps: readonly Contestant['at'][] } {
    const operations = this.#sets.map((set) => set.get(variant)!)
    const turns =
      (executions: readonly Timed[]): Contestant['at'] =>
      (turn) =>
        executions[turn % executions.length]
    return {
      whole: turns(operations.map(executionOf)),
      steps: operations[0].steps.map((_, n) =>
        turns(operations.map(({ steps }) => ({ launches: 1, launch: () => steps[n].launch() }))),
      ),
    }
  }

  /**
   * A round executes every variant and the computation whose time is the lower bound. The last rank starts `late`
   * nanoseconds after the other ranks.
   */
  async contestants(late: number): Promise<Contestant[]> {
    const made: { name: string; executions: Timed[] }[] = []
    for (const variant of this.#variants)
      made.push({ name: variant, executions: this.#sets.map((set) => executionOf(set.get(variant)!)) })
    const { step: wanted } = this.#definition.limit
    const limits = this.#sets.map((set) => {
      const step = set.get('bsp')!.steps.find(({ name }) => name === wanted)
      if (!step) throw new Error(`bsp of ${this.#definition.name} has no step ${wanted}`)
      return { launches: 1, launch: () => step.launch() }
    })
    made.push({ name: limitName, executions: limits })
    const delay =
      late > 0 ? await this.gate.delaying(this.#world.ranks - 1, late) : (one: Timed): Timed => one
    for (const one of made) if (one.name !== limitName) one.executions = one.executions.map(delay)
    return made.map(({ name, executions }) => ({
      name,
      at: (turn) => executions[turn % executions.length],
    }))
  }
}

export const executionOf = (operation: Pick<Operation, 'steps' | 'launch'>): Timed => ({
  launches: operation.steps.length,
  launch: () => operation.launch(),
})

/**
 * Executes the operation on poisoned outputs and returns the largest deviation from the reference. An error is thrown
 * if the deviation is larger than rounding can explain. The function computes missing entries of `references`, which
 * has one entry per rank.
 */
export async function deviationOf<Contents>(
  world: World,
  operation: Operation<Contents>,
  contents: Contents,
  references: Map<number, Float64Array>,
  rows: readonly number[] | undefined,
  interrupt?: AbortSignal,
): Promise<number> {
  const { name, variant, outputs, tolerance } = operation
  for (const output of Object.values(outputs)) {
    const poison = new Float32Array(bytesOf(output) / dtypes[output.dtype].bytes).fill(NaN)
    for (const rank of world.localRanks) world.write(output, rank, poison)
  }
  await world.compile?.(() => operation.launch())
  operation.launch()
  let largest = 0
  for (const rank of world.localRanks) {
    let reference = references.get(rank)
    if (!reference)
      references.set(rank, (reference = await referenceOf(operation, contents, rank, rows, interrupt)))
    const result = await operation.result(rank)
    const { width } = extentsOf(operation, rank)
    const compared = rowsOf(operation, rank, rows)
    for (let n = 0; n < reference.length; n++) {
      const i = compared[Math.floor(n / width)] * width + (n % width)
      const off = Math.abs(result[i] - reference[n])
      if (!(off <= tolerance))
        throw new WrongResult(
          `${name} ${variant}: element ${i} of rank ${rank} is ${result[i]}, the reference ${reference[n]}: more than ${tolerance} apart`,
        )
      largest = Math.max(largest, off)
    }
  }
  return largest
}

/**
 * The number of floating-point operations of a reference, some milliseconds of work, between two checks for an
 * interrupt.
 */
const workBetweenBreaths = 1e7

/** Computes the reference of one rank, a few rows at a time. */
async function referenceOf<Contents>(
  operation: Operation<Contents>,
  contents: Contents,
  rank: number,
  rows: readonly number[] | undefined,
  interrupt: AbortSignal | undefined,
): Promise<Float64Array> {
  const { width, height } = extentsOf(operation, rank)
  const wanted = rowsOf(operation, rank, rows)
  const step = Math.max(1, Math.floor((workBetweenBreaths * height) / operation.traffic.flops))
  const reference = new Float64Array(wanted.length * width)
  for (let from = 0; from < wanted.length; from += step) {
    await breathe(interrupt)
    const some = wanted.slice(from, from + step)
    reference.set(operation.reference(contents, rank, some), from * width)
  }
  return reference
}

/** The numbers of those rows of a rank's output that are compared: of the given rows, or of all rows. */
function rowsOf(
  operation: Pick<Operation, 'outputs' | 'extents'>,
  rank: number,
  rows: readonly number[] | undefined,
): readonly number[] {
  const { height } = extentsOf(operation, rank)
  return rows ? rows.filter((row) => row < height) : Array.from({ length: height }, (_, row) => row)
}

/**
 * The number of elements along the last axis of the output, which form one row, and the number of rows: of one rank
 * without padding, or of the allocated output.
 */
function extentsOf(
  { outputs, extents }: Pick<Operation, 'outputs' | 'extents'>,
  rank?: number,
): { width: number; height: number } {
  if (rank !== undefined && extents) {
    const [height, width] = extents(rank)
    return { width, height }
  }
  const [{ shape }] = Object.values(outputs)
  const width = shape[shape.length - 1]
  return { width, height: shape.reduce((product, extent) => product * extent, 1) / width }
}

export class WrongResult extends Error {}

/**
 * The rows of the output that are compared, in order. If the list of compared rows is undefined, all rows are compared.
 */
export function sampleOf(
  { outputs, traffic }: Pick<Operation, 'outputs' | 'traffic'>,
  ranks: number,
  seed: number,
): { readonly width: number; readonly height: number; readonly rows: readonly number[] | undefined } {
  const { width, height } = extentsOf({ outputs })
  const count = Math.max(1, Math.floor((height * mostWork) / (traffic.flops * ranks)))
  if (count >= height) return { width, height, rows: undefined }
  const rows = randomOrder(seed)(height).slice(0, count)
  return { width, height, rows: rows.sort((a, b) => a - b) }
}

/**
 * Returns a generator of permutations of 0 … count - 1. The same seed gives the same permutations. Every second
 * permutation is the reverse of the previous permutation. Because the machine becomes slower while a benchmark runs,
 * independent permutations would, in few rounds, make some variants run near the end of a round more often than others.
 */
export function randomOrder(seed: number): (count: number) => number[] {
  let state = seed >>> 0 || 1
  let before: readonly number[] | undefined
  const below = (count: number): number => {
    state ^= state << 13
    state ^= state >>> 17
    state ^= state << 5
    return (state >>> 0) % count
  }
  return (count) => {
    if (before?.length === count) {
      const order = [...before].reverse()
      before = undefined
      return order
    }
    const order = Array.from({ length: count }, (_, n) => n)
    for (let n = count - 1; n > 0; n--) {
      const other = below(n + 1)
      ;[order[n], order[other]] = [order[other], order[n]]
    }
    before = [...order]
    return order
  }
}
