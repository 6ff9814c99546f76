/**
 * Parses the values of options strictly, and defines their defaults. The value of a numeric option must be a whole
 * number in its range.
 */
import { InvalidArgumentError } from 'commander'
import { irStageNames, lastStage, type StagedTarget } from '../targets/stages.ts'
import { UsageError } from './errors.ts'

export function whole(least: number, most = Number.MAX_SAFE_INTEGER): (text: string) => number {
  return (text) => {
    const value = /^-?\d+$/.test(text) ? Number(text) : NaN
    if (!(value >= least && value <= most))
      throw new InvalidArgumentError(
        most === Number.MAX_SAFE_INTEGER
          ? `The value must be a whole number from ${least} up.`
          : `The value must be a whole number from ${least} to ${most}.`,
      )
    return value
  }
}

/** Parses the ranks of a group, such as 0,1,3, of a world of at most `most` ranks. */
export const members =
  (most: number) =>
  (text: string): readonly number[] => {
    const parse = whole(0, most - 1)
    const ranks = text.split(',').map(parse)
    if (new Set(ranks).size < ranks.length) throw new InvalidArgumentError('A rank occurs more than once.')
    return ranks
  }

/** The stages that `check` explores by default: the kernel as recorded, and the stage that the target runs. */
export const checkedStages = (target: StagedTarget): string[] => [
  ...new Set([irStageNames(target)[0], lastStage(target)]),
]

/** Throws an error if the target does not have the stage. The error lists the stages that the target has. */
export function expectStage(target: StagedTarget, stage: string, names: readonly string[]): void {
  if (!names.includes(stage))
    throw new UsageError(`--stage ${stage}: ${target} has no such stage; it has ${names.join(', ')}`)
}

/** The default values of the options of `arke check`. */
export const checkDefaults = { schedules: 1000, seed: 1, preemptions: 2, limit: 10_000 }

export function positive(text: string): number {
  const value = Number(text)
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('It must be a number above 0.')
  return value
}

/** Checks a regular expression, but returns it as text, because it is sent to other threads. */
export function regularExpression(text: string): string {
  try {
    new RegExp(text)
  } catch (error) {
    throw new InvalidArgumentError(`It must be a regular expression: ${(error as Error).message}.`)
  }
  return text
}
