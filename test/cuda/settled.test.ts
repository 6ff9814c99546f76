/** What may be read while the launch ahead still ends: only what no launch since the world idled writes. */
import { describe, expect, it } from 'vitest'
import type { Launch } from '../../src/targets/cuda/runtime.ts'
import { Settled, type Accesses } from '../../src/targets/cuda/settled.ts'

const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }]

interface Given {
  readonly early?: readonly object[]
  /** Instead of `early`, several that are told apart. */
  readonly groups?: readonly (readonly object[])[]
  readonly writes?: readonly object[]
  readonly writesElsewhere?: readonly object[]
}

/** A launch with one parameter, and what the kernel was told in it, 0 at first. */
function launching({ early, groups, writes = [], writesElsewhere = [] }: Given) {
  const told = { value: 0, times: 0 }
  const launch = {
    setArgument(position: number, { value }: { readonly value: number }) {
      expect(position).toBe(3)
      told.value = value
      told.times++
    },
  } as unknown as Launch
  const settledAt = early || groups ? 3 : -1
  const part: Accesses = {
    ...{
      launch,
      early: groups ?? (early ? [early] : []),
      writes: [...writes, ...writesElsewhere],
      writesElsewhere,
    },
    ...{ settledAt, settled: 0 },
  }
  return { part, told }
}

describe('a launch that copies early', () => {
  it('is told so where nothing writes what it copies, once', () => {
    const settled = new Settled()
    const { part, told } = launching({ early: [a, b], writes: [c] })
    for (let n = 0; n < 3; n++) settled.tell([part], true)
    expect(told).toEqual({ value: 1, times: 1 })
  })

  it('is told of each group by itself', () => {
    const settled = new Settled()
    const [reader, writer] = [launching({ groups: [[a], [b], [a, c]] }), launching({ writes: [a] })]
    settled.tell([reader.part], true)
    expect(reader.told.value).toBe(0b111)
    settled.tell([writer.part], true)
    settled.tell([reader.part], true)
    expect(reader.told.value).toBe(0b010)
    // Of what was not read early nobody has to be held back.
    expect(settled.disturb([launching({ writesElsewhere: [b] }).part], true)).toBe(true)
    settled.clear()
    settled.tell([writer.part], true)
    settled.tell([reader.part], true)
    expect(settled.disturb([launching({ writesElsewhere: [c] }).part], true)).toBe(false)
  })

  it('is told otherwise after a launch that writes it, until nothing runs', () => {
    const settled = new Settled()
    const [reader, writer] = [launching({ early: [a, b] }), launching({ writes: [b] })]
    settled.tell([reader.part], true)
    settled.tell([writer.part], true)
    settled.tell([reader.part], true)
    expect(reader.told.value).toBe(0)
    settled.clear()
    settled.tell([reader.part], true)
    expect(reader.told.value).toBe(1)
  })

  it('is told otherwise where it writes that itself, or a part on another rank does', () => {
    const settled = new Settled()
    const own = launching({ early: [a], writes: [a] })
    settled.tell([own.part], true)
    expect(own.told.value).toBe(0)
    const [here, there] = [launching({ early: [b] }), launching({ early: [b], writes: [b] })]
    settled.tell([here.part, there.part], true)
    expect(here.told.value).toBe(0)
  })

  it('is told otherwise where it may not start early, and where others use the streams', () => {
    const settled = new Settled()
    const { part, told } = launching({ early: [a] })
    settled.tell([part], true)
    settled.tell([part], false)
    expect(told.value).toBe(0)
    settled.tell([part], true)
    expect(told.value).toBe(1)
    settled.forgo()
    settled.tell([part], true)
    expect(told.value).toBe(0)
  })
})

describe('a launch that writes on other ranks', () => {
  it('disturbs launches that read that early, until nothing runs', () => {
    const settled = new Settled()
    const writer = launching({ writesElsewhere: [a] })
    expect(settled.disturb([writer.part], true)).toBe(false)
    settled.tell([launching({ early: [a] }).part], true)
    expect(settled.disturb([writer.part], true)).toBe(true)
    settled.clear()
    expect(settled.disturb([writer.part], true)).toBe(false)
  })

  it('does not disturb those that read nothing early', () => {
    const settled = new Settled()
    settled.tell([launching({ early: [a] }).part], false)
    expect(settled.disturb([launching({ writesElsewhere: [a] }).part], true)).toBe(false)
  })
})

it('is disturbed by a write on its own rank if that is on another stream', () => {
  const settled = new Settled()
  settled.tell([launching({ early: [a] }).part], true)
  const writer = launching({ writes: [a] })
  expect(settled.disturb([writer.part], true)).toBe(false)
  expect(settled.disturb([writer.part], false)).toBe(true)
})

it('is not told again when a graph that has it is launched, only what that writes is noted', () => {
  const settled = new Settled()
  const [reader, writer] = [launching({ early: [a] }), launching({ writes: [a] })]
  settled.tell([reader.part], true)
  settled.note([reader.part, writer.part])
  expect(reader.told).toEqual({ value: 1, times: 1 })
  settled.tell([reader.part], true)
  expect(reader.told.value).toBe(0)
})
