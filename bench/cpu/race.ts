/**
 * Contestants take turns in one process. A figure is the ratio of two of them, round by round, so that what slows the
 * machine for a while slows both; its median comes with a 95 % interval.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { figure, type Figure } from '../measure.ts'

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void

export interface Contestant {
  readonly name: string
  /** So many executions, one after the other; the last has ended when it is done. */
  readonly run: (executions: number) => void | Promise<void>
}

/** Of what is executed one at a time. */
export const again =
  (once: () => void | Promise<void>) =>
  async (executions: number): Promise<void> => {
    for (let execution = 0; execution < executions; execution++) await once()
  }

/** Microseconds of an execution in every round, by contestant. Each turn begins with one that does not count. */
export async function race(
  contestants: readonly Contestant[],
  rounds: number,
  {
    /** Executions in a turn: enough that waking up does not count. */
    executions = 1,
    /** Whether a turn begins with a collection: else what one leaves behind is collected in the turn of the next. */
    collects = true,
  } = {},
): Promise<ReadonlyMap<string, readonly number[]>> {
  const times = new Map(contestants.map(({ name }) => [name, [] as number[]]))
  for (const { run } of contestants) await run(3)
  for (let round = 0; round < rounds; round++) {
    // Whoever runs first in a round finds other caches than the next: everybody is first in turn.
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

/** How fast `ours` is in units of `theirs`: 2 is twice as fast. */
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
