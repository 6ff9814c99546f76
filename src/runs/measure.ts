/**
 * Measures variants of an operation side by side in one process. In each round, every variant and the lower bound are
 * executed once, in a random order, each behind a start gate. Inputs rotate over more memory than the caches hold, in
 * the same way for all variants. Before the rounds, the contention of the processors is measured, and every variant is
 * compared with a float64 reference on poisoned outputs. After the rounds, every variant is executed a few more times
 * on a world with recording, which gives its ledger.
 */
import type { OperationDefinition, OperationOptions } from '../operation/definition.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { beyondCaches } from '../world/machine.ts'
import type { World } from '../world/world.ts'
import { breathe } from './breath.ts'
import { measureContention } from './contention.ts'
import { Contest, limitName, randomOrder, type Checked, type ContestOptions } from './contest.ts'
import { gateName, type Lap, type Timed } from './gate.ts'
import { executionsOf, ledgerOf, meanLedger, pictureOf } from './ledger.ts'
import { medianOf, quantityOf } from './quantity.ts'
import type { Picture, Point, Quantity, RunLedger, VariantResult } from './results.ts'

export interface MeasureOptions<Options extends OperationOptions> extends Omit<
  ContestOptions<Options>,
  'rotate'
> {
  /**
   * Opens a world on the target. The function `open` is called twice, and the second call asks for a world with
   * recording.
   */
  readonly open: (record: boolean) => Promise<World>
  /**
   * The skews to measure: how late the last rank starts, in percent of the first variant's time. The first skew in the
   * list must be 0.
   */
  readonly skews?: readonly number[]
  /** The duration of all rounds in seconds, with at least `leastRounds` and at most `mostRounds` rounds. */
  readonly seconds?: number
  readonly leastRounds?: number
  readonly mostRounds?: number
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
  /**
   * The number of executions that are recorded per variant. By default, the recorded executions take half a second, and
   * there are 15 to 101 of them.
   */
  readonly recorded?: number
  /**
   * The memory bandwidth of all ranks together in bytes per second, which gives the upper bound of the locality tax.
   */
  readonly bandwidth: number
  readonly seed?: number
  /** Additional options that are stored with the benchmark point. */
  readonly choices?: Point['choices']
  readonly onProgress?: (what: string, done: number) => void
  /**
   * A callback that receives the ledgers of a variant's recorded executions, round by round. All variants have the same
   * number of recorded rounds.
   */
  readonly onLedgers?: (variant: string, ledgers: readonly RunLedger[], skew: number) => void
  /** A callback that receives the recorded timeline. */
  readonly onTimeline?: (timeline: Timeline) => void
  /**
   * A callback that receives the times measured before `interrupt`. The callback receives one entry for each skew whose
   * measurement had begun. After the callback for an interrupt, `measure` throws an error.
   */
  readonly onInterrupted?: (parts: readonly UnfinishedPoint[]) => void
}

/**
 * The times of an interrupted point that are already known, in nanoseconds, with the same number of rounds for every
 * variant.
 */
export interface UnfinishedPoint {
  readonly skew: number
  readonly times: readonly { readonly variant: string; readonly time: Quantity }[]
}

/** Measures one benchmark point for each skew. */
export async function measure<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  settings: MeasureOptions<Options>,
): Promise<Point[]> {
  const { skews = [0], onProgress = () => undefined } = settings
  const contention = await measureContention()
  const plain: Laps[] = []
  let deviations: Map<string, Checked>
  let seen: Recorded
  try {
    deviations = await timed(definition, settings, plain, onProgress)
    seen = await recorded(definition, settings, skews, plain, onProgress)
  } catch (error) {
    if (settings.interrupt?.aborted) settings.onInterrupted?.(plain.flatMap(unfinished))
    throw error
  }
  return skews.map((skew, at): Point => {
    const { laps, limit } = plain[at]
    const bsp = laps.get('bsp')
    const variants = settings.variants.map((variant): VariantResult => {
      const own = laps.get(variant)!
      const ratio = (over: readonly Lap[]) =>
        quantityOf(own.map(({ time }, round) => over[round].time / time))
      const { launches, remoteBytes, deviation } = deviations.get(variant)!
      const executions = seen.pictures[at].get(variant)!
      settings.onLedgers?.(variant, executions.map(ledgerOf), skew)
      return {
        variant,
        time: quantityOf(own.map(({ time }) => time)),
        punctual: quantityOf(own.map(punctualOf)),
        speedup: bsp && variant !== 'bsp' ? ratio(bsp) : null,
        ofLimit: ratio(limit),
        host: quantityOf(own.map(({ host }) => host)),
        deviation,
        launches,
        remoteBytes,
        ledger: meanLedger(middlingHalf(executions).map(ledgerOf)),
        recorded: quantityOf(executions.map(({ wall }) => wall)),
        picture: middling(executions),
      }
    })
    const { options } = settings
    return {
      operation: definition.name,
      shape: options.shape,
      choices: settings.choices ?? {},
      dtype: options.dtype,
      ranks: plain[at].ranks,
      skew,
      contention,
      limit: { name: definition.limit.name, time: quantityOf(limit.map(({ time }) => time)) },
      variants,
      recordedUnlike: seen.unlike,
      auto: null,
    }
  })
}

/**
 * The complete rounds of a benchmark point whose measurement was interrupted. A point that was interrupted in its first
 * round has no times.
 */
function unfinished({ skew, laps }: Laps): UnfinishedPoint[] {
  const times = [...laps].flatMap(([variant, own]) =>
    own.length === 0 ? [] : { variant, time: quantityOf(own.map(({ time }) => time)) },
  )
  return times.length === 0 ? [] : [{ skew, times }]
}

/**
 * The mean end time of all ranks except the last rank. A skew delays only the last rank. If there is only one rank, the
 * mean is the end time of that rank.
 */
export function punctualOf({ time, ends }: Lap): number {
  const punctual = ends.slice(0, -1)
  return punctual.length === 0 ? time : punctual.reduce((sum, end) => sum + end, 0) / punctual.length
}

interface Laps {
  readonly skew: number
  readonly ranks: number
  /** The times of each variant, round by round. All variants have the same number of rounds. */
  readonly laps: ReadonlyMap<string, readonly Lap[]>
  readonly limit: readonly Lap[]
}

/** Measures a benchmark point with each skew and appends each result to `results` as soon as it is measured. */
async function timed<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  settings: MeasureOptions<Options>,
  results: Laps[],
  onProgress: (what: string, done: number) => void,
): Promise<Map<string, Checked>> {
  const { seconds = 3, leastRounds = 15, mostRounds = 201, skews = [0], seed = 1 } = settings
  const world = await settings.open(false)
  const { rotate = beyondCaches(world.machine) } = settings
  try {
    const contest = await Contest.make(definition, { ...settings, rotate }, world)
    onProgress('comparing with the reference', 0)
    const checked = await contest.check(seed, settings.pack ?? true)
    const random = randomOrder(seed)
    let usual: ReadonlyMap<string, readonly Lap[]> | undefined
    for (const skew of skews) {
      // The delay of the last rank is a percentage of the time that was measured without skew.
      const late = usual ? (skew / 100) * medianOf([...usual.values()][0].map(({ time }) => time)) : 0
      const contestants = await contest.contestants(late)
      let turn = 0
      for (let warm = 0; warm < 2; warm++) await contest.gate.time(contestants.map(({ at }) => at(turn++)))
      const laps = contestants.map((): Lap[] => [])
      const byName = new Map(contestants.map(({ name }, n) => [name, laps[n]]))
      const limit = byName.get(limitName)!
      byName.delete(limitName)
      usual ??= byName
      results.push({ skew, ranks: world.ranks, laps: byName, limit })
      const start = settings.now()
      const spent = (): number => (settings.now() - start) / 1e9
      for (let round = 0; round < mostRounds && (round < leastRounds || spent() < seconds); round++) {
        const order = random(contestants.length)
        const found = await contest.gate.time(order.map((n) => contestants[n].at(turn++)))
        order.forEach((n, place) => laps[n].push(found[place]))
        onProgress('measuring', Math.max(spent() / seconds, 0))
        await breathe(settings.interrupt)
      }
    }
    return checked
  } finally {
    await world.close()
  }
}

interface Recorded {
  /** The recorded executions, indexed by skew and by variant. */
  readonly pictures: readonly ReadonlyMap<string, readonly Picture[]>[]
  readonly unlike: readonly string[]
}

async function recorded<Options extends OperationOptions, Contents>(
  definition: OperationDefinition<Options, Contents>,
  settings: MeasureOptions<Options>,
  skews: readonly number[],
  plain: readonly Laps[],
  onProgress: (what: string, done: number) => void,
): Promise<Recorded> {
  const { seed = 1, variants, bandwidth, onTimeline = () => undefined } = settings
  const usual = medianOf([...plain[0].laps.values()][0].map(({ time }) => time))
  const count = settings.recorded ?? Math.round(Math.min(Math.max(0.5e9 / usual, 15), 101))
  const world = await settings.open(true)
  const { rotate = beyondCaches(world.machine) } = settings
  try {
    const contest = await Contest.make(definition, { ...settings, rotate }, world)
    await contest.fill(seed)
    if (settings.pack ?? true) await contest.pack()
    await contest.warm()
    const pictures = skews.map(() => new Map(variants.map((variant): [string, Picture[]] => [variant, []])))
    const wanted = new Map<Timed, Picture[]>()
    const random = randomOrder(seed)
    let turn = 0
    for (const [at, skew] of skews.entries()) {
      const contestants = (await contest.contestants((skew / 100) * usual)).filter(
        ({ name }) => name !== limitName,
      )
      for (let round = 0; round <= count; round++) {
        // The first execution of a batch runs while the host is still leaving its core, so the order of the variants
        // must vary.
        const order = random(contestants.length).map((n) => contestants[n])
        const executions = order.map((one) => ({ ...one.at(turn++) }))
        await contest.gate.time(executions)
        // The first round is a warm-up, in which kernels are compiled.
        if (round > 0) order.forEach(({ name }, n) => wanted.set(executions[n], pictures[at].get(name)!))
        onProgress('recording', (at * (count + 1) + round + 1) / (skews.length * (count + 1)))
        await breathe(settings.interrupt)
      }
    }
    await world.synchronize()
    const timeline = world.timeline()
    onTimeline(timeline)
    for (const [n, execution] of executionsOf(timeline, gateName).entries()) {
      await breathe(settings.interrupt)
      const timed = contest.gate.log[n]
      const places = timed && wanted.get(timed)
      places?.push(pictureOf(timeline, execution, { bandwidth: bandwidth / world.ranks }))
    }
    return { pictures, unlike: world.recordedUnlike }
  } finally {
    await world.close()
  }
}

/**
 * Drops the shortest and the longest quarter of the times, because a single interruption by the machine would dominate
 * a mean.
 */
function middlingHalf(pictures: readonly Picture[]): readonly Picture[] {
  const quarter = Math.floor(pictures.length / 4)
  return [...pictures].sort((a, b) => a.wall - b.wall).slice(quarter, pictures.length - quarter)
}

const middling = (pictures: readonly Picture[]): Picture =>
  [...pictures].sort((a, b) => a.wall - b.wall)[Math.floor(pictures.length / 2)]
