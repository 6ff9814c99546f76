/** Tests the conversion between elements and bytes. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { dtypes, round, type StorageDType } from '../../src/ir/dtype.ts'
import { fillElements, readElements, writeElements } from '../../src/world/elements.ts'

const storage = Object.keys(dtypes).filter((name) => name !== 'bool') as StorageDType[]
const memory = new SharedArrayBuffer(4096)

describe.each(storage)('%s', (dtype) => {
  const { kind, min, max } = dtypes[dtype]
  const value =
    kind === 'float'
      ? fc.oneof(
          fc.double(),
          fc.double({ min: -4, max: 4 }),
          fc.constantFrom(0, -0, max, min, 2 * max, Infinity, -Infinity, NaN, 2 ** -16, 2 ** -9, 2 ** -130),
        )
      : fc.integer({ min: Math.max(min, -(2 ** 40)), max: Math.min(max, 2 ** 40) })

  it('reads what was written, rounded to the dtype', () => {
    fc.assert(
      fc.property(fc.array(value, { maxLength: 40 }), (values) => {
        writeElements(memory, 64, dtype, values)
        expect([...readElements(memory, 64, dtype, values.length)]).toEqual(
          values.map((x) => round(dtype, x)),
        )
      }),
      { seed: 5 },
    )
  })

  it('does the same for Float32Arrays', () => {
    fc.assert(
      fc.property(fc.array(kind === 'float' ? fc.float() : fc.integer({ min: 0, max: 100 })), (list) => {
        const values = Float32Array.from(list).slice(0, 40)
        writeElements(memory, 64, dtype, values)
        expect([...readElements(memory, 64, dtype, values.length)]).toEqual(
          [...values].map((x) => round(dtype, x)),
        )
      }),
      { seed: 6 },
    )
  })

  it('fills the elements and nothing beside them', () => {
    new Uint8Array(memory).fill(0xab)
    fillElements(memory, 64, dtype, 13, 3)
    expect([...readElements(memory, 64, dtype, 13)]).toEqual(new Array(13).fill(3))
    const bytes = new Uint8Array(memory)
    expect([bytes[63], bytes[64 + 13 * dtypes[dtype].bytes]]).toEqual([0xab, 0xab])
  })
})

it('have known bit patterns', () => {
  const bits = (dtype: StorageDType, value: number): number => {
    writeElements(memory, 0, dtype, [value])
    return dtypes[dtype].bytes === 1 ? new Uint8Array(memory)[0] : new Uint16Array(memory)[0]
  }
  expect([1, -2, 65504, 2 ** -24, Infinity].map((x) => bits('f16', x))).toEqual([
    0x3c00, 0xc000, 0x7bff, 1, 0x7c00,
  ])
  expect([1, -2, Infinity].map((x) => bits('bf16', x))).toEqual([0x3f80, 0xc000, 0x7f80])
  expect([1, 448, 1e9, 2 ** -9, NaN].map((x) => bits('f8e4m3', x))).toEqual([0x38, 0x7e, 0x7e, 1, 0x7f])
  expect([1, 57344, 1e9].map((x) => bits('f8e5m2', x))).toEqual([0x3c, 0x7b, 0x7c])
})
