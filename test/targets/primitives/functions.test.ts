/**
 * The elementary functions of f32 on every target, and as CUDA C++ that runs on this CPU, compared with float64: the error
 * in units in the last place is at most the bound that the op's record states for the target. The inputs cover all
 * exponents of both signs, and the neighbourhoods of special values.
 */
import { describe, expect, it } from 'vitest'
import { f32, kernel, tensor, type Value } from '../../../src/index.ts'
import { power, roundToEven } from '../../../src/ir/ops/functions.ts'
import type { MaximumErrors, OpName } from '../../../src/ir/ops/index.ts'
import { maximumErrors as onCheck } from '../../../src/targets/check/maximumErrors.ts'
import { maximumErrors as onCpu } from '../../../src/targets/cpu/maximumErrors.ts'
import { maximumErrors as onCuda } from '../../../src/targets/cuda/maximumErrors.ts'
import { erfReference, ulps } from '../../ulp.ts'
import { long } from '../../long.ts'
import { call } from '../differential/entries.ts'
import { cudaOnCpu, onWorld, places, poison } from './harness.ts'

/** The meaning of each function in float64. */
const unary: Readonly<Partial<Record<OpName, (x: number) => number>>> = {
  exp2: (x) => 2 ** x,
  exp: Math.exp,
  log2: Math.log2,
  log: Math.log,
  sin: Math.sin,
  cos: Math.cos,
  erf: erfReference,
  sqrt: Math.sqrt,
  rsqrt: (x) => 1 / Math.sqrt(x),
  tanh: Math.tanh,
  sigmoid: (x) => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x))),
  floor: Math.floor,
  ceil: Math.ceil,
  round: roundToEven,
}
const names = [...Object.keys(unary), 'pow'] as OpName[]

const BLOCK = 128
/** Row n of y holds function n of the elements of x. The last row holds x to the y. */
const functions = kernel(
  'functions',
  { x: tensor(f32, 1), exponents: tensor(f32, 1), y: tensor(f32, 2) },
  (t, { x, exponents, y }) =>
    t.persistent(x.tiles([BLOCK]), (tile, [i]) => {
      const [value, exponent] = [t.load(tile), t.load(exponents.tile([i], [BLOCK]))]
      for (const [row, name] of names.entries()) {
        const result = call(value, name, ...(name === 'pow' ? [exponent] : []))
        t.store(y.pick(row).tile([i], [BLOCK]), result as Value<'f32', 1>)
      }
    }),
)

const float = new Float32Array(1)
const word = new Uint32Array(float.buffer)
const numberOf = (bits: number): number => {
  word[0] = bits
  return float[0]
}
const bitsOf = (x: number): number => {
  float[0] = x
  return word[0]
}

const special = [
  ...[0, -0, 1, -1, NaN, Infinity, -Infinity, 0.5, -0.5, 1.5, 2.5, -2.5, Math.PI, Math.PI / 2, 1e5, -1e5],
  ...[88.72, -88.72, -87.33, -103.9, 127.99, -126, -149, 9, -9, 0.625, 4, -4, 1.1754944e-38, 3.4028235e38],
]

/** At least `count` numbers: evenly spaced bit patterns, numbers up to 100, and the neighbours of special values. */
function inputs(count: number, seed: number): number[] {
  const step = Math.floor(2 ** 32 / count)
  const all = Array.from({ length: count }, (_, i) => numberOf((i * step + seed * 12_345) >>> 0))
  for (let i = 0; i < count; i++)
    all.push(Math.fround((((i * 7919 + seed * 31) % 20_011) / 10_005 - 1) * [1, 10, 100][i % 3]))
  for (const one of special)
    for (const off of [0, 1, 2, -1, -2]) all.push(numberOf((bitsOf(one) + off) >>> 0))
  while (all.length % BLOCK !== 0) all.push(1)
  return all
}

/** In this comparison, zeros of the other sign, and numbers in place of NaN, have an infinite error. */
function distance(got: number, wanted: number): number {
  if (Object.is(got, wanted)) return 0
  return Number.isNaN(got) || Number.isNaN(wanted) || got === wanted ? Infinity : ulps(got, wanted)
}

const errors: Readonly<Record<string, MaximumErrors>> = {
  check: onCheck,
  wasm: onCpu,
  native: onCpu,
  cuda: onCuda,
  [cudaOnCpu]: onCuda,
}
/** Functions without an entry in this table are exact. */
const boundOf = (name: OpName, target: string): number =>
  (errors[target] as Partial<Record<OpName, number>>)[name] ?? 0

describe.each(places)('functions on %s', (target) => {
  const isSlow = target === 'check' || target === cudaOnCpu
  const count = target === 'cuda' ? 1 << 17 : isSlow ? 1 << 9 : 1 << 14

  it('are within the errors that their records state', target === 'native' ? long : {}, async () => {
    const x = inputs(count, 1)
    // Exponents for which the powers of most numbers up to 100 are finite, and all special values.
    const exponents = inputs(count, 2).map((y, i) => (i % 4 === 0 ? y : Math.fround(y % 20)))
    exponents.reverse()
    const found = await onWorld(target, 1, async (world) => {
      const args = {
        x: world.from(f32, [x.length], x),
        exponents: world.from(f32, [x.length], exponents),
        y: world.full(f32, [names.length, x.length], poison),
      }
      world.launch(functions, args, { grid: target === 'check' ? 1 : 'resident' })
      return world.read(args.y, 0)
    })
    for (const [row, name] of names.entries()) {
      const exact = unary[name]
      let worst = { error: -1, about: '' }
      for (const [i, one] of x.entries()) {
        const wanted = Math.fround(exact ? exact(one) : power(one, exponents[i]))
        const got = found[row * x.length + i]
        const error = distance(got, wanted)
        if (error > worst.error)
          worst = {
            error,
            about: `${name}(${one}${exact ? '' : `, ${exponents[i]}`}) = ${got}, not ${wanted}`,
          }
      }
      expect(worst.error, worst.about).toBeLessThanOrEqual(boundOf(name, target))
    }
  })
})
