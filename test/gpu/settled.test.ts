/**
 * Tests `Settled`: a launch may read a tensor before the previous kernel has ended only if no launch has written the
 * tensor since the world was idle. Launches that write a tensor must run after its early readers.
 */
import { describe, expect, it } from 'vitest'
import type { Launch } from '../../src/targets/gpu/device.ts'
import { Settled, type Accesses, type Line } from '../../src/targets/gpu/settled.ts'

const [a, b, c] = [{ name: 'a' }, { name: 'b' }, { name: 'c' }]

/** A fake queue that records its waits: the rank of the other queue, and the launch that it waits for. */
class FakeLine implements Line {
  launched = 0
  settled = 0
  barsEarlyReads = false
  readonly marks: number[] = []
  readonly followed: [rank: number, mark: number][] = []
  constructor(readonly rank: number) {}

  markBehind(launched: number): void {
    expect(launched).toBeLessThanOrEqual(this.launched)
    if ((this.marks.at(-1) ?? 0) < launched) this.marks.push(this.launched)
  }

  follow(other: FakeLine, launched: number): void {
    this.followed.push([other.rank, other.marks.find((mark) => mark >= launched)!])
  }
}

interface Given {
  readonly on?: FakeLine
  readonly early?: readonly object[]
  /** The tensors that the launch reads before the previous kernel ends, as several groups instead of one (`early`). */
  readonly groups?: readonly (readonly object[])[]
  readonly writes?: readonly object[]
  readonly writesElsewhere?: readonly object[]
}

/** A launch with one parameter. The object `told` holds the value of the parameter, which starts at 0. */
function launching({ on = new FakeLine(0), early, groups, writes = [], writesElsewhere = [] }: Given) {
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
    ...{ queue: on, kernel: { name: 'some' }, launch },
    ...{
      early: groups ?? (early ? [early] : []),
      writes: [...writes, ...writesElsewhere],
      writesElsewhere,
    },
    ...{ settledAt, settled: 0 },
  }
  return { part, told }
}

describe('a launch that can read early', () => {
  it('gets the permission once, if no launch writes its tensors', () => {
    const settled = new Settled()
    const { part, told } = launching({ early: [a, b], writes: [c] })
    for (let n = 0; n < 3; n++) settled.tell([part], true)
    expect(told).toEqual({ value: 1, times: 1 })
  })

  it('gets a separate permission for each group', () => {
    const settled = new Settled()
    const [reader, writer] = [launching({ groups: [[a], [b], [a, c]] }), launching({ writes: [a] })]
    settled.tell([reader.part], true)
    expect(reader.told.value).toBe(0b111)
    settled.tell([writer.part], true)
    settled.tell([reader.part], true)
    expect(reader.told.value).toBe(0b010)
    // A launch that writes tensors does not wait if these tensors were not read early.
    settled.clear()
    settled.tell([writer.part], true)
    settled.tell([reader.part], true)
    const line = reader.part.queue as FakeLine
    line.launched++
    const later = (memory: object) => launching({ on: new FakeLine(1), writesElsewhere: [memory] }).part
    expect(settled.holdBack([later(c)])).toBeUndefined()
    expect(settled.holdBack([later(b)])).toBeDefined()
  })

  it('loses the permission after a launch that writes its tensor, until the world is idle', () => {
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

  it('has no permission if it writes the tensor itself, or if its launch on another rank does', () => {
    const settled = new Settled()
    const own = launching({ early: [a], writes: [a] })
    settled.tell([own.part], true)
    expect(own.told.value).toBe(0)
    const [here, there] = [launching({ early: [b] }), launching({ early: [b], writes: [b] })]
    settled.tell([here.part, there.part], true)
    expect(here.told.value).toBe(0)
  })

  it('has no permission if it may not start early, or if other software uses the streams', () => {
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

/** Launches kernels in order, each after the calls of `holdBack` and `tell`. */
function launcher() {
  const settled = new Settled()
  const lines = [0, 1, 2].map((rank) => new FakeLine(rank))
  const launch = (...parts: Accesses[]) => {
    const held = settled.holdBack(parts)
    settled.tell(parts, true)
    for (const { queue } of parts) (queue as FakeLine).launched++
    return held
  }
  const part = (rank: number, given: Given) => launching({ on: lines[rank], ...given }).part
  const followed = () => lines.map((line) => line.followed)
  return { settled, lines, launch, part, followed }
}

describe('a launch that writes on other ranks', () => {
  it('runs after the launches that read the tensor early on those ranks', () => {
    const { launch, part, followed } = launcher()
    const reader = [0, 1, 2].map((rank) => part(rank, { early: [a] }))
    expect(launch(...reader)).toBeUndefined()
    const writer = [0, 1].map((rank) => part(rank, { writesElsewhere: [a] }))
    expect(launch(...writer)).toMatchObject({ writer: 'some', reader: 'some' })
    expect(followed()).toEqual([
      [
        [1, 1],
        [2, 1],
      ],
      [
        [0, 1],
        [2, 1],
      ],
      [],
    ])
  })

  it('waits for them only once if it is launched repeatedly', () => {
    const { launch, part, followed, lines } = launcher()
    const [reader, writer] = [part(0, { early: [a] }), part(1, { writesElsewhere: [a] })]
    for (let n = 0; n < 5; n++) launch(reader)
    for (let n = 0; n < 5; n++) {
      launch(writer)
      launch(reader)
    }
    expect(followed()).toEqual([[], [[0, 5]], []])
    expect(lines[0].marks).toEqual([5])
  })

  it('does not wait for launches after it, without early reads, that have ended, or on another rank', () => {
    const { settled, launch, part, followed, lines } = launcher()
    launch(part(1, { writesElsewhere: [a] }))
    launch(part(0, { early: [a] }))
    launch(part(1, { writesElsewhere: [a] }))
    settled.tell([part(0, { early: [b] })], false)
    lines[0].launched++
    launch(part(1, { writesElsewhere: [b] }))
    launch(part(0, { early: [c] }))
    // This launch writes only the copy of the rank that launches it.
    launch(part(1, { writes: [c] }))
    settled.clear()
    launch(part(0, { early: [a] }))
    lines[0].settled = lines[0].launched
    launch(part(1, { writesElsewhere: [a] }))
    expect(followed()).toEqual([[], [], []])
  })

  it('does not wait for launches behind the readers if an earlier writer was enqueued first', () => {
    const { launch, part, followed, lines } = launcher()
    // The ranks launch one after the other, and each writing launch waits for the flag of the other rank.
    launch(part(0, { early: [a, b] }))
    expect(launch(part(0, { writesElsewhere: [a] }))).toBeUndefined()
    launch(part(1, { early: [a] }))
    launch(part(1, { writesElsewhere: [a] }))
    launch(part(2, { writesElsewhere: [b] }))
    expect(followed()).toEqual([[], [[0, 1]], [[0, 1]]])
    expect(lines[0].marks).toEqual([1])
  })

  it('waits again for a later early read', () => {
    const { launch, part, followed } = launcher()
    const reader = part(0, { early: [a, b] })
    launch(reader)
    launch(part(1, { writesElsewhere: [a] }))
    launch(part(0, { early: [b] }))
    launch(part(1, { writesElsewhere: [b] }))
    expect(followed()[1]).toEqual([
      [0, 1],
      [0, 2],
    ])
  })

  it('holds back the graph that contains it', () => {
    const { settled, launch, part, lines } = launcher()
    launch(part(1, { early: [a] }))
    const parts = [part(1, { writesElsewhere: [a] }), part(2, { writesElsewhere: [a] })]
    expect(settled.holdBack(parts, lines[0])).toBeDefined()
    expect(lines.map(({ followed }) => followed)).toEqual([[[1, 1]], [], []])
  })
})

it('a writer on the same rank and another stream runs after the early reader', () => {
  const { settled, launch, part } = launcher()
  launch(part(0, { early: [a] }))
  expect(settled.holdBack([part(0, { writes: [a] })])).toBeUndefined()
  const other = new FakeLine(0)
  expect(settled.holdBack([launching({ on: other, writes: [a] }).part])).toBeDefined()
  expect(other.followed).toEqual([[0, 1]])
})

it('all work of other software runs after the early readers', () => {
  const { settled, launch, part, lines, followed } = launcher()
  launch(part(0, { early: [a, b] }), part(1, { early: [c] }))
  settled.forgo()
  settled.holdBackAll(lines[2])
  expect(followed()[2]).toEqual([
    [0, 1],
    [0, 1],
    [1, 1],
  ])
})

it('reports to the host which tensors a launch reads early', () => {
  const { settled, launch, part, lines } = launcher()
  launch(part(1, { early: [a] }))
  expect([0, 1].map((rank) => settled.isReadEarly(a, rank))).toEqual([false, true])
  expect(settled.isReadEarly(b, 1)).toBe(false)
  lines[1].settled = 1
  expect(settled.isReadEarly(a, 1)).toBe(false)
})

it('launching a graph changes no permission of its kernels, but records the tensors that they write', () => {
  const settled = new Settled()
  const [reader, writer] = [launching({ early: [a] }), launching({ writes: [a] })]
  settled.tell([reader.part], true)
  settled.note([reader.part, writer.part])
  expect(reader.told).toEqual({ value: 1, times: 1 })
  settled.tell([reader.part], true)
  expect(reader.told.value).toBe(0)
})
