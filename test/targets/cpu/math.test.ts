/**
 * exp2, log2, tanh and sigmoid: their errors against float64, in units in the last place, over the whole range of f32.
 */
import { describe, expect, it } from 'vitest'
import { address, type Operand, type Writer } from '../../../src/targets/cpu/build.ts'
import type { Expression } from '../../../src/targets/cpu/code.ts'
import { exp2, log2, sigmoid, tanh } from '../../../src/targets/cpu/lower/math.ts'
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

const functions = [
  { name: 'exp2', emit: exp2, exact: (x: number) => 2 ** x, bound: 2 },
  { name: 'log2', emit: log2, exact: Math.log2, bound: 2 },
  { name: 'tanh', emit: tanh, exact: Math.tanh, bound: 4 },
  {
    name: 'sigmoid',
    emit: sigmoid,
    exact: (x: number) => (x < 0 ? Math.exp(x) / (1 + Math.exp(x)) : 1 / (1 + Math.exp(-x))),
    bound: 4,
  },
] as const

const last = new Uint32Array(1)
const lastFloat = new Float32Array(last.buffer)
/** The spacing of floats around x. */
function unit(x: number): number {
  lastFloat[0] = Math.abs(x)
  const exponent = Math.max((last[0] >>> 23) & 0xff, 1)
  return 2 ** (exponent - 127 - 23)
}

/** A prime step through all bit patterns, and every pattern around the points where the algorithm changes. */
const step = 3571
const corners = [
  0, 0x3f800000, 0x3f000000, 0x3f200000, 0x3f3504f3, 0x3fb504f3, 0x00800000, 0x7f800000, 0x42ff0000,
  0x43160000,
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
    '$name is within $bound units of the exact value; vectors give the same bits as scalars',
    ({ emit, exact, bound }) => {
      const run = compile({ scalar: through(emit, false), vector: through(emit, true) })
      let worst = 0
      for (const _ of batches()) {
        run('scalar')
        run('vector')
        for (let i = 0; i < batch; i++) {
          const x = floats[i]
          const got = scalars[i]
          const want = exact(x)
          if (!Object.is(got, vectors[i])) expect([x, vectors[i]]).toEqual([x, got])
          if (Number.isNaN(want) || !Number.isFinite(Math.fround(want))) {
            if (!Object.is(got, Math.fround(want))) expect([x, got]).toEqual([x, Math.fround(want)])
          } else {
            const error = Math.abs(got - want) / unit(want)
            if (!(error <= worst)) worst = error
          }
        }
      }
      expect(worst).toBeLessThanOrEqual(bound)
    },
  )

  it('keeps the sign of zero if the function has a signed zero', () => {
    const run = compile({ tanh: through(tanh, true) })
    floats.set([0, -0])
    run('tanh')
    expect([...vectors.subarray(0, 2)]).toEqual([0, -0])
  })
})
