/**
 * The measurements from which `auto` chooses. Nothing has been measured yet, so `auto` chooses the last variant, `fused`.
 * The script bench/choices.ts writes this file; do not edit it.
 */
import type { Measurement } from '../../operation/choice.ts'

export const measurements: readonly Measurement[] = []
