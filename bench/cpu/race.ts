/**
 * Runs the contestants of a benchmark, which are implementations of the same computation, interleaved in one process. A
 * figure is the ratio of the times of two contestants in the same round, so that a temporary slowdown of the machine
 * affects both. The median of the ratios is reported with a 95 % interval.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { figure, type Figure } from '../measure.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

export interface Contestant {
  readonly name: string
  /** Runs the given number of executions one after the other and returns when the last execution has ended. */
  readonly run: (executions: number) => void | Promise<void>
}

/** Makes a contestant (an implementation to measure) from a function that runs a single execution. */
export const again =
  (once: () => void | Promise<void>) =>
  async (executions: number): Promise<void> => {
    for (let execution = 0; execution < executions; execution++) await once()
  }

/**
 * The time per execution in microseconds, for every round and contestant. Each round starts with one execution that is
 * not counted.
 */
export async function race(
  contestants: readonly Contestant[],
  rounds: number,
  {
    /** The number of executions per round, which is large enough to make the wake-up time negligible. */
    executions = 1,
    /**
     * Collects garbage before each contestant (measured implementation) runs. Without a garbage collection before each
     * contestant, one contestant's garbage would be collected during the time of the next contestant.
     */
    collects = true,
  } = {},
): Promise<ReadonlyMap<string, readonly number[]>> {
  const times = new Map(contestants.map(({ name }) => [name, [] as number[]]))
  for (const { run } of contestants) await run(3)
  for (let round = 0; round < rounds; round++) {
    // The implementation that runs first in a round finds different cache contents, so each implementation is first in
    // some rounds.
    for (let turn = 0; turn < contestants.length; turn++) {
      const { name, run } = contestants[(round + turn) % contestants.length]
      if (collects) collect()
      await run(1)
      const start = performance.now()
      await run(executions)
      times.get(name)!.push(((performance.now() - start) * 1000) / executions)
    }
  }
  return times
}

/** The speed of `ours` relative to `theirs`; a value of 2 means twice as fast. */
export function speed(
  name: string,
  ours: readonly number[],
  theirs: readonly number[],
  goal?: number,
): Figure {
  return figure(
    name,
    'x',
    ours.map((time, round) => theirs[round] / time),
    goal === undefined ? undefined : { text: `≥ ${goal}`, reached: (median) => median >= goal },
  )
}
