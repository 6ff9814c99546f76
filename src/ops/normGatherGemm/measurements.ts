/**
 * The measurements from which `auto` chooses if a program has remembered none of its own. Written by bench/choices.ts;
 * do not edit.
 */
import type { Measurement } from '../../operation/choice.ts'

/** Empty, because this operation has not been measured yet. */
export const measurements: readonly Measurement[] = []
