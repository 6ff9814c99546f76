/** What `auto` goes by where a program has measured nothing itself. Written by bench/choices.ts; do not edit. */
import type { Measurement } from './choice.ts'

export const shippedMeasurements: readonly Measurement[] = []
