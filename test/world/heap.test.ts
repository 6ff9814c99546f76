/** Tests the allocator of a rank's heap. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { bytesText, granule, Heap, OutOfHeap } from '../../src/world/heap.ts'

const size = 1 << 20

type Step = { readonly bytes: number; readonly power: number } | { readonly free: number }
const steps = fc.array(
  fc.oneof(
    { weight: 3, arbitrary: fc.record({ bytes: fc.nat(60_000), power: fc.integer({ min: 6, max: 16 }) }) },
    { weight: 2, arbitrary: fc.record({ free: fc.nat(1000) }) },
  ),
  { maxLength: 120 },
)

interface Taken {
  readonly offset: number
  readonly bytes: number
  readonly alignment: number
}

/**
 * Applies the steps to a heap and returns the allocations that were not freed. Allocations that do not fit are skipped.
 */
function play(heap: Heap, list: readonly Step[], see: (live: readonly Taken[]) => void = () => {}): Taken[] {
  const live: Taken[] = []
  for (const step of list) {
    if ('free' in step) {
      if (live.length > 0) heap.free(live.splice(step.free % live.length, 1)[0].offset)
    } else {
      const alignment = 2 ** step.power
      try {
        live.push({ offset: heap.allocate(step.bytes, alignment), bytes: step.bytes, alignment })
      } catch (error) {
        expect(error).toBeInstanceOf(OutOfHeap)
      }
    }
    see(live)
  }
  return live
}

describe('the heap', () => {
  it('never allocates a byte twice, and respects alignment and bounds', () => {
    fc.assert(
      fc.property(steps, (list) => {
        play(new Heap(size), list, (live) => {
          const sorted = [...live].sort((a, b) => a.offset - b.offset)
          sorted.forEach(({ offset, bytes, alignment }, at) => {
            expect(offset % alignment).toBe(0)
            const end = sorted[at + 1]?.offset ?? size
            expect(offset + Math.max(bytes, 1)).toBeLessThanOrEqual(end)
          })
        })
      }),
      { seed: 1, numRuns: 200 },
    )
  })

  it('is one piece again when all is freed', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const heap = new Heap(size)
        for (const { offset } of play(heap, list)) heap.free(offset)
        expect([heap.used, heap.pieces, heap.largest]).toEqual([0, 1, size])
        expect(heap.allocate(size)).toBe(0)
      }),
      { seed: 2, numRuns: 200 },
    )
  })

  it('returns the same offsets for the same calls', () => {
    fc.assert(
      fc.property(steps, (list) => {
        expect(play(new Heap(size), list)).toEqual(play(new Heap(size), list))
      }),
      { seed: 3, numRuns: 100 },
    )
  })

  it('counts what is used in whole granules', () => {
    fc.assert(
      fc.property(steps, (list) => {
        const heap = new Heap(size)
        const live = play(heap, list)
        const used = live.reduce(
          (sum, { bytes }) => sum + Math.max(Math.ceil(bytes / granule), 1) * granule,
          0,
        )
        expect(heap.used).toBe(used)
      }),
      { seed: 4, numRuns: 100 },
    )
  })

  it('takes the smallest block that fits', () => {
    const heap = new Heap(size)
    const blocks = [4096, 64, 1024, 64, 2048, 64].map((bytes) => heap.allocate(bytes))
    heap.free(blocks[0])
    heap.free(blocks[2])
    heap.free(blocks[4])
    expect(heap.allocate(1500)).toBe(blocks[4])
    expect(heap.allocate(900)).toBe(blocks[2])
    expect(heap.allocate(4096)).toBe(blocks[0])
  })

  it('reuses memory: a program that allocates and frees forever does not grow', () => {
    const heap = new Heap(size)
    for (let n = 0; n < 10_000; n++) heap.free(heap.allocate(1000 + (n % 7) * 100))
    expect(heap.reached).toBeLessThan(2048)
  })

  it('reports the requested and the available sizes', () => {
    const heap = new Heap(size)
    const first = heap.allocate(300_000)
    heap.allocate(400_000)
    heap.free(first)
    expect(() => heap.allocate(500_000)).toThrow(
      '488.3 KiB do not fit the heap of 1 MiB: 390.8 KiB are used, 633.3 KiB free, 340.3 KiB in one piece',
    )
  })

  it('rejects invalid arguments', () => {
    const heap = new Heap(size)
    expect(() => heap.allocate(-1)).toThrow('an allocation of -1 bytes')
    expect(() => heap.allocate(64, 96)).toThrow('a power of two')
    expect(() => heap.allocate(64, 131_072)).toThrow('up to 65536')
    expect(() => heap.free(64)).toThrow('there is no allocation at 64')
  })
})

it('formats numbers of bytes to four digits', () => {
  expect([0, 1023, 1024, 1536, 5 * 2 ** 20, 2 ** 32].map(bytesText)).toEqual([
    '0 bytes',
    '1023 bytes',
    '1 KiB',
    '1.5 KiB',
    '5 MiB',
    '4 GiB',
  ])
})
