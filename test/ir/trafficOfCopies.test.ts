/**
 * The bytes that a launch writes to each rank's copy, and that each rank reads from its own copy, compared with sums
 * worked out by hand.
 */
import { f32, i32, kernel, scalar, tensor } from 'arke'
import { describe, expect, it } from 'vitest'
import { totalTraffic, trafficOfCopies } from '../../src/ir/traffic.ts'

const BYTES = Float32Array.BYTES_PER_ELEMENT
/**
 * Program p of rank r puts its tile into the copies of ranks r + 1 to r + p + 1. The kernel then rewrites a tile of its
 * own `factor` times.
 */
const spread = kernel(
  'spread',
  { x: tensor(f32, 1), y: tensor(f32, 1), factor: scalar(i32) },
  (t, { x, y, factor }) => {
    t.for({ from: 1, to: t.program.add(2) }, (step) => {
      t.put(x.tile([t.program], [8]), y.on(t.rank.add(step).mod(t.world)).tile([t.rank], [8]))
    })
    t.for(factor, () => t.store(y.tile([t.rank], [8]), t.load(y.tile([t.rank], [8]))))
  },
)

describe('traffic of copies', () => {
  it.each([
    [1, () => 1],
    [3, () => 2],
    [4, (rank: number) => rank],
  ] as const)('on %i ranks', (world, programs) => {
    const ir = spread.record({ world })
    const launch = {
      extents: { x: [64], y: [64] },
      scalars: { factor: (rank: number) => rank + 1 },
      programs,
    }
    const ranks = Array.from({ length: world }, (_, rank) => rank)
    const written = ranks.map(() => 0)
    const read = { x: ranks.map(() => 0), y: ranks.map(() => 0) }
    for (const rank of ranks)
      for (let program = 0; program < programs(rank); program++) {
        for (let step = 1; step < program + 2; step++) {
          written[(rank + step) % world] += 8 * BYTES
          read.x[rank] += 8 * BYTES
        }
        written[rank] += (rank + 1) * 8 * BYTES
        read.y[rank] += (rank + 1) * 8 * BYTES
      }
    const copies = trafficOfCopies(ir, launch)
    expect(copies.get('x')).toEqual(ranks.map((rank) => ({ written: 0, readLocal: read.x[rank] })))
    expect(copies.get('y')).toEqual(
      ranks.map((rank) => ({ written: written[rank], readLocal: read.y[rank] })),
    )

    // The sum over all copies equals the total traffic of the launch.
    const total = totalTraffic(ir, launch).tensors.get('y')!
    expect(written.reduce((sum, bytes) => sum + bytes, 0)).toBe(total.writtenLocal + total.writtenRemote)
  })

  it('counts only the programs that could be followed within the limit', () => {
    const elementwise = kernel('elementwise', { x: tensor(f32, 1) }, (t, { x }) => {
      t.for(x.dim(0), (i) => t.store(x.at([i]), 0))
    })
    const launch = { extents: { x: [1000] }, programs: 1 }
    const written = (limit?: number): number =>
      trafficOfCopies(elementwise.record({ world: 1 }), launch, limit).get('x')![0].written
    expect(written()).toBe(1000 * BYTES)
    expect(written(5000)).toBe(1000 * BYTES)
    expect(written(500)).toBe(0)
  })
})
