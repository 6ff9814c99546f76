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

/** What `check` does where the command does not say otherwise. */
export const checkDefaults = { schedules: 1000, seed: 1, preemptions: 2, limit: 10_000 }

export function positive(text: string): number {
  const value = Number(text)
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('A number above 0 is wanted.')
  return value
}
