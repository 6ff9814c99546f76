/**
 * Generator steps that were added after the golden hashes of the random kernels were taken. They are separate, so that
 * those kernels, which `generate` makes without these steps, stay the same.
 */
import type { Builder } from './builder.ts'
import { call, entry, transcendentalOf, transcendentals } from './entries.ts'
import type { Step } from './expressions.ts'

/** Rounds to integers: exact on every target. */
const rounded: Step = (on) => {
  const a = on.exact(({ dtype }) => dtype === 'f32')
  if (a) on.add(entry(call(a.value, on.choices.pick(['floor', 'ceil', 'round'])), a.magnitude + 1))
}

const bounded = (on: Builder) =>
  on.find(({ dtype, magnitude }) => dtype === 'f32' && Number.isFinite(magnitude))

const transcendental: Step = (on) => {
  const a = bounded(on)
  if (a) on.add(transcendentalOf(on.choices.pick(transcendentals), a))
}

export const moreExactSteps: readonly Step[] = [rounded]
export const moreBoundedSteps: readonly Step[] = [transcendental]
