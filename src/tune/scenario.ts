/**
 * Finds the fastest values of the parameters that a scenario lists in `tune`. Every combination of values runs once,
 * and a combination whose run fails is dropped. The remaining combinations run in interleaved rounds with recording,
 * and the faster half is kept until one is left (halving.ts). Only the time in which the device executes launches
 * counts, not the time in which the host allocates, reads or computes.
 */
import { breathe } from '../runs/breath.ts'
import { randomOrder } from '../runs/contest.ts'
import type { RecordedRun } from '../runs/recorded.ts'
import type { Quantity } from '../runs/results.ts'
import { fewestProcessors, type Machine } from '../world/machine.ts'
import type { Chosen, Scenario, Tunable } from '../world/world.ts'
import { tunedHere } from './cache.ts'
import { halve, type TimeInTurns } from './halving.ts'
import { classOf, settingOf, type Asked } from './tables.ts'
import type { Dropped } from './tune.ts'

/** The maximum number of combinations that are tried. */
export const mostCombinations = 256
/** The maximum number of rounds, which is small because a run of a scenario includes its host code. */
const mostRounds = 31

export interface TuneScenarioOptions {
  /** Runs the scenario with the given parameter values. If the scenario fails, its error is thrown. */
  readonly run: (chosen: Chosen) => Promise<RecordedRun>
  /** The duration of all rounds together, in seconds. */
  readonly seconds: number
  /** The host's clock in nanoseconds. */
  readonly now: () => number
  readonly seed?: number
  readonly interrupt?: AbortSignal
  readonly onProgress?: (what: string, done: number) => void
}

/** Times are in nanoseconds. */
export interface TunedScenario {
  readonly fallback: { readonly chosen: Chosen; readonly time: Quantity; readonly run: RecordedRun }
  /** The fastest combination of parameter values, which is the default unless another one is significantly faster. */
  readonly best: { readonly chosen: Chosen; readonly time: Quantity; readonly run: RecordedRun }
  readonly speedup: Quantity
  readonly tried: number
  readonly dropped: readonly Dropped[]
  /** Present only after an interrupt, when `best` may not be significantly faster than the default. */
  readonly interrupted?: true
}

/** All combinations of the parameter values, with the default first. */
export const combinationsOf = (tune: Tunable): Chosen[] =>
  Object.entries(tune).reduce<Chosen[]>(
    (all, [name, numbers]) => all.flatMap((one) => numbers.map((number) => ({ ...one, [name]: number }))),
    [{}],
  )

export async function tuneScenario(tune: Tunable, options: TuneScenarioOptions): Promise<TunedScenario> {
  const { run, seconds, now, seed = 1, interrupt, onProgress = () => {} } = options
  const all = combinationsOf(tune)
  const dropped: Dropped[] = []
  const contenders: { readonly chosen: Chosen; readonly runs: RecordedRun[] }[] = []
  for (const [n, chosen] of all.entries()) {
    onProgress('checking the results', (0.3 * n) / all.length)
    await breathe(interrupt)
    try {
      const { wall } = await run(chosen)
      if (wall === 0) throw new RangeError('the scenario launches no kernel, so there is nothing to measure')
      contenders.push({ chosen, runs: [] })
    } catch (error) {
      if (n === 0 || interrupt?.aborted || !(error instanceof Error)) throw error
      dropped.push({ tiles: chosen, why: error.message.split('\n')[0] })
    }
  }
  const random = randomOrder(seed)
  const time: TimeInTurns = async (wanted, effort) => {
    const times = wanted.map((): number[] => [])
    let start = now()
    const most = Math.min(effort.mostRounds, mostRounds)
    // The first round is a warm-up, because a world that was opened again has to compile its kernels.
    for (let round = -1; round < most; round++) {
      if (round === 0) start = now()
      if (round >= Math.min(effort.leastRounds, most) && now() - start > 1e9 * effort.seconds) break
      const walls = new Map<number, RecordedRun>()
      try {
        for (const place of random(wanted.length)) {
          await breathe(interrupt)
          walls.set(place, await run(contenders[wanted[place]].chosen))
        }
      } catch (error) {
        if (interrupt?.aborted) return times
        throw error
      }
      if (round < 0) continue
      for (const [place, recorded] of walls) {
        times[place].push(recorded.wall)
        contenders[wanted[place]].runs.push(recorded)
      }
    }
    return times
  }
  const found = await halve(
    contenders.length,
    seconds,
    time,
    (done) => onProgress('measuring', 0.3 + 0.7 * done),
    interrupt,
  )
  const of = (at: number): Omit<TunedScenario['best'], 'time'> => ({
    chosen: contenders[at].chosen,
    run: medianRun(contenders[at].runs),
  })
  return {
    fallback: { ...of(0), time: found.fallback },
    best: { ...of(found.best), time: found.time },
    speedup: found.speedup,
    tried: all.length,
    dropped,
    ...(found.interrupted && { interrupted: true }),
  }
}

const medianRun = (runs: readonly RecordedRun[]): RecordedRun =>
  [...runs].sort((a, b) => a.wall - b.wall)[Math.floor((runs.length - 1) / 2)]

/**
 * The key under which the parameter values of a scenario are stored. `path` is the absolute path of the scenario's
 * file.
 */
export const askedFor = (path: string, { name }: Scenario, machine: Machine): Asked => ({
  ...{ operation: `${path}#${name}`, dtype: 'scenario', shape: {} },
  ...{ ranks: machine.processors.length, processors: fewestProcessors(machine), device: machine.name },
})

/** The parameter values that were tuned on this machine, if the scenario still lists each of them. */
export function tunedNumbers(path: string, scenario: Scenario, machine: Machine): Chosen | undefined {
  const { tune } = scenario
  if (!tune) return undefined
  const asked = askedFor(path, scenario, machine)
  const found = tunedHere()[asked.device]?.[settingOf(asked)]?.[classOf(asked)] as Chosen | undefined
  const names = Object.keys(tune)
  const isKnown =
    found &&
    Object.keys(found).length === names.length &&
    names.every((name) => tune[name].includes(found[name]))
  return isKnown ? found : undefined
}
