/**
 * Tests the elementary functions: their errors against float64, in units in the last place, over the whole range of
 * f32. The tests use the maximum errors that the targets state.
 */
import { describe, expect, it } from 'vitest'
import { opOf, ops, type ApproximateName, type OpName } from '../../../src/ir/ops/index.ts'
import { errorFunction, power as powerMeaning, roundToEven } from '../../../src/ir/ops/functions.ts'
import { address, unary, use, type Operand, type Writer } from '../../../src/targets/cpu/build.ts'
import { maximumErrors as ofChecker } from '../../../src/targets/check/maximumErrors.ts'
import { maximumErrors } from '../../../src/targets/cpu/maximumErrors.ts'
import type { CodeFunction, Expression } from '../../../src/targets/cpu/code.ts'
import { erf, exp, exp2, log, log2, sigmoid, tanh } from '../../../src/targets/cpu/lower/math.ts'
import { cosine, power, sine, twoOverPi } from '../../../src/targets/cpu/lower/math64.ts'
import { erfReference, ulps } from '../../ulp.ts'
import { frame, memory, testMachines, type Piece } from './machines.ts'

const batch = 1 << 18
const input = new Uint32Array(memory.buffer, frame, batch)
const floats = new Float32Array(memory.buffer, frame, batch)
const scalars = new Float32Array(memory.buffer, frame + 4 * batch, batch)
const vectors = new Float32Array(memory.buffer, frame + 8 * batch, batch)

type Emit = (writer: Writer, value: Operand) => Expression

const through =
  (emit: Emit, vector: boolean): Piece =>
  (writer, machine, at) =>
    writer.for('i', 0, batch, vector ? machine.lanes : 1, (i) => {
      const x = writer.load('x', vector ? 'vf32' : 'f32', 'f32', address(at, i, 4))
      writer.store('f32', address(at, i, 4, (vector ? 8 : 4) * batch), emit(writer, x))
    })

const called =
  (callee: CodeFunction): Emit =>
  (writer, value) =>
    use(writer.call(callee, value)!)

/** How each function is lowered, and its exact value in float64. Functions without a vector form have no `vector`. */
const functions: readonly {
  name: ApproximateName
  scalar: Emit
  vector?: Emit
  exact: (x: number) => number
}[] = [
  { name: 'exp2', scalar: exp2, vector: exp2, exact: (x) => 2 ** x },
  { name: 'exp', scalar: exp, vector: exp, exact: Math.exp },
  { name: 'log2', scalar: log2, vector: log2, exact: Math.log2 },
  { name: 'log', scalar: log, vector: log, exact: Math.log },
  { name: 'sin', scalar: called(sine), exact: Math.sin },
  { name: 'cos', scalar: called(cosine), exact: Math.cos },
  { name: 'erf', scalar: erf, vector: erf, exact: erfReference },
  { name: 'tanh', scalar: tanh, vector: tanh, exact: Math.tanh },
  {
    name: 'sigmoid',
    scalar: sigmoid,
    vector: sigmoid,
    exact: (x) => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x))),
  },
]

/**
 * Bit patterns at a distance that is a prime number, and every pattern near the numbers at which the algorithm changes.
 */
const step = 3571
const corners = [
  0, 0x3f800000, 0x3f000000, 0x3f200000, 0x3f3504f3, 0x3fb504f3, 0x00800000, 0x7f800000, 0x42ff0000,
  0x43160000, 0x3f6d8000, 0x40800000, 0x40747ae1, 0x49800000, 0x3fc90fdb, 0x40490fdb, 0x42b17218, 0x42cff1b5,
]

function* batches(): Generator<void> {
  const total = Math.ceil(2 ** 32 / step)
  for (let first = 0; first < total; first += batch) {
    for (let i = 0; i < batch; i++) input[i] = ((first + i) * step) >>> 0
    yield
  }
  const around = Math.floor(batch / 2 / corners.length)
  input.fill(0)
  corners.forEach((corner, c) => {
    for (let i = 0; i < around; i++) {
      input[2 * (c * around + i)] = corner + i - around / 2
      input[2 * (c * around + i) + 1] = (corner + i - around / 2 + 0x80000000) >>> 0
    }
  })
  yield
}

describe.each(testMachines)('on $name', ({ compile }) => {
  it.each(functions)(
    '$name is within its bound; vectors give the same bits as scalars',
    ({ name, scalar, vector, exact }) => {
      const run = compile({ scalar: through(scalar, false), vector: through(vector ?? scalar, !!vector) })
      let worst = 0
      for (const _ of batches()) {
        run('scalar')
        run('vector')
        for (let i = 0; i < batch; i++) {
          const x = floats[i]
          const got = scalars[i]
          const want = Math.fround(exact(x))
          if (vector && !Object.is(got, vectors[i])) expect([x, vectors[i]]).toEqual([x, got])
          if (!Number.isFinite(want) || Number.isNaN(want) || want === 0) {
            // A result next to the largest number may be infinite only if it rounds to infinity.
            if (!Object.is(got, want) && !(ulps(got, want) <= maximumErrors[name]))
              expect([x, got]).toEqual([x, want])
          } else {
            const error = ulps(got, want)
            if (!(error <= worst)) worst = error
          }
        }
      }
      expect(worst).toBeLessThanOrEqual(maximumErrors[name])
    },
  )

  it('keeps the sign of zero if the function has a signed zero', () => {
    const run = compile({
      tanh: through(tanh, true),
      erf: through(erf, true),
      sin: through(called(sine), false),
    })
    floats.set([0, -0])
    run('tanh')
    expect([...vectors.subarray(0, 2)]).toEqual([0, -0])
    run('erf')
    expect([...vectors.subarray(0, 2)]).toEqual([0, -0])
    run('sin')
    expect([...scalars.subarray(0, 2)]).toEqual([0, -0])
  })

  it('pow is within its bound, and handles special values as C does', () => {
    const half = batch / 2
    const run = compile({
      pow: (writer, _, at) =>
        writer.for('i', 0, half, 1, (i) => {
          const x = writer.load('x', 'f32', 'f32', address(at, i, 4))
          const y = writer.load('y', 'f32', 'f32', address(at, i, 4, 4 * half))
          writer.store('f32', address(at, i, 4, 4 * batch), writer.call(power, x, y)!)
        }),
    })
    const specials = [
      0,
      -0,
      1,
      -1,
      0.5,
      -0.5,
      2,
      -2,
      3,
      -3,
      1.5,
      -2.5,
      16777215,
      16777216,
      -16777217,
      1e30,
      -1e30,
      3.4028235e38,
      1e-45,
      -1e-45,
      1.1754944e-38,
      0.99999994,
      1.0000001,
      -0.99999994,
      Infinity,
      -Infinity,
      NaN,
    ].map(Math.fround)
    let worst = 0
    for (let round = 0; round < 6; round++) {
      let state = round + 1
      const next = (): number => (state = (Math.imul(state, 1664525) + 1013904223) >>> 0) / 2 ** 32
      for (let i = 0; i < half; i++) {
        if (round === 0) {
          // Both operands are random bits, or all pairs of special values.
          input[i] = next() * 2 ** 32
          input[half + i] = next() * 2 ** 32
          if (i < specials.length ** 2) {
            floats[i] = specials[Math.floor(i / specials.length)]
            floats[half + i] = specials[i % specials.length]
          }
        } else {
          // x has a random exponent, or is near 1 in every other round; y is such that the result is neither 0 nor
          // infinite.
          floats[i] = round % 2 ? 2 ** (next() * 276 - 149) : 1 + (next() - 0.5) * 2 ** -(next() * 20)
          floats[half + i] = ((next() * 280 - 151) / Math.log2(floats[i])) * (round === 5 ? 0.01 : 1)
          if (round === 3) [floats[i], floats[half + i]] = [-floats[i], Math.round(floats[half + i])]
        }
      }
      run('pow')
      for (let i = 0; i < half; i++) {
        const [x, y, got] = [floats[i], floats[half + i], scalars[i]]
        const want = Math.fround(powReference(x, y))
        if (!Number.isFinite(want) || want === 0) {
          if (!Object.is(got, want)) expect([x, y, got]).toEqual([x, y, want])
        } else worst = Math.max(worst, ulps(got, want))
      }
    }
    expect(worst).toBeLessThanOrEqual(maximumErrors.pow)
  })
})

/** Computes C's pow, written out by its special cases. */
function powReference(x: number, y: number): number {
  if (y === 0 || x === 1) return 1
  if (Number.isNaN(x) || Number.isNaN(y)) return NaN
  if (Math.abs(y) === Infinity) {
    if (Math.abs(x) === 1) return 1
    return Math.abs(x) > 1 === y > 0 ? Infinity : 0
  }
  return Math.pow(x, y)
}

describe('the records', () => {
  it('bound every function whose result may differ between targets', () => {
    const bounded = (Object.keys(ops) as OpName[]).filter((op) => ops[op].isApproximate)
    expect(bounded.sort()).toEqual([...functions.map(({ name }) => name), 'rsqrt', 'pow'].sort())
  })
  it.each(functions)('$name in the checker is within its bound', ({ name, exact }) => {
    const { evaluate } = opOf({ op: name })
    const node = { type: { kind: 'value', dtype: 'f32', shape: [] } } as never
    for (let i = 0; i < 30_000; i++) {
      input[0] = Math.imul(i, 2654435761) >>> 0
      const x = floats[0]
      const [got, want] = [evaluate!(node, [x]) as number, Math.fround(exact(x))]
      if (Object.is(got, want)) continue
      expect([x, ulps(got, want)]).toEqual([x, ofChecker[name]])
    }
  })
  it('errorFunction and power agree with their references', () => {
    for (let x = -6.5; x < 6.5; x += 0.0078125) {
      expect(Math.abs(errorFunction(x) - erfReference(x))).toBeLessThan(4e-15)
      for (const y of [NaN, Infinity, -Infinity, 0, -0, 2, 0.5])
        expect(powerMeaning(x, y)).toBe(powReference(x, y))
    }
    for (const x of [1, -1, NaN, Infinity])
      for (const y of [NaN, Infinity, -Infinity, 0]) expect(powerMeaning(x, y)).toBe(powReference(x, y))
    // The expected values of the error function are those of Abramowitz and Stegun, table 7.1.
    for (const [x, y] of [
      [0.5, 0.5204998778],
      [1, 0.8427007929],
      [2, 0.995322265],
    ])
      expect(erfReference(x)).toBeCloseTo(y, 9)
  })
  it('round ties to even and keep the sign of zero', () => {
    const cases = [
      -2.5,
      -1.5,
      -0.5,
      -0.25,
      -0,
      0,
      0.5,
      1.5,
      2.5,
      3.5,
      8388607.5,
      1e30,
      Infinity,
      -Infinity,
      NaN,
    ]
    expect(cases.map(roundToEven)).toEqual([
      -2,
      -2,
      -0,
      -0,
      -0,
      0,
      0,
      2,
      2,
      4,
      8388608,
      1e30,
      Infinity,
      -Infinity,
      NaN,
    ])
  })
  it("2 / pi has the bits that Machin's formula gives", () => {
    const one = 1n << 300n
    const arctan = (x: bigint): bigint => {
      let [sum, term] = [0n, one / x]
      for (let n = 1n; term !== 0n; n += 2n, term /= x * x) sum += (n % 4n === 1n ? term : -term) / n
      return sum
    }
    const pi = 4n * (4n * arctan(5n) - arctan(239n))
    expect(((2n * one) << 192n) / pi).toBe(twoOverPi)
  })
  it('floor, ceil and round of special values are the same on every CPU target', () => {
    const values = [-2.5, -1.5, -0.5, -0.25, -0, 0, 0.5, 1.5, 2.5, 8388607.5, 1e30, Infinity, -Infinity, NaN]
    for (const { compile } of testMachines) {
      const run = compile({
        floor: through((_, x) => unary('floor', x), true),
        ceil: through((_, x) => unary('neg', unary('floor', unary('neg', x))), true),
        round: through((_, x) => unary('nearest', x), true),
      })
      for (const [name, meaning] of [
        ['floor', Math.floor],
        ['ceil', Math.ceil],
        ['round', roundToEven],
      ] as const) {
        floats.set(values)
        run(name)
        expect([...vectors.subarray(0, values.length)]).toEqual(
          [...floats.subarray(0, values.length)].map(meaning),
        )
      }
    }
  })
})
