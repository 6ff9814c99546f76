/** The names and colours of the parts of an execution. They equal those of the same taxes on the page of the audit. */
import { runPartNames, type RunPart } from '../../runs/results.ts'
import { codeOf, type CategoryName } from '../categories.ts'

export const partLabels: Readonly<Record<RunPart, string>> = {
  useful: 'Useful',
  launch: 'Launch',
  wait: 'Wait',
  transfer: 'Exposed transfer',
  other: 'Other',
}

export const localityMeaning =
  'of useful time: to write what a later kernel reads back, which costs nothing where it stays in a cache'

/** The category that gives the part its colour. */
export const categoryOf = (part: RunPart): CategoryName => (part === 'useful' ? 'compute' : part)

/** The category code of each part, indexed like `runPartNames`. */
export const categoryCodes: readonly number[] = runPartNames.map((part) => codeOf(categoryOf(part)))
