/**
 * Defines names and colours for the categories into which the time of an execution is divided. The names and colours
 * equal the names and colours of the same taxes on the page of the audit.
 */
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
  'the part of useful time in which kernels write data that a later kernel reads back; the tax is 0 if the data stays in a cache'

/** The category of the audit page whose colour is used for a category of an execution. */
export const categoryOf = (part: RunPart): CategoryName => (part === 'useful' ? 'compute' : part)

/** For each entry of `runPartNames`: the code of the audit category whose colour is used. */
export const categoryCodes: readonly number[] = runPartNames.map((part) => codeOf(categoryOf(part)))
