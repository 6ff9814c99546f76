/** Values of options, read strictly: a number is a whole number in its range; and their defaults. */
import { InvalidArgumentError } from 'commander'
import { irStageNames, lastStage, stagedTargets, stageNames, type StagedTarget } from '../targets/stages.ts'
import { UsageError } from './errors.ts'

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

/** All names that `--stage` may have, of any target; `expectStage` refuses one that its target does not have. */
export const allStages: readonly string[] = [...new Set(stagedTargets.flatMap(stageNames))]

/** The stages that `check` explores unless the command names one: the kernel as written, and the one that the target runs. */
export const checkedStages = (target: StagedTarget): string[] => [
  ...new Set([irStageNames(target)[0], lastStage(target)]),
]

/** Refuses a stage that the target does not have. */
export function expectStage(target: StagedTarget, stage: string, names: readonly string[]): void {
  if (!names.includes(stage))
    throw new UsageError(`--stage ${stage}: ${target} has no such stage here; it has ${names.join(', ')}`)
}

/** What `check` does where the command does not say otherwise. */
export const checkDefaults = { schedules: 1000, seed: 1, preemptions: 2, limit: 10_000 }

export function positive(text: string): number {
  const value = Number(text)
  if (!(value > 0) || !Number.isFinite(value)) throw new InvalidArgumentError('A number above 0 is wanted.')
  return value
}
