/** Tests the identification of kernels that only move data between ranks, whose time counts as communication. */
import { f32, flags, kernel, tensor } from 'arke'
import { expect, it } from 'vitest'
import { onlyMoves } from '../../src/ir/moves.ts'
import { lower } from '../../src/targets/cuda/stages.ts'
import { allGatherKernel } from '../../src/ops/collectives/allGather.ts'
import { allToAllKernel } from '../../src/ops/collectives/allToAll.ts'
import { broadcastKernel } from '../../src/ops/collectives/broadcast.ts'
import { reduceScatterKernel } from '../../src/ops/collectives/reduceScatter.ts'
import { ringAllReduce } from '../../src/ops/collectives/ring.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'

const params = { x: tensor(f32, 1), out: tensor(f32, 1), ready: flags() }

it.each([
  ['all-gather', allGatherKernel('f32').record({ world: 2, meta: { TILE: 16 } }), true],
  ['all-to-all', allToAllKernel('bf16').record({ world: 2, meta: { TILE: 16 } }), true],
  ['broadcast', broadcastKernel('f32').record({ world: 2, meta: { TILE: 16 } }), true],
  ['reduce-scatter', reduceScatterKernel('f32').record({ world: 2, meta: { TILE: 16 } }), false],
  ['all-reduce', ringAllReduce('f32').record({ world: 2, meta: { TILE: 16 } }), false],
  [
    'a barrier',
    kernel('meet', params, (t, { ready }) => {
      t.signal(ready)
      t.wait(ready)
    }).record({ world: 2 }),
    true,
  ],
  [
    'a poll of a flag',
    kernel('look', params, (t, { x, out, ready }) =>
      t.if(t.reached(ready), () => t.store(out.at([0]), t.load(x.at([0])))),
    ).record({ world: 2 }),
    true,
  ],
  [
    'a copy within a rank',
    kernel('copy', params, (t, { x, out }) => t.store(out.at([0]), t.load(x.at([0])))).record({ world: 2 }),
    false,
  ],
  [
    'a load from a peer, scaled',
    kernel('scale', params, (t, { x, out }) => t.store(out.at([0]), t.load(x.on(0).at([0])).mul(2))).record({
      world: 2,
    }),
    false,
  ],
  [
    'a load from a peer in another type',
    kernel('pull', params, (t, { x, out }) => t.store(out.at([0]), t.load(x.on(0).at([0])))).record({
      world: 2,
    }),
    true,
  ],
  [
    'a count of arrivals by the ranks that a mask chooses',
    kernel('count', params, (t, { x, ready }) => {
      t.atomic.add(x.on(0).at([0]), 1, { mask: t.rank.lt(2) })
      t.signal(ready)
    }).record({ world: 4 }),
    true,
  ],
  ['a product', gemmKernel('f32').record({ world: 2, meta: { BM: 16, BN: 16, BK: 16, stages: 2 } }), false],
])('%s: %o', (_, ir, expected) => {
  expect(onlyMoves(ir)).toBe(expected)
  expect(onlyMoves(lower(ir))).toBe(expected)
})
