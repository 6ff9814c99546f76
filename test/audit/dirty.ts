/**
 * Ways in which traces are damaged, each a function from good traces to bad ones, with the classes of warnings of which
 * one must name it unless the audit finds the truth all the same.
 */
import { damagedEvents } from './damagedEvents.ts'
import { damagedFiles } from './damagedFiles.ts'
import type { Damage } from './traceText.ts'

export const damages: readonly Damage[] = [...damagedFiles, ...damagedEvents]
