/**
 * Generator steps that were added after the golden hashes of the random kernels were taken. The steps in this file are
 * separate, so that the kernels which `generate` makes without these steps stay the same.
 */
import type { DType } from '../../../src/ir/dtype.ts'
import type { Tensor, Value } from '../../../src/index.ts'
import { extents, isArithmetic, type Builder } from './builder.ts'
import { call, entry, transcendentalOf, transcendentals } from './entries.ts'
import type { Step } from './expressions.ts'
import { tile } from './memory.ts'
import { accumulated, accumulators, commutative, storage } from './params.ts'

/** Functions that round to integers, which are exact on every target. */
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

/**
 * The index of the best element, and running sums of integers. Every target adds running sums of floats in the same
 * order.
 */
const alongAxis: Step = (on) => {
  const a = on.exact(({ dtype, shape }) => isArithmetic(dtype) && shape.length > 0)
  if (!a) return
  const method = on.choices.pick(['argmax', 'argmin', 'cumsum'])
  const axis = on.choices.below(a.shape.length)
  // An i64 beyond 2^53 is an error, so sums of i64 stay small.
  const from = a.dtype === 'i64' && method === 'cumsum' ? call(a.value, 'and', 0xffff) : a.value
  on.add(call(from, method, axis))
}

const reshape: Step = (on) => {
  const a = on.find(({ shape }) => shape.length > 0)
  if (!a) return
  const size = a.shape.reduce((product, extent) => product * extent, 1)
  const rows = on.choices.pick([1, 2, 3, 5, 7].filter((extent) => size % extent === 0))
  const shape = on.choices.below(2) === 0 ? ([size] as const) : ([rows, size / rows] as const)
  // Only small fragments are reshaped: the steps that use the result would otherwise work on long vectors.
  if (size <= 64) on.add(entry((a.value as Value<DType, 1>).reshape(shape), a.magnitude, a.error))
}

const interleave: Step = (on) => {
  const a = on.find(({ shape }) => shape.length > 0 && shape[shape.length - 1] <= 4)
  if (!a) return
  const b = on.find((one) => one.dtype === a.dtype && one.shape.join() === a.shape.join())!
  const value = (a.value as Value<DType, 1>).interleave(b.value as Value<DType, 1>)
  on.add(entry(value, Math.max(a.magnitude, b.magnitude), Math.max(a.error, b.error)))
}

/**
 * Copies between tensors asynchronously. The copy is completed at the end of the step, or at the beginning of the next
 * step that copies between tensors, since a repeated step writes the same output slot again.
 */
const transfer: Step = (on) => {
  const { t, choices } = on
  const dtype = choices.pick(storage)
  const out = on.slot(dtype)
  if (!out) return
  const shape = [choices.pick(extents), choices.pick(extents)] as const
  const from = tile(on, on.input(dtype), shape)
  const mask = choices.rarely(3) ? { mask: on.mask(shape) as Value<'bool', 0> } : {}
  t.quiet()
  if (choices.below(2) === 0) t.putNbi(from, out.tile([0, 0], shape), mask)
  else t.getNbi(from, out.tile([0, 0], shape), mask)
  if (choices.below(2) === 0) t.quiet()
}

/**
 * Fetches data into a shared tile, perhaps while it loads other data, and stores the tile. Another step may write the tile
 * once it has been read.
 */
const sendShared: Step = (on) => {
  const { t, choices } = on
  const shared = choices.pick(on.shared)
  const [r, c] = [shared.shape[0], shared.shape[1]]
  t.getNbi(tile(on, on.input(shared.dtype), [r, c]), shared)
  if (choices.below(2) === 0) on.add(t.load(tile(on, on.input('i32'), [r, c])) as Value)
  t.quiet()
  const out = on.slot(shared.dtype)
  if (!out) return on.add(t.load(shared) as Value)
  t.copyAsync(shared, out.tile([0, 0], [r, c]))
  if (choices.below(2) === 0) on.add(t.load(shared) as Value)
  t.quiet({ reads: choices.below(2) === 0 })
}

/** Generates random 32-bit words or uniform random numbers, with available values as counters and seeds. */
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

/** Prints values that are bit-identical on every target. Loops print few lines, so that the buffer holds all. */
const print: Step = (on) => {
  if (on.depth > 1) return
  const values = [on.exact(), ...(on.choices.below(2) === 0 ? [on.exact()] : [])].filter(
    (one) => one !== undefined,
  )
  on.t.print(`values ${on.choices.below(9)}`, ...values.map(({ value }) => value))
}

/** Adds assertions that hold. */
const assert: Step = (on) => {
  const a = on.exact(({ dtype }) => dtype === 'i32' || dtype === 'u32')
  if (a) on.t.assert(call(a.value, 'le', a.value) as Value<'bool'>, 'a number equals itself')
}

/** Fences, and the epoch of a flag set, which has the same value in all programs of a launch. */
const order: Step = (on) => {
  const { t, choices } = on
  if (choices.below(2) === 0) return on.add(t.epoch(on.args.ready, choices.pick(['signal', 'wait'])))
  t.fence(choices.pick(['acquire', 'release', 'acqRel', 'seqCst']), choices.pick(['device', 'system']))
}

/** Exchanges on elements with a single writer, whose previous contents are therefore known. */
const exchange: Step = (on) => {
  const { t, choices } = on
  const value = on.exact(({ dtype, shape }) => dtype === 'i32' && shape.length === 0)
  const slot = on.slot('i32')
  if (!value || !slot) return
  const place = (slot as unknown as Tensor<'i32', 2>).at([choices.below(3), choices.below(3)])
  const given = value.value as Value<'i32', 0>
  on.add(
    choices.below(2) === 0
      ? t.atomic.xchg(place, given)
      : t.atomic.cas(place, choices.pick([88, 0, 1]), given, { order: 'acqRel' }),
  )
}

/** Subtractions commute with the additions to the same accumulators. */
const subtract: Step = (on) => {
  const { t, args, choices, shape } = on
  const dtype = choices.pick(accumulated)
  const value = on.exact((one) => one.dtype === dtype && one.shape.length === 0)
  if (!value) return
  const all = args[`accumulate_${dtype}`] as unknown as Tensor<'i32', 2>
  const target = shape.last ? all : all.on(on.peer())
  // The dtype i64 is exact up to 2^53 only.
  const small = dtype === 'i64' ? call(value.value, 'and', 0xffff) : value.value
  t.atomic.sub(target.at([commutative.indexOf('add'), choices.below(accumulators)]), small as Value<'i32', 0>)
}

export const moreExactSteps: readonly Step[] = [
  ...[rounded, alongAxis, reshape, interleave, random],
  ...[assert, print, order, exchange, subtract],
  ...[transfer, sendShared],
]
export const moreBoundedSteps: readonly Step[] = [transcendental]
