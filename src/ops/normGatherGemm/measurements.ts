/** What `auto` goes by where a program has measured nothing itself. Written by bench/choices.ts; do not edit. */
import type { Measurement } from '../choice.ts'

/** Nobody has measured it yet. */
export const measurements: readonly Measurement[] = []
