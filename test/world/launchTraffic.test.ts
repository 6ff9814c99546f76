/** Tests the memory traffic of a launch, with ranks that take part or not, and with different tensors per rank. */
import { f32, kernel, tensor } from 'arke'
import { describe, expect, it } from 'vitest'
import { givenTo, LaunchTraffic } from '../../src/world/launchTraffic.ts'
import type { PackedTensor, SymmetricTensor } from '../../src/world/world.ts'

const WORLD = 3
/** Every rank stores its tile on the next rank, and each program reads its own tile twice. */
const pass = kernel('pass', { x: tensor(f32, 1), y: tensor(f32, 1) }, (t, { x, y }) => {
  t.for(2, () => t.put(x.tile([0], [16]), y.on(t.rank.add(1).mod(t.world)).tile([0], [16])))
})
const ir = pass.record({ world: WORLD })
const TILE = 64

const made = (name: string): SymmetricTensor => ({ kind: 'tensor', name, dtype: 'f32', shape: [32] })
const ofRank = (traffic: LaunchTraffic, given: ReturnType<typeof givenTo>, rank: number) =>
  traffic.of(given, rank).map(({ name, size, written, read }) => [name, size, written, read])

describe('traffic of a launch', () => {
  it('counts per rank the bytes that all ranks write there and the bytes that the rank reads itself', () => {
    const given = givenTo(ir, { x: made('x'), y: made('y') }, [0, 1, 2], [1, 2, 0])
    const traffic = new LaunchTraffic()
    expect(ofRank(traffic, given, 0)).toEqual([['x', 128, 0, 2 * TILE]])
    expect(ofRank(traffic, given, 1)).toEqual([
      ['x', 128, 0, 4 * TILE],
      ['y', 128, 2 * TILE, 0],
    ])
    expect(ofRank(traffic, given, 2)).toEqual([['y', 128, 4 * TILE, 0]])
    // The traffic is computed once for all launches with the same arguments.
    expect(traffic.of(given, 1)).toBe(traffic.of(given, 1))
  })

  it('handles ranks that do not take part, and tensors that differ by rank', () => {
    const [x, odd, even] = [made('x'), made('odd'), made('even')]
    const y = (rank: number): SymmetricTensor => (rank % 2 === 0 ? even : odd)
    const given = givenTo(ir, { x, y }, [0, 1], [1, 1])
    const traffic = new LaunchTraffic()
    expect(ofRank(traffic, given, 1)).toEqual([
      ['x', 128, 0, 2 * TILE],
      ['even', 128, 2 * TILE, 0],
    ])
    expect(ofRank(traffic, given, 2)).toEqual([['odd', 128, 2 * TILE, 0]])
  })

  it('numbers allocations: the same one in two launches has one number, packed or not', () => {
    const [x, y, z] = [made('x'), made('y'), made('z')]
    const packed: PackedTensor = { kind: 'packed', name: 'y', dtype: 'f32', shape: [32], source: y }
    const traffic = new LaunchTraffic()
    const numbers = (args: { x: SymmetricTensor | PackedTensor; y: SymmetricTensor }): number[] =>
      traffic.of(givenTo(ir, args, [0, 1, 2], [1, 1, 1]), 0).map(({ tensor }) => tensor)
    const [first, second] = [numbers({ x, y }), numbers({ x: packed, y: z })]
    expect(new Set([...first, ...second]).size).toBe(3)
    expect(second[0]).toBe(first[1])
  })
})
