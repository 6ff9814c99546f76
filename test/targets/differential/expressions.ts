/**
 * Generator steps that compute: arithmetic, comparisons, casts, reductions, changes of shape. Each step adds a value or
 * does nothing.
 */
import { dtypes, type DType } from '../../../src/ir/dtype.ts'
import type { Value } from '../../../src/index.ts'
import { extents, isArithmetic, isInteger, type Builder } from './builder.ts'
import { call, clamp, entry, inexactBinary, isExact, sumOf, transcendentalOf, type Entry } from './entries.ts'

export type Step = (on: Builder) => void

const same = (a: Entry, b: Entry): boolean => a.shape.join() === b.shape.join()

/** Another operand of a's dtype with a compatible shape, or a constant. */
function other(on: Builder, a: Entry): Entry {
  const found = on.exact((one) => one.dtype === a.dtype && (one.shape.length === 0 || same(a, one)))
  if (found && on.choices.below(4) !== 3) return found
  const number = on.number(a.dtype)
  return entry(on.t.constant(a.dtype, number), Math.abs(number))
}

const constant: Step = (on) => {
  const dtype = on.choices.pick(['f32', 'i32', 'u32', 'i64'] as const)
  const number = on.number(dtype)
  const scalar = on.t.constant(dtype, number)
  on.add(
    on.choices.below(2) === 0
      ? entry(scalar, Math.abs(number))
      : entry(
          on.t.full(dtype, [on.choices.pick(extents), on.choices.pick(extents)], number),
          Math.abs(number),
        ),
  )
}

const iota: Step = (on) => on.add(on.t.arange(on.choices.pick(extents)))

const identity: Step = (on) => {
  const { t } = on
  const ids = [on.item, t.rank, t.constant('i32', t.world), on.args.in_f32.dim(on.choices.below(2))]
  // If programs wait for each other, the target chooses the grid, so ids of programs differ between targets.
  if (!on.shape.communicates) ids.push(t.program, t.programs)
  on.add(on.choices.pick(ids))
}

const unary: Step = (on) => {
  const a = on.exact(({ dtype }) => isArithmetic(dtype) || dtype === 'bool')
  if (!a) return
  if (a.dtype === 'bool') return on.add(call(a.value, 'not'))
  const methods = ['neg', ...(a.dtype === 'u32' ? [] : ['abs']), ...(a.dtype === 'f32' ? ['sqrt'] : ['not'])]
  const method = on.choices.pick(methods)
  on.add(entry(call(a.value, method), method === 'sqrt' ? Infinity : a.magnitude))
}

const binary: Step = (on) => {
  const integer = on.choices.below(2) === 1 ? on.exact(({ dtype }) => isInteger(dtype)) : undefined
  const a = integer ?? on.exact(({ dtype }) => isArithmetic(dtype))
  if (!a) return
  const b = other(on, a)
  const floats = ['add', 'sub', 'mul', 'div', 'min', 'max']
  const method = on.choices.pick(
    isInteger(a.dtype) ? [...floats, 'mod', 'and', 'or', 'xor', 'shl', 'shr'] : floats,
  )
  if (method === 'shl' || method === 'shr') {
    // Shift amounts are below the width of the dtype. For i64, shift amounts are small, so that the value stays below 2^53.
    const amount = call(b.value, 'and', a.dtype === 'i64' ? 15 : 31)
    return on.add(call(a.value, method, amount))
  }
  const divides = isInteger(a.dtype) && (method === 'div' || method === 'mod')
  on.add(call(a.value, method, divides ? call(b.value, 'or', 1) : b.value))
}

const compare: Step = (on) => {
  const a = on.exact(({ dtype }) => isArithmetic(dtype))
  if (!a) return
  on.add(call(a.value, on.choices.pick(['lt', 'le', 'gt', 'ge', 'eq', 'ne']), other(on, a).value))
}

const logic: Step = (on) => {
  const a = on.exact(({ dtype }) => dtype === 'bool')
  if (!a) return
  on.add(call(a.value, on.choices.pick(['and', 'or', 'xor', 'eq', 'ne']), other(on, a).value))
}

const select: Step = (on) => {
  const yes = on.find(({ dtype }) => isArithmetic(dtype) || dtype === 'bf16' || dtype === 'i8')
  if (!yes) return
  const no = on.find((one) => one.dtype === yes.dtype && (one.shape.length === 0 || same(yes, one)))!
  const chosen = call(on.mask(yes.shape), 'select', yes.value, no.value)
  on.add(entry(chosen, Math.max(yes.magnitude, no.magnitude), Math.max(yes.error, no.error)))
}

const everyDType = Object.keys(dtypes) as DType[]

const cast: Step = (on) => {
  const a = on.exact()
  if (!a) return
  const to = on.choices.pick(everyDType)
  const isFloat = dtypes[a.dtype].kind === 'float'
  // An i64 beyond 2^53 is an error, so a float is clamped first.
  const from: Value = to === 'i64' && isFloat ? clamp(entry(a.value.to('f32')), 1e6).value : a.value
  on.add(from.to(to))
}

const reduce: Step = (on) => {
  const a = on.exact(({ dtype, shape }) => isArithmetic(dtype) && shape.length > 0)
  if (!a) return
  const methods = ['maximum', 'minimum', ...(isInteger(a.dtype) ? ['sum'] : [])]
  on.add(call(a.value, on.choices.pick(methods), on.choices.below(a.shape.length)))
}

/** `expand`, optionally followed by a broadcast along the new axis. */
const expand: Step = (on) => {
  const a = on.find(({ shape }) => shape.length === 1)
  if (!a) return
  const axis = on.choices.below(2) as 0 | 1
  const expanded = (a.value as Value<DType, 1>).expand(axis)
  const extent = on.choices.pick(extents)
  const shape = axis === 0 ? ([extent, a.shape[0]] as const) : ([a.shape[0], extent] as const)
  on.add(entry(on.choices.below(2) === 0 ? expanded : expanded.broadcast(shape), a.magnitude, a.error))
}

const broadcast: Step = (on) => {
  const a = on.find(({ shape }) => shape.length === 0)
  if (!a) return
  const extent = on.choices.pick(extents)
  const shape =
    on.choices.below(2) === 0 ? ([extent] as const) : ([on.choices.pick(extents), extent] as const)
  on.add(entry(a.value.broadcast(shape), a.magnitude, a.error))
}

const transpose: Step = (on) => {
  const a = on.find(({ shape }) => shape.length === 2)
  if (a) on.add(entry((a.value as Value<DType, 2>).transpose(), a.magnitude, a.error))
}

export const exactSteps: readonly Step[] = [
  binary,
  binary,
  constant,
  iota,
  identity,
  unary,
  compare,
  logic,
  select,
  cast,
  reduce,
  expand,
  broadcast,
  transpose,
]

// Steps with results that may differ between targets, within a stated bound

const bounded = (on: Builder): Entry | undefined =>
  on.find(({ dtype, magnitude }) => dtype === 'f32' && Number.isFinite(magnitude))

const approximate: Step = (on) => {
  const a = bounded(on)
  if (a) on.add(transcendentalOf(on.choices.pick(['exp2', 'log2', 'tanh', 'sigmoid', 'rsqrt'] as const), a))
}

const sum: Step = (on) => {
  const a = bounded(on)
  if (a && a.shape.length > 0) on.add(sumOf(a, on.choices.below(a.shape.length)))
}

const combine: Step = (on) => {
  const a = bounded(on)
  if (!a) return
  const b = on.find((one) => one.dtype === 'f32' && (one.shape.length === 0 || same(a, one)))!
  on.add(inexactBinary(on.choices.pick(['add', 'sub', 'mul'] as const), a, clamp(b, 4)))
}

/** Operations that do not increase an error: negation, absolute value, minimum and maximum. */
const keep: Step = (on) => {
  const a = on.find((one) => one.dtype === 'f32' && !isExact(one))
  if (!a) return
  const method = on.choices.pick(['neg', 'abs', 'max', 'min', 'maximum', 'minimum'])
  if (method === 'maximum' || method === 'minimum') {
    if (a.shape.length === 0) return
    return on.add(entry(call(a.value, method, on.choices.below(a.shape.length)), a.magnitude, a.error))
  }
  const operands = method === 'max' || method === 'min' ? [0.5] : []
  on.add(entry(call(a.value, method, ...operands), Math.max(a.magnitude, 0.5), a.error))
}

export const boundedSteps: readonly Step[] = [approximate, sum, combine, keep]
