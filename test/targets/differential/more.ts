/**
 * Generator steps that were added after the golden hashes of the random kernels were taken. They are separate, so that
 * those kernels, which `generate` makes without these steps, stay the same.
 */
import type { DType } from '../../../src/ir/dtype.ts'
import type { Value } from '../../../src/index.ts'
import { isArithmetic, type Builder } from './builder.ts'
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

/** The index of the best element, and running sums of integers. Running sums of floats are added in the same order. */
const alongAxis: Step = (on) => {
  const a = on.exact(({ dtype, shape }) => isArithmetic(dtype) && shape.length > 0)
  if (!a) return
  const method = on.choices.pick(['argmax', 'argmin', 'cumsum'])
  const axis = on.choices.below(a.shape.length)
  // An i64 beyond 2^53 is an error, so its sums stay small.
  const from = a.dtype === 'i64' && method === 'cumsum' ? call(a.value, 'and', 0xffff) : a.value
  on.add(call(from, method, axis))
}

const reshape: Step = (on) => {
  const a = on.find(({ shape }) => shape.length > 0)
  if (!a) return
  const size = a.shape.reduce((product, extent) => product * extent, 1)
  const rows = on.choices.pick([1, 2, 3, 5, 7].filter((extent) => size % extent === 0))
  const shape = on.choices.below(2) === 0 ? ([size] as const) : ([rows, size / rows] as const)
  // Large vectors would make every later step large.
  if (size <= 64) on.add(entry((a.value as Value<DType, 1>).reshape(shape), a.magnitude, a.error))
}

const interleave: Step = (on) => {
  const a = on.find(({ shape }) => shape.length > 0 && shape[shape.length - 1] <= 4)
  if (!a) return
  const b = on.find((one) => one.dtype === a.dtype && one.shape.join() === a.shape.join())!
  const value = (a.value as Value<DType, 1>).interleave(b.value as Value<DType, 1>)
  on.add(entry(value, Math.max(a.magnitude, b.magnitude), Math.max(a.error, b.error)))
}

/** Words of random bits, or uniform numbers, of counters and seeds from the pool. */
const random: Step = (on) => {
  const { t, choices } = on
  const counter = on.exact(({ dtype }) => dtype === 'i32' || dtype === 'u32')
  if (!counter) return
  const words = counter.value as Value<'i32', 1>
  const seed = choices.below(2) === 0 ? choices.below(5) : ([on.item, choices.below(3)] as const)
  const at = choices.below(2) === 0 ? words : ([words, choices.below(3), on.item] as const)
  const dtype = choices.pick(['u32', 'f32'] as const)
  const all = choices.rarely(3) ? t.random4(dtype, seed, at).slice(2) : [t.random(dtype, seed, at)]
  for (const one of all) on.add(entry(one, 1))
}

export const moreExactSteps: readonly Step[] = [rounded, alongAxis, reshape, interleave, random]
export const moreBoundedSteps: readonly Step[] = [transcendental]
