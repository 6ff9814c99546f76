/** Tests the WebAssembly of loads, stores, copies and addresses of the intermediate language Code. */
import fc from 'fast-check'
import { beforeEach, describe, expect, test } from 'vitest'
import type { Expression, Local, MemoryKind } from '../../../src/targets/cpu/code.ts'
import * as build from '../../../src/targets/cpu/build.ts'
import type { Writer } from '../../../src/targets/cpu/build.ts'
import { base, bytes, compile, data, memory } from './harness.ts'
import type { Run } from './harness.ts'

/** A function of pointers and numbers without a relevant result. */
const program = (parameters: string[], write: (writer: Writer, ...locals: Local[]) => void): Run =>
  compile(
    build.codeFunction(
      'program',
      parameters.map((name) => [name, name.startsWith('p') ? 'ptr' : 'i32']),
      write,
    ),
  )

beforeEach(() => {
  for (let i = 0; i < 1024; i++) bytes[base + i] = (i * 37 + 129) & 255
})

describe('loads', () => {
  const reads: Record<Exclude<MemoryKind, 'i64' | 'f32'>, (at: number) => number> = {
    u8: (at) => data.getUint8(at),
    i8: (at) => data.getInt8(at),
    u16: (at) => data.getUint16(at, true),
    i32: (at) => data.getInt32(at, true),
  }
  const width = { u8: 1, i8: 1, u16: 2, i32: 4, f32: 4 }

  test.each(['u8', 'i8', 'u16', 'i32'] as const)('%s widens to i32, and to the lanes of a vector', (kind) => {
    const scalar = program(['pFrom', 'pTo'], (writer, from, to) => {
      writer.store('i32', to, writer.load('x', 'i32', kind, from, 3))
    })
    const vector = program(['pFrom', 'pTo'], (writer, from, to) => {
      writer.store('i32', to, writer.load('x', 'vi32', kind, from, 3))
    })
    for (let from = base; from < base + 64; from++) {
      const expected = [0, 1, 2, 3].map((lane) => reads[kind](from + 3 + lane * width[kind]))
      scalar(from, base + 512)
      expect(data.getInt32(base + 512, true)).toBe(expected[0])
      vector(from, base + 512)
      expect([0, 4, 8, 12].map((lane) => data.getInt32(base + 512 + lane, true))).toEqual(expected)
    }
  })

  test('f32, i64, splats and pointers', () => {
    const run = program(['pFrom', 'pTo'], (writer, from, to) => {
      writer.store('f32', to, writer.load('x', 'f32', 'f32', from, 0), 0)
      writer.store('i64', to, writer.load('y', 'i64', 'i64', from, 4), 8)
      writer.store('f32', to, writer.loadSplat('z', 'vf32', from, 0), 16)
      writer.store('i32', to, writer.loadSplat('w', 'vi32', from, 4), 32)
      writer.store('i32', writer.loadPointer('pointer', from, 16), build.i32(77), 4)
    })
    data.setFloat32(base, 1.25, true)
    data.setBigInt64(base + 4, 0x123456789abcdefn, true)
    data.setBigInt64(base + 16, BigInt(base + 800), true)
    run(base, base + 512)
    expect(data.getFloat32(base + 512, true)).toBe(1.25)
    expect(data.getBigInt64(base + 520, true)).toBe(0x123456789abcdefn)
    for (const lane of [0, 4, 8, 12]) {
      expect(data.getFloat32(base + 528 + lane, true)).toBe(1.25)
      expect(data.getInt32(base + 544 + lane, true)).toBe(0x89abcdef | 0)
    }
    expect(data.getInt32(base + 804, true)).toBe(77)
  })
})

describe('stores', () => {
  test.each([
    ['u8', 1],
    ['i8', 1],
    ['u16', 2],
    ['i32', 4],
  ] as const)('%s keeps the low bits of scalars and of lanes, and touches nothing else', (kind, width) => {
    const scalar = program(['pTo', 'value'], (writer, to, value) => writer.store(kind, to, value, 1))
    const vector = program(['pFrom', 'pTo'], (writer, from, to) => {
      writer.store(kind, to, writer.load('x', 'vi32', 'i32', from), 1)
    })
    const values = [0x12345678, -1, -0x80000000, 0x7fff8001]
    values.forEach((value, lane) => data.setInt32(base + 900 + 4 * lane, value, true))
    for (const value of values) {
      bytes.fill(0xaa, base, base + 8)
      scalar(base, value)
      const expected = [
        0xaa,
        ...[0, 1, 2, 3].map((i) => (i < width ? (value >>> (8 * i)) & 255 : 0xaa)),
        0xaa,
      ]
      expect([...bytes.slice(base, base + 6)]).toEqual(expected)
    }
    bytes.fill(0xaa, base, base + 32)
    vector(base + 900, base)
    const low = values.flatMap((value) => Array.from({ length: width }, (_, i) => (value >>> (8 * i)) & 255))
    expect([...bytes.slice(base, base + 2 + 4 * width)]).toEqual([0xaa, ...low, 0xaa])
  })

  test('vectors of f32 need no alignment', () => {
    const run = program(['pTo'], (writer, to) => writer.store('f32', to, build.constant('vf32', 2.5), 3))
    run(base)
    expect([0, 4, 8, 12].map((lane) => data.getFloat32(base + 3 + lane, true))).toEqual([2.5, 2.5, 2.5, 2.5])
  })
})

describe('bytes', () => {
  test('are copied and zeroed, in any number', () => {
    const copy = program(['pTo', 'pFrom', 'count'], (writer, to, from, count) =>
      writer.copyBytes(to, from, count),
    )
    const zero = program(['pTo', 'count'], (writer, to, count) => writer.zeroBytes(to, count))
    for (const count of [0, 1, 15, 16, 100, 511]) {
      const source = [...bytes.slice(base, base + count)]
      copy(base + 512, base, count)
      expect([...bytes.slice(base + 512, base + 512 + count)]).toEqual(source)
      const after = bytes[base + 512 + count]
      zero(base + 512, count)
      expect(bytes.slice(base + 512, base + 512 + count).every((byte) => byte === 0)).toBe(true)
      expect(bytes[base + 512 + count]).toBe(after)
    }
  })

  test.each([0, 16, 48, 64, 20, 80])('are copied in the constant number %i', (count) => {
    const run = program(['pTo', 'pFrom', 'i'], (writer, to, from, i) =>
      writer.copyBytes(build.address(to, i, 4), build.address(from, i, 4), build.i32(count)),
    )
    const [source, after] = [[...bytes.slice(base + 8, base + 8 + count)], bytes[base + 520 + count]]
    run(base + 512, base, 2)
    expect([...bytes.slice(base + 520, base + 520 + count)]).toEqual(source)
    expect(bytes[base + 520 + count]).toBe(after)
  })
})

describe('addresses', () => {
  /** Stores to the computed address and also returns that address as a number. */
  function landing(parameters: string[], at: (...locals: Local[]) => Expression, offset: number): Run {
    return compile(
      build.codeFunction(
        'landing',
        parameters.map((name) => [name, name.startsWith('p') ? 'ptr' : 'i32']),
        (writer, ...locals) => {
          writer.store('i32', at(...locals), build.i32(0x5eed), offset)
          writer.return(build.convert('bits', 'i32', at(...locals)))
        },
        { result: 'i32' },
      ),
    )
  }

  test('base + index * scale + offset, with an index and an offset of either sign', () => {
    const scales = fc.constantFrom(1, 2, 4, 12, 16, 100, -4)
    const offsets = fc.integer({ min: -6000, max: 6000 })
    fc.assert(
      fc.property(
        fc.integer({ min: -40, max: 40 }),
        scales,
        offsets,
        offsets,
        offsets,
        (index, scale, a, b, c) => {
          const origin = 100_000
          const run = landing(
            ['pBase', 'index'],
            (from, i) => build.address(build.address(from, build.add(i, build.i32(3)), scale, a), 0, 1, b),
            c,
          )
          const place = origin + (index + 3) * scale + a + b
          data.setInt32(place + c, 0, true)
          expect(run(origin, index)).toBe(place)
          expect(data.getInt32(place + c, true)).toBe(0x5eed)
        },
      ),
      { seed: 7, numRuns: 200 },
    )
  })

  test('a very negative index with a large positive offset yields a valid address', () => {
    const run = landing(['pBase', 'index'], (from, i) => build.address(from, i, 4, 100_000), 0)
    data.setInt32(8192, 0, true)
    expect(run(4096, (8192 - 4096 - 100_000) / 4)).toBe(8192)
    expect(data.getInt32(8192, true)).toBe(0x5eed)
  })

  test('multiples of a stride known at launch', () => {
    const run = landing(
      ['pBase', 'row', 'columns'],
      (from, row, columns) => build.step(from, row, build.stride(columns, 4)),
      8,
    )
    for (const [row, columns] of [
      [0, 7],
      [3, 7],
      [-2, 5],
    ]) {
      data.setInt32(base + row * columns * 4 + 8, 0, true)
      expect(run(base, row, columns)).toBe(base + row * columns * 4)
      expect(data.getInt32(base + row * columns * 4 + 8, true)).toBe(0x5eed)
    }
  })

  test('pointers compare', () => {
    for (const name of ['eq', 'ne'] as const) {
      const run = compile(
        build.codeFunction(
          'same',
          [
            ['a', 'ptr'],
            ['b', 'ptr'],
          ],
          (writer, a, b) => writer.return(build.compare(name, a, b)),
          { result: 'i32' },
        ),
      )
      expect([run(8, 8), run(8, 9)]).toEqual(name === 'eq' ? [1, 0] : [0, 1])
    }
  })

  test('accesses outside the memory trap', () => {
    const run = program(['pTo'], (writer, to) => writer.store('i32', to, build.i32(1)))
    expect(() => run(memory.buffer.byteLength - 3)).toThrow(/out of bounds/)
  })
})
