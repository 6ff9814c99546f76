/** Tests elementwise arithmetic: every operation and dtype, on scalars, vectors and matrices of aligned and odd sizes. */
import { describe, expect } from 'vitest'
import { kernel, tensor, type Ref, type Value } from '../../../src/index.ts'
import type { DType } from '../../../src/ir/dtype.ts'
import { erfReference } from '../../ulp.ts'
import { call } from '../differential/entries.ts'
import { wrap } from './formats.ts'
import { fewerOn, itForEach, onWorld, poison, range, targets } from './harness.ts'
import { indices } from './indices.ts'

const shapes: readonly (readonly number[])[] = [[], [1], [4], [7], [16], [33], [3, 5], [4, 8], [1, 9]]
const fewShapes: typeof shapes = [[], [33], [3, 5]]
const count = (shape: readonly number[]): number => shape.reduce((product, extent) => product * extent, 1)
const arithmetic = ['f32', 'i32', 'u32', 'i64'] as const
type Arithmetic = (typeof arithmetic)[number]

const floats = [
  0,
  -0,
  1,
  -1.5,
  2.5,
  0.1,
  -3.25,
  1e30,
  3e-39,
  NaN,
  Infinity,
  -Infinity,
  7,
  1e-20,
  255.5,
  -128.5,
]
const whole = [0, 1, 2, 3, 7, 100, 255, 256, 65_537, 2 ** 24 + 1, 2 ** 31 - 1, 2 ** 30]
const operands = (dtype: DType, seed: number, length: number): number[] =>
  range(length).map((i) => {
    const at = i * (2 * seed + 1) + seed
    if (dtype === 'f32') return Math.fround(floats[at % floats.length])
    const size = whole[at % whole.length]
    if (dtype === 'i64') return at % 2 ? -size : size % 2 ** 26
    return wrap(
      dtype,
      BigInt(at % 3 === 1 && dtype === 'i32' ? -size - 1 : dtype === 'u32' ? size * 3 : size),
    )
  })

type Meaning = (dtype: Arithmetic, a: number, b: number) => number
const big = (f: (a: bigint, b: bigint) => bigint): Meaning => {
  return (dtype, a, b) => wrap(dtype, f(BigInt(a), BigInt(b)))
}
const mixed = (f: (a: number, b: number) => number, g: (a: bigint, b: bigint) => bigint): Meaning => {
  return (dtype, a, b) => (dtype === 'f32' ? Math.fround(f(a, b)) : big(g)(dtype, a, b))
}
const test = (f: (a: number, b: number) => boolean): Meaning => {
  return (_, a, b) => (f(a, b) ? 1 : 0)
}
/** Computes the minimum or maximum: returns the other operand for a NaN, and orders -0 below 0. */
const extreme = (least: boolean): Meaning => {
  return (_, a, b) => {
    if (Number.isNaN(a)) return b
    if (Number.isNaN(b)) return a
    if (a === b) return Object.is(a, -0) === least ? a : b
    return a < b === least ? a : b
  }
}

const binary: Readonly<Record<string, Meaning>> = {
  add: mixed(
    (a, b) => a + b,
    (a, b) => a + b,
  ),
  sub: mixed(
    (a, b) => a - b,
    (a, b) => a - b,
  ),
  mul: mixed(
    (a, b) => a * b,
    (a, b) => a * b,
  ),
  div: mixed(
    (a, b) => a / b,
    (a, b) => a / b,
  ),
  min: extreme(true),
  max: extreme(false),
  mod: big((a, b) => a % b),
  and: big((a, b) => a & b),
  or: big((a, b) => a | b),
  xor: big((a, b) => a ^ b),
  shl: big((a, b) => a << b),
  shr: big((a, b) => a >> b),
  eq: test((a, b) => a === b),
  ne: test((a, b) => a !== b),
  lt: test((a, b) => a < b),
  le: test((a, b) => a <= b),
  gt: test((a, b) => a > b),
  ge: test((a, b) => a >= b),
}
const comparisons = ['eq', 'ne', 'lt', 'le', 'gt', 'ge']
const binaryOf = (dtype: Arithmetic): string[] =>
  Object.keys(binary).filter(
    (name) => dtype !== 'f32' || !['mod', 'and', 'or', 'xor', 'shl', 'shr'].includes(name),
  )
/**
 * Adjusts the second operand: divisors are not zero, shifts are below the width, and i64 products stay exactly
 * representable.
 */
function second(name: string, dtype: Arithmetic, b: number): number {
  if (name === 'shl' || name === 'shr') return Math.abs(b) % (dtype === 'i64' ? 20 : 32)
  if ((name === 'div' || name === 'mod') && dtype !== 'f32' && b === 0) return 3
  return name === 'mul' && dtype === 'i64' ? b % 2 ** 20 : b
}

const unary: Readonly<Record<string, (dtype: Arithmetic, x: number) => number>> = {
  neg: (dtype, x) => (dtype === 'f32' ? -x : wrap(dtype, -BigInt(x))),
  abs: (dtype, x) => (dtype === 'f32' ? Math.abs(x) : wrap(dtype, BigInt(Math.abs(x)))),
  not: (dtype, x) => wrap(dtype, ~BigInt(x)),
  sqrt: (_, x) => Math.fround(Math.sqrt(x)),
  floor: (_, x) => Math.floor(x),
  ceil: (_, x) => Math.ceil(x),
  round: (_, x) => (Math.abs(x % 1) === 0.5 ? 2 * Math.round(x / 2) : Math.round(x)),
}
const unaryOf = (dtype: Arithmetic): string[] =>
  dtype === 'f32'
    ? ['neg', 'abs', 'sqrt', 'floor', 'ceil', 'round']
    : dtype === 'u32'
      ? ['neg', 'not']
      : ['neg', 'abs', 'not']

/**
 * Functions that no standard specifies, for inputs where they are neither 0 nor infinite. The number `tolerance` is the
 * allowed relative error of these functions.
 */
const approximations: Readonly<Record<string, (x: number) => number>> = {
  exp2: (x) => 2 ** x,
  log2: Math.log2,
  tanh: Math.tanh,
  sigmoid: (x) => 1 / (1 + Math.exp(-x)),
  rsqrt: (x) => 1 / Math.sqrt(x),
  exp: Math.exp,
  log: (x) => Math.log2(x) * Math.LN2,
  sin: Math.sin,
  cos: Math.cos,
  erf: erfReference,
}
const tolerance = 2 ** -20
const gentle = (i: number): number => Math.fround(0.0625 + ((i * 37) % 97) / 12)

/** Allocates consecutive ranges of a 1-D tensor for values of any shape. */
function line(total: number): { at: (shape: readonly number[]) => number; readonly length: number } {
  let next = 0
  return {
    at: (shape) => (next += count(shape)) - count(shape),
    get length() {
      return Math.max(next, total)
    },
  }
}
interface Entry {
  readonly name: string
  readonly shape: readonly number[]
  readonly at: number
}
const longest = 33

/** Few operations per kernel, because compile time grows faster than the size of a kernel. */
const groupsOf = (dtype: Arithmetic): string[][] => {
  const names = [...binaryOf(dtype), ...unaryOf(dtype), 'select']
  return range(Math.ceil(names.length / 4)).map((group) => names.slice(group * 4, group * 4 + 4))
}

function elementwise(dtype: Arithmetic, group: readonly string[], tested: typeof shapes) {
  const places = line(0)
  const entries: Entry[] = group.flatMap((name) =>
    tested.map((shape) => ({ name, shape, at: places.at(shape) })),
  )
  const made = kernel(
    `elementwise_${dtype}`,
    { a: tensor(dtype, 1), b: tensor(dtype, 2), y: tensor(dtype, 1), flags: tensor('i32', 1) },
    (t, { a, b, y, flags }) => {
      const names = [...binaryOf(dtype)]
      for (const { name, shape, at } of entries) {
        const from = indices(t, shape, 0)
        const left = t.load(a.at([from as number]) as Ref<'i32', 0>) as Value
        if (unary[name]) t.store(y.at([indices(t, shape, at) as number]) as never, call(left, name) as never)
        else if (name === 'select') {
          const right = t.load(b.at([0, from as number]) as Ref<'i32', 0>) as Value
          const chosen = call(call(left, 'lt', right), 'select', left, right)
          t.store(y.at([indices(t, shape, at) as number]) as never, chosen as never)
        } else {
          const right = t.load(b.at([names.indexOf(name), from as number]) as Ref<'i32', 0>) as Value
          const result = call(left, name, right)
          const to = comparisons.includes(name) ? flags : y
          const stored = comparisons.includes(name) ? result.to('i32') : result
          t.store(to.at([indices(t, shape, at) as number]) as never, stored as never)
        }
      }
    },
  )
  return { made, entries, length: places.length }
}

describe.each(targets)('arithmetic on %s', (target) => {
  itForEach(target, arithmetic)('of %s, elementwise', async (dtype) => {
    const left = operands(dtype, 1, longest)
    const right = binaryOf(dtype).map((name, i) =>
      operands(dtype, i + 2, longest).map((b) => second(name, dtype, b)),
    )
    await onWorld(target, 1, async (world) => {
      const a = world.from(dtype, [longest], left)
      const b = world.from(dtype, [right.length, longest], right.flat())
      for (const group of groupsOf(dtype)) {
        const { made, entries, length } = elementwise(dtype, group, fewerOn(target, shapes, fewShapes))
        const y = world.full(dtype, [length], poison)
        const flags = world.full('i32', [length], poison)
        world.launch(made, { a, b, y, flags } as never, { grid: 1 })
        const [numbers, truths] = [await world.read(y, 0), await world.read(flags, 0)]
        for (const { name, shape, at } of entries) {
          const size = count(shape)
          const got = [...(comparisons.includes(name) ? truths : numbers).subarray(at, at + size)]
          const by = right[Math.max(binaryOf(dtype).indexOf(name), 0)]
          const expected = range(size).map((i) =>
            name === 'select'
              ? left[i] < right[0][i]
                ? left[i]
                : right[0][i]
              : unary[name]
                ? unary[name](dtype, left[i])
                : binary[name](dtype, left[i], by[i]),
          )
          expect(got, `${name} of ${dtype}[${shape.join('x')}]`).toEqual(expected)
        }
      }
    })
  })

  itForEach(target, Object.keys(approximations))('%s is within its error bound', async (name) => {
    const made = kernel(
      `approximate_${name}`,
      { x: tensor('f32', 1), y: tensor('f32', 2) },
      (t, { x, y }) => {
        ;[1, 4, 7, 32, 97].forEach((size, row) =>
          t.store(y.pick(row).tile([0], [size]), call(t.load(x.tile([0], [size])), name) as Value<'f32', 1>),
        )
      },
    )
    await onWorld(target, 1, async (world) => {
      const x = world.from('f32', [97], range(97).map(gentle))
      const y = world.full('f32', [5, 97], poison)
      world.launch(made, { x, y }, { grid: 1 })
      const got = await world.read(y, 0)
      ;[1, 4, 7, 32, 97].forEach((size, row) =>
        range(size).forEach((i) => {
          const expected = approximations[name](gentle(i))
          const off = Math.abs(got[row * 97 + i] - expected)
          expect(off, `${name}(${gentle(i)})`).toBeLessThanOrEqual(
            tolerance * Math.max(Math.abs(expected), 1),
          )
        }),
      )
    })
  })
})
