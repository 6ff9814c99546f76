/**
 * Finds the fastest tiles of an operation on a world. Every candidate's result is first compared with the reference.
 * After the comparison, the candidates run interleaved, after a start gate that holds all ranks until all have arrived,
 * on inputs that rotate over more memory than the caches hold. Candidates that a target rejects or computes wrongly are
 * dropped.
 */
import { KernelError } from '../ir/site.ts'
import type { Operation, OperationDefinition, OperationOptions } from '../operation/definition.ts'
import { breathe } from '../runs/breath.ts'
import { bytesOf, deviationOf, executionOf, randomOrder, sampleOf, WrongResult } from '../runs/contest.ts'
import { Gate, type Lap, type Timed } from '../runs/gate.ts'
import type { Quantity } from '../runs/results.ts'
import { beyondCaches } from '../world/machine.ts'
import { intercepted } from '../world/intercept.ts'
import { WorldError, WorldStopped, type Launch, type World } from '../world/world.ts'
import { halve, type TimeInTurns } from './halving.ts'
import type { Asked, Numbers } from './tables.ts'

export interface TuneOptions<Options extends OperationOptions> {
  /** The options of the operation, with the variant and without tiles. */
  readonly options: Options
  /** The duration of all tuning rounds together, in seconds. */
  readonly seconds: number
  /** The host's clock in nanoseconds. */
  readonly now: () => number
  /** True if every worker of every rank has its own core, so that start gates may spin. */
  readonly spin: boolean
  /**
   * The number of bytes over which inputs rotate. By default, inputs rotate over more bytes than the caches of the
   * world's machine hold.
   */
  readonly rotate?: number
  /**
   * True to pack weights into the target's layout before the measurement. By default, weights are packed before the
   * measurement.
   */
  readonly pack?: boolean
  readonly seed?: number
  /**
   * An abort signal that ends tuning before all rounds are complete. After the abort, the result is the fastest
   * candidate so far. If no candidate was timed before the abort, `tune` throws the reason of the signal.
   */
  readonly interrupt?: AbortSignal
  readonly onProgress?: (what: string, done: number) => void
  /** A callback that receives the launches of one execution with the chosen tiles. */
  readonly onChosen?: (launches: readonly Launch[]) => void
}

export interface Dropped {
  readonly tiles: Numbers
  readonly why: string
}

/** The result of tuning an operation. All times in the result of tuning are in nanoseconds. */
export interface Tuned {
  readonly asked: Asked
  readonly fallback: { readonly tiles: Numbers; readonly time: Quantity }
  /** The best tiles, which are the default tiles unless other tiles are significantly faster. */
  readonly best: { readonly tiles: Numbers; readonly time: Quantity }
  /** The speed-up of the best tiles over the default tiles. */
  readonly speedup: Quantity
  readonly tried: number
  readonly dropped: readonly Dropped[]
  /**
   * The field `interrupted` is present only after an interrupt. After an interrupt, `best` is the fastest candidate so
   * far and may not be significantly faster than the default.
   */
  readonly interrupted?: true
}

/**
 * The largest number of input sets, which is reached if each set is small. The operation is built once for every pair
 * of a candidate and an input set.
 */
const mostSets = 8

export async function tune<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  world: World,
  settings: TuneOptions<Options>,
): Promise<Tuned> {
  const {
    options,
    seconds,
    rotate = beyondCaches(world.machine),
    pack = true,
    seed = 1,
    onProgress = () => {},
    interrupt,
  } = settings
  const { asked, candidates } = definition.tiling(world, options)
  const tiles = candidates()
  const stream = world.stream()
  const gate = new Gate(world, stream, settings.now, settings.spin)
  await gate.prepare()
  const make = (of: Numbers, inputs?: Operation['inputs']): Operation<Contents> =>
    definition.make(world, { ...options, tiles: of, stream: stream.id }, inputs)
  const filling = { rotate, pack, seed, interrupt }
  const { sets, contents } = await inputSets(world, () => make(tiles[0]), filling)
  const { rows } = sampleOf(sets[0], world.localRanks.length, seed)
  const references = new Map<number, Float64Array>()

  const dropped: Dropped[] = []
  const contenders: { readonly tiles: Numbers; readonly executions: readonly Timed[] }[] = []
  for (const [n, candidate] of tiles.entries()) {
    onProgress('comparing with the reference', (0.5 * n) / tiles.length)
    await breathe(interrupt)
    try {
      const operations = n === 0 ? sets : sets.map(({ inputs }) => make(candidate, inputs))
      await deviationOf(world, operations[0], contents, references, rows, interrupt)
      for (const operation of operations.slice(1)) operation.launch()
      await world.synchronize()
      contenders.push({ tiles: candidate, executions: operations.map(timedPart) })
    } catch (error) {
      if (n === 0 || interrupt?.aborted || !isAboutTiles(error)) throw error
      if (error instanceof WorldStopped) await world.reset()
      dropped.push({ tiles: candidate, why: error.message.split('\n')[0] })
    }
  }

  const time = turnsOf(
    (executions) => gate.time(executions),
    contenders.map(({ executions }) => executions),
    settings.now,
    seed,
    interrupt,
  )
  const found = await halve(
    contenders.length,
    seconds,
    time,
    (done) => onProgress('measuring', 0.5 + 0.5 * done),
    interrupt,
  )
  const best = contenders[found.best].tiles
  if (settings.onChosen) {
    const launched: Launch[] = []
    const onlySeen = intercepted(world, (launches) => void launched.push(...launches))
    try {
      definition.make(onlySeen, { ...options, tiles: best, stream: stream.id }, sets[0].inputs).launch()
      settings.onChosen(launched)
    } catch (error) {
      // The candidates may have left too little memory for another operation. The error is ignored, because the result
      // of tuning is valid without a recording.
      if (!isAboutTiles(error)) throw error
    }
  }
  return {
    asked,
    fallback: { tiles: tiles[0], time: found.fallback },
    best: { tiles: best, time: found.time },
    speedup: found.speedup,
    tried: tiles.length,
    dropped,
    ...(found.interrupted && { interrupted: true }),
  }
}

/**
 * Makes an operation on as many sets of inputs as exceed the caches (`rotate` bytes), and fills all of them with the same
 * contents.
 */
export async function inputSets<Contents>(
  world: World,
  make: () => Operation<Contents>,
  options: Required<Pick<TuneOptions<OperationOptions>, 'rotate' | 'pack' | 'seed'>> & {
    readonly interrupt: AbortSignal | undefined
  },
): Promise<{ readonly sets: readonly Operation<Contents>[]; readonly contents: Contents }> {
  const { rotate, pack, seed, interrupt } = options
  const sets = [make()]
  const bytes = world.ranks * Object.values(sets[0].inputs).reduce((sum, input) => sum + bytesOf(input), 0)
  while (sets.length * bytes < rotate && sets.length < mostSets) sets.push(make())
  const contents = sets[0].random(seed)
  for (const operation of sets) {
    await breathe(interrupt)
    operation.fill(contents)
    if (pack) await operation.pack()
  }
  return { sets, contents }
}

const isAboutTiles = (error: unknown): error is Error =>
  [KernelError, WorldError, RangeError, WrongResult].some((kind) => error instanceof kind)

/**
 * The steps of an operation that tuning measures. For `bsp` with a gather, only the matrix product is timed, because
 * the tiles belong to the product and the gather only adds noise.
 */
export function timedPart(operation: Pick<Operation, 'variant' | 'steps' | 'launch'>): Timed {
  const { steps, variant } = operation
  const multiply = variant === 'bsp' ? steps.find(({ name }) => name === 'multiply') : undefined
  return multiply ? { launches: 1, launch: () => multiply.launch() } : executionOf(operation)
}

/** Times the contenders in a new random order in every round. The first round is a warm-up and is not counted. */
function turnsOf(
  gate: (executions: readonly Timed[]) => Promise<readonly Lap[]>,
  contenders: readonly (readonly Timed[])[],
  now: () => number,
  seed: number,
  interrupt: AbortSignal | undefined,
): TimeInTurns {
  const random = randomOrder(seed)
  let turn = 0
  return async (wanted, { seconds, leastRounds, mostRounds }) => {
    const times = wanted.map((): number[] => [])
    let start = now()
    for (let round = -1; round < mostRounds; round++) {
      if (round === 0) start = now()
      if (round >= leastRounds && now() - start > 1e9 * seconds) break
      const order = random(wanted.length)
      const executions = order.map((n) => {
        const sets = contenders[wanted[n]]
        return sets[turn++ % sets.length]
      })
      try {
        await breathe(interrupt)
        const laps = await gate(executions)
        if (round >= 0) order.forEach((n, place) => times[n].push(laps[place].time))
      } catch (error) {
        if (interrupt?.aborted) return times
        throw error
      }
    }
    return times
  }
}
