/**
 * Tests element types in generated code: bits to values and back, rounding, casts. The semantics of conversions are
 * those of src/ir/dtype.ts, on every machine.
 */
import { describe, expect, it } from 'vitest'
import { cast, dtypes, round, type DType, type StorageDType } from '../../../src/ir/dtype.ts'
import { address } from '../../../src/targets/cpu/build.ts'
import * as convert from '../../../src/targets/cpu/lower/convert.ts'
import { frame, memory, random, testMachines, type Piece } from './machines.ts'

const smallFloats = ['f16', 'bf16', 'f8e4m3', 'f8e5m2'] as const
const count = 1 << 16
const inputAt = 0
const outputAt = 8 * count

const input = new DataView(memory.buffer, frame + inputAt, 8 * count)
const output = new DataView(memory.buffer, frame + outputAt, 8 * count)

/** The value of a small float's bits, from the definition of its format. */
function decode(dtype: (typeof smallFloats)[number], raw: number): number {
  const [mantissa, exponentBits, infinite] = {
    f16: [10, 5, true],
    bf16: [7, 8, true],
    f8e5m2: [2, 5, true],
    f8e4m3: [3, 4, false],
  }[dtype] as [number, number, boolean]
  const exponent = (raw >> mantissa) & ((1 << exponentBits) - 1)
  const fraction = raw & ((1 << mantissa) - 1)
  const sign = (raw >> (mantissa + exponentBits)) & 1 ? -1 : 1
  const top = (1 << exponentBits) - 1
  const bias = top >> 1
  if (exponent === top && infinite) return fraction === 0 ? sign * Infinity : NaN
  if (exponent === top && fraction === (1 << mantissa) - 1) return NaN
  return exponent === 0
    ? sign * fraction * 2 ** (1 - bias - mantissa)
    : sign * (1 + fraction * 2 ** -mantissa) * 2 ** (exponent - bias)
}

/** A function in the intermediate language Code that applies `each` to `count` elements, one by one or as vectors. */
function through(
  vector: boolean,
  from: StorageDType,
  to: StorageDType,
  each: (...at: Parameters<typeof convert.widen>) => ReturnType<typeof convert.narrow>,
): Piece {
  return (writer, machine, at) =>
    writer.for('i', 0, count, vector ? machine.lanes : 1, (i) => {
      const place = address(at, i, dtypes[from].bytes, inputAt)
      const raw = writer.load('raw', convert.rawCodeType(from, vector), convert.memoryKind(from), place)
      const value = each(writer, machine, from, raw)
      writer.store(convert.memoryKind(to), address(at, i, dtypes[to].bytes, outputAt), value)
    })
}
const modes = [
  ['scalar', false],
  ['vector', true],
] as const

/**
 * f32 numbers that are critical for rounding: all values of `dtype`, the midpoints between values, and the neighbours
 * of values and midpoints.
 */
function* decisive(dtype: (typeof smallFloats)[number]): Generator<number> {
  const bits = dtypes[dtype].bytes * 8
  const words = new Uint32Array(1)
  const floats = new Float32Array(words.buffer)
  const next = random(7)
  for (let n = 0; n < count / 8; n++) {
    const raw = bits === 8 ? n & 0xff : Math.floor(next() * 65536)
    const value = decode(dtype, raw)
    const above = decode(dtype, raw + 1)
    floats[0] = n % 2 === 0 ? value : (value + above) / 2
    for (let neighbour = -1; neighbour <= 1; neighbour++) {
      words[0] += neighbour
      yield floats[0]
      words[0] -= neighbour
    }
    words[0] = Math.floor(next() * 2 ** 32)
    yield floats[0]
  }
  yield* [
    0,
    -0,
    Infinity,
    -Infinity,
    NaN,
    448,
    464,
    449,
    65504,
    65519.996,
    65520,
    61440,
    57344,
    3.4e38,
    1e-45,
  ]
}

describe.each(testMachines)('on $name', ({ compile }) => {
  describe.each(smallFloats)('%s', (dtype) => {
    it.each(modes)('widens every bit pattern, and narrows it back (%s)', (_, vector) => {
      const run = compile({
        widen: through(vector, dtype, 'f32', (writer, machine, _from, raw) => ({
          kind: 'local',
          type: vector ? 'vf32' : 'f32',
          local: convert.widen(writer, machine, dtype, raw),
        })),
        back: through(vector, dtype, dtype, (writer, machine, _from, raw) =>
          convert.narrow(writer, machine, dtype, convert.widen(writer, machine, dtype, raw)),
        ),
      })
      const bytes = dtypes[dtype].bytes
      const patterns = 1 << (8 * bytes)
      for (let i = 0; i < count; i++)
        if (bytes === 1) input.setUint8(i, i % patterns)
        else input.setUint16(2 * i, i % patterns, true)
      run('widen')
      for (let i = 0; i < patterns; i++)
        if (!Object.is(output.getFloat32(4 * i, true), decode(dtype, i)))
          expect([i, output.getFloat32(4 * i, true)]).toEqual([i, decode(dtype, i)])
      run('back')
      for (let i = 0; i < patterns; i++) {
        const raw = bytes === 1 ? output.getUint8(i) : output.getUint16(2 * i, true)
        if (!Object.is(decode(dtype, raw), decode(dtype, i))) expect([i, raw]).toEqual([i, i])
      }
    })

    it.each(modes)('rounds to the nearest, ties to even, and stores the rounded value (%s)', (_, vector) => {
      const run = compile({
        round: through(vector, 'f32', 'f32', (writer, machine, _from, raw) =>
          convert.roundTo(writer, machine, dtype, raw),
        ),
        bits: through(vector, 'f32', dtype, (writer, machine, _from, raw) =>
          convert.narrow(writer, machine, dtype, convert.roundTo(writer, machine, dtype, raw)),
        ),
      })
      const values = [...decisive(dtype)]
      expect(values.length).toBeLessThanOrEqual(count)
      values.forEach((value, i) => input.setFloat32(4 * i, value, true))
      const given = values.map((_, i) => input.getFloat32(4 * i, true))
      run('round')
      given.forEach((value, i) => {
        const got = output.getFloat32(4 * i, true)
        if (!Object.is(got, round(dtype, value))) expect([value, got]).toEqual([value, round(dtype, value)])
      })
      run('bits')
      given.forEach((value, i) => {
        const raw = dtypes[dtype].bytes === 1 ? output.getUint8(i) : output.getUint16(2 * i, true)
        const got = decode(dtype, raw)
        if (!Object.is(got, round(dtype, value))) expect([value, got]).toEqual([value, round(dtype, value)])
      })
    })
  })

  const storages: StorageDType[] = ['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8', 'u8', 'i32', 'u32', 'i64']

  /** Values of a dtype, including its bounds and the thresholds of casts. */
  function valuesOf(dtype: StorageDType): number[] {
    const { min, max, kind } = dtypes[dtype]
    const next = random(11)
    const around = [
      0,
      1,
      127,
      128,
      255,
      256,
      448,
      57344,
      65504,
      65520,
      2 ** 24 + 1,
      2 ** 31 - 1,
      2 ** 31,
      2 ** 32,
    ]
    const ties = [
      2 ** 30 + 2 ** 22 + 1,
      2 ** 30 + 2 ** 22,
      2 ** 31 + 2 ** 23 + 1,
      2 ** 40 + 2 ** 32 + 1,
      2 ** 53 - 1,
    ]
    const signed = [...around, ...ties, ...around.map((x) => x + 0.5)].flatMap((x) => [x, -x])
    const spread = Array.from({ length: 400 }, () => (next() - 0.5) * 2 ** (1 + 62 * next()))
    const all = [...signed, ...spread, min, max].filter((x) => x >= min && x <= max)
    if (kind === 'float') return [...all.map((x) => round(dtype, x)), NaN, -0, round(dtype, Infinity)]
    return all.map((x) => Math.trunc(x) + 0)
  }
  function put(dtype: StorageDType, i: number, value: number): void {
    if (dtype === 'i64') input.setBigInt64(8 * i, BigInt(value), true)
    else if (dtypes[dtype].kind === 'float') input.setFloat32(4 * i, value, true)
    else if (dtype === 'u32') input.setUint32(4 * i, value, true)
    else input.setInt32(4 * i, value, true)
  }
  function take(dtype: DType, i: number): number {
    if (dtype === 'i64') return Number(output.getBigInt64(8 * i, true))
    if (dtypes[dtype].kind === 'float') return output.getFloat32(4 * i, true)
    if (dtype === 'u32') return output.getUint32(4 * i, true)
    return output.getInt32(4 * i, true)
  }
  /** The dtype that a local variable of the generated code has for a value. */
  const held = (dtype: DType): StorageDType =>
    dtype === 'i64' ? 'i64' : dtypes[dtype].kind === 'float' ? 'f32' : 'i32'

  it.each(modes)('casts between all dtypes (%s)', (_, vector) => {
    const pairs = [...storages, 'bool' as const]
      .flatMap((from) => [...storages, 'bool' as const].map((to) => [from, to] as const))
      .filter(([from, to]) => from !== 'bool' && !(vector && (from === 'i64' || to === 'i64')))
    const pieces = Object.fromEntries(
      pairs.map(([from, to]): [string, Piece] => [
        `${from} ${to}`,
        (writer, machine, at) =>
          writer.for('i', 0, 1024, vector ? machine.lanes : 1, (i) => {
            const source = held(from)
            const place = address(at, i, dtypes[source].bytes, inputAt)
            const raw = writer.load(
              'raw',
              convert.rawCodeType(source, vector),
              convert.memoryKind(source),
              place,
            )
            const value = convert.cast(writer, machine, from, to, raw)
            writer.store(
              convert.memoryKind(held(to)),
              address(at, i, dtypes[held(to)].bytes, outputAt),
              value,
            )
          }),
      ]),
    )
    const run = compile(pieces)
    for (const [from, to] of pairs) {
      if (from === 'bool') continue
      const values = valuesOf(from)
      values.forEach((value, i) => put(from, i, value))
      run(`${from} ${to}`)
      values.forEach((value, i) => {
        const scale = to === 'bool' && vector ? -1 : 1
        const want = cast(from, to, value) * scale
        const got = take(to, i)
        // Integers have no negative zero.
        const zero = dtypes[to].kind === 'float' || want !== 0 ? want : 0
        if (!Object.is(got, zero)) expect([from, to, value, got]).toEqual([from, to, value, zero])
      })
    }
  })

  it('turns a mask into numbers', () => {
    const run = compile({
      scalar: (writer, machine, at) => {
        writer.for('i', 0, 8, 1, (i) => {
          const mask = writer.load('mask', 'i32', 'i32', address(at, i, 4, inputAt))
          writer.store('f32', address(at, i, 4, outputAt), convert.cast(writer, machine, 'bool', 'f32', mask))
        })
      },
      vector: (writer, machine, at) => {
        const mask = writer.load('mask', 'vi32', 'i32', at, inputAt)
        writer.store('i32', at, convert.cast(writer, machine, 'bool', 'i32', mask), outputAt)
      },
    })
    for (let i = 0; i < 16; i++) input.setInt32(4 * i, i % 2, true)
    run('scalar')
    expect(Array.from({ length: 8 }, (_, i) => output.getFloat32(4 * i, true))).toEqual([
      0, 1, 0, 1, 0, 1, 0, 1,
    ])
    for (let i = 0; i < 16; i++) input.setInt32(4 * i, -(i % 2), true)
    run('vector')
    expect(Array.from({ length: 4 }, (_, i) => output.getInt32(4 * i, true))).toEqual([0, 1, 0, 1])
  })
})
