/** How the parts of an execution's time are shown: by the names and colours that the audit's page gives to the same taxes. */
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

/** The category whose colour it has. */
export const categoryOf = (part: RunPart): CategoryName => (part === 'useful' ? 'compute' : part)

/** By the part's place in `runPartNames`. */
export const categoryCodes: readonly number[] = runPartNames.map((part) => codeOf(categoryOf(part)))
