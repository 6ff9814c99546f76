/**
 * Kinds of damage to traces. Each kind of damage is a function from good traces to damaged traces, with a list of
 * warning classes. A warning of a listed class must appear, unless the audit finds the true result despite the damage.
 */
import { damagedEvents } from './damagedEvents.ts'
import { damagedFiles } from './damagedFiles.ts'
import type { Damage } from './traceText.ts'

export const damages: readonly Damage[] = [...damagedFiles, ...damagedEvents]
