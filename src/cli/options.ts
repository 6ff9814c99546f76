/** Values of options, read strictly: a number is a whole number in its range; and their defaults. */
import { InvalidArgumentError } from 'commander'

export function whole(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : NaN
    if (!(value >= least && value <= most))
      throw new InvalidArgumentError(
        most === Number.MAX_SAFE_INTEGER
          ? `It must be a whole number from ${least} up.`
          : `It must be a whole number from ${least} to ${most}.`,
      )
    return value
  }
}

/** The stages of a kernel for a GPU: as recorded first, then what becomes text (targets/cuda/facts.ts, which takes a while to load). */
export const stageNames = ['recorded', 'simplified', 'lowered', 'courier', 'layouts', 'words', 'order']

/** What `check` explores where the command does not say otherwise: as written, and what is launched on a GPU. */
export const checkedStages: readonly string[] = ['recorded', 'order']

/** What `check` does where the command does not say otherwise. */
export const checkDefaults = { schedules: 1000, seed: 1, preemptions: 2, limit: 10_000 }

export function positive(text: string): number {
  const value = Number(text)
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('A number above 0 is wanted.')
  return value
}
