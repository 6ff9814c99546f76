// Variants of Flash Decode and the collectives over two virtual ranks on a device, several launches each, against float64.

import { allGatherKernel } from '../../src/ops/collectives/allGather.ts'
import { allToAllKernel } from '../../src/ops/collectives/allToAll.ts'
import { broadcastKernel } from '../../src/ops/collectives/broadcast.ts'
import { oneShotAllReduce } from '../../src/ops/collectives/oneShot.ts'
import { reduceScatterKernel } from '../../src/ops/collectives/reduceScatter.ts'
import { ringAllReduce } from '../../src/ops/collectives/ring.ts'
import { twoShotAllReduce } from '../../src/ops/collectives/twoShot.ts'
import { fusedCoarseKernel, fusedKernel } from '../../src/ops/flashDecode/fusedForAll.ts'
import * as ladder from '../../src/ops/flashDecode/ladder.ts'
import type { OperandDType } from '../../src/ops/operation.ts'
import type { LoadedKernel } from '../../src/targets/cuda/launch.ts'
import type { Device } from '../../src/targets/cuda/runtime.ts'
import {
  attentionOf,
  Bench,
  bounds,
  randomNumbers,
  randomShard,
  relative,
  runAll,
  type Check,
  type Judge,
} from './probeBench.ts'

const RANKS = 2
const LAUNCHES = 3

export function runVariants(device: Device, judge: Judge): void {
  runAll([checkVariants, checkCollectives], device, judge)
}

/** Ragged and empty shards; both slots of the inboxes are used again. */
function checkVariants(device: Device, judge: Judge): Check[] {
  const shape = { batch: 2, heads: 2, G: 8, D: 128, capacity: 200 }
  const { batch, heads, G, D, capacity } = shape
  const splits = 2
  const parts = splits * batch * heads
  const names = ['bsp', 'gather-kernel', 'fine-grained', 'fused-coarse', 'fused'] as const
  const cases = (['bf16', 'f16'] as const).flatMap((dtype) => names.map((name) => ({ dtype, name })))
  return cases.map(({ dtype, name }) => () => {
    const bench = new Bench(device, RANKS)
    const slots = name === 'bsp' || name === 'gather-kernel' ? 1 : 2
    bench.tensor('q', dtype, [batch, heads, G, D]).tensor('out', dtype, [batch, heads, G, D])
    bench.tensor('k', dtype, [batch, heads, capacity, D]).tensor('v', dtype, [batch, heads, capacity, D])
    bench.tensor('own', 'f32', [1, parts, G, D]).tensor('ownStats', 'f32', [1, parts, 2, G])
    bench
      .tensor('all', 'f32', [slots, RANKS * parts, G, D])
      .tensor('allStats', 'f32', [slots, RANKS * parts, 2, G])
    bench.tensor('lengths', 'i32', [batch])
    for (const flags of ['entered', 'left', 'arrived', 'done']) bench.flags(flags, [RANKS])
    bench.flags('arrivedParts', [RANKS * splits, batch, heads])
    const { args } = bench
    const meta = { G, D, BN: 64, splits, stages: 2, scale: 1 / Math.sqrt(D) }
    const extents = { G, D, splits }
    const own = { sums: args.own, stats: args.ownStats }
    const gathering = { ...own, allSums: args.all, allStats: args.allStats }
    const gathered = { sums: args.all, stats: args.allStats, out: args.out, done: args.done }
    const fine = { arrived: args.arrivedParts }
    const cache = { q: args.q, k: args.k, v: args.v, lengths: args.lengths }
    const world = RANKS
    const attend = [ladder.attendKernel(dtype).record({ world, meta }), { ...cache, ...own }] as const
    const meeting = { entered: args.entered, left: args.left, arrived: args.arrived, done: args.done }
    const variants = {
      bsp: () => [
        attend,
        [ladder.bulkGatherKernel.record({ world, meta: { G, D } }), { ...gathering, ...meeting }] as const,
        [ladder.bulkCombineKernel(dtype).record({ world, meta: extents }), gathered] as const,
      ],
      'gather-kernel': () => [
        attend,
        [ladder.gatherKernel.record({ world, meta: { G, D } }), { ...gathering, ...meeting }] as const,
        [ladder.combineKernel(dtype).record({ world, meta: extents }), gathered] as const,
      ],
      'fine-grained': () => [
        attend,
        [ladder.fineGrainedGatherKernel.record({ world, meta: extents }), { ...gathering, ...fine }] as const,
        [
          ladder.fineGrainedCombineKernel(dtype).record({ world, meta: extents }),
          { ...gathered, ...fine },
        ] as const,
      ],
      'fused-coarse': () => [
        [
          fusedCoarseKernel(dtype).record({ world, meta }),
          { ...cache, ...gathered, arrived: args.arrived },
        ] as const,
      ],
      fused: () => [
        [fusedKernel(dtype).record({ world, meta }), { ...cache, ...gathered, ...fine }] as const,
      ],
    }
    const steps = variants[name]().map(([ir, given]) => ({ loaded: bench.load(ir, given), given }))
    const errors: number[] = []
    for (let launch = 0; launch < LAUNCHES; launch++) {
      const q = randomNumbers(dtype, batch * heads * G * D, launch + 1)
      const shards = [0, 1].map((rank) =>
        randomShard(dtype, [rank === 0 ? 0 : 77, 200 - 60 * launch], shape, 10 * launch + rank + 1),
      )
      shards.forEach(({ k, v, lengths }, rank) => {
        bench.write('q', q, rank)
        bench.write('k', k, rank)
        bench.write('v', v, rank)
        bench.write('lengths', lengths, rank)
        bench.poison('out', rank)
      })
      bench.start(steps, 5)
      const reference = attentionOf(q, shards, shape)
      for (let rank = 0; rank < RANKS; rank++) errors.push(relative(bench.read('out', rank), reference))
    }
    const worst = Math.max(...errors)
    judge(`decode ${name} ${dtype}, ${RANKS} ranks`, worst < bounds[dtype], { worst })
    bench.close()
  })
}

/** Vectors that end inside a tile. */
function checkCollectives(device: Device, judge: Judge): Check[] {
  const n = 5000
  const TILE = 512
  const shareTiles = Math.ceil(n / (TILE * RANKS))
  const at = (rank: number, launch: number): number => 100 * launch + rank + 1
  interface Case {
    readonly name: string
    readonly kernel: (bench: Bench, dtype: OperandDType) => LoadedKernel
    /** Elements of x and of out on each rank; undefined: x is the result. */
    readonly x: readonly number[]
    readonly out?: readonly number[]
    readonly expected: (xs: readonly Float64Array[], rank: number) => ArrayLike<number>
    readonly prepare: (bench: Bench, dtype: OperandDType) => void
  }
  const world = RANKS
  const meta = { TILE }
  const sum = (xs: readonly ArrayLike<number>[]): Float64Array =>
    Float64Array.from({ length: n }, (_, i) => xs.reduce((total, x) => total + x[i], 0))
  const ready = (bench: Bench): void => void bench.flags('ready', [RANKS]).flags('arrived', [RANKS])
  const part = (x: Float64Array, rank: number): Float64Array => x.subarray(rank * n, (rank + 1) * n)
  const cases: Case[] = [
    {
      name: 'allGather',
      kernel: (bench, dtype) => bench.load(allGatherKernel(dtype).record({ world, meta })),
      x: [n],
      out: [RANKS, n],
      expected: (xs) => xs.flatMap((x) => [...x]),
      prepare: ready,
    },
    {
      name: 'allToAll',
      kernel: (bench, dtype) => bench.load(allToAllKernel(dtype).record({ world, meta })),
      x: [RANKS, n],
      out: [RANKS, n],
      expected: (xs, rank) => xs.flatMap((x) => [...part(x, rank)]),
      prepare: ready,
    },
    {
      name: 'broadcast',
      kernel: (bench, dtype) => bench.load(broadcastKernel(dtype).record({ world, meta })),
      x: [n],
      expected: ([, root]) => root,
      prepare: (bench) => {
        bench.flags('ready', [RANKS]).flags('arrived', [])
        bench.args.root = 1
      },
    },
    {
      name: 'oneShotAllReduce',
      kernel: (bench, dtype) => bench.load(oneShotAllReduce(dtype).record({ world, meta })),
      x: [n],
      expected: sum,
      prepare: (bench, dtype) =>
        void bench.tensor('inbox', dtype, [2, RANKS, n]).flags('arrived', [RANKS, Math.ceil(n / TILE)]),
    },
    {
      name: 'twoShotAllReduce',
      kernel: (bench, dtype) => bench.load(twoShotAllReduce(dtype).record({ world, meta })),
      x: [n],
      expected: sum,
      prepare: (bench, dtype) => {
        bench.tensor('inbox', dtype, [RANKS, shareTiles * TILE])
        bench.flags('arrived', [RANKS, shareTiles]).flags('finished', [RANKS, shareTiles])
      },
    },
    {
      name: 'ringAllReduce',
      kernel: (bench, dtype) => bench.load(ringAllReduce(dtype).record({ world, meta })),
      x: [n],
      expected: sum,
      prepare: (bench) => {
        bench.tensor('inbox', 'f32', [RANKS - 1, shareTiles * TILE])
        bench.flags('partial', [RANKS - 1, shareTiles]).flags('finished', [RANKS - 1, shareTiles])
      },
    },
    {
      name: 'reduceScatter',
      kernel: (bench, dtype) => bench.load(reduceScatterKernel(dtype).record({ world, meta })),
      x: [RANKS, n],
      out: [n],
      expected: (xs, rank) => sum(xs.map((x) => part(x, rank))),
      prepare: (bench, dtype) =>
        void bench.tensor('inbox', dtype, [2, RANKS, n]).flags('arrived', [RANKS, Math.ceil(n / TILE)]),
    },
  ]
  return cases.flatMap((one) =>
    (['f32', 'bf16'] as const).map((dtype) => () => {
      const bench = new Bench(device, RANKS)
      bench.tensor('x', dtype, one.x)
      if (one.out) bench.tensor('out', dtype, one.out)
      one.prepare(bench, dtype)
      const loaded = one.kernel(bench, dtype)
      const errors: number[] = []
      for (let launch = 0; launch < LAUNCHES; launch++) {
        const count = one.x.reduce((total, extent) => total * extent, 1)
        const xs = [0, 1].map((rank) => randomNumbers(dtype, count, at(rank, launch)))
        xs.forEach((x, rank) => {
          bench.write('x', x, rank)
          if (one.out) bench.poison('out', rank)
        })
        bench.run([loaded], 4)
        for (let rank = 0; rank < RANKS; rank++)
          errors.push(relative(bench.read(one.out ? 'out' : 'x', rank), one.expected(xs, rank)))
      }
      const worst = Math.max(...errors)
      judge(`${one.name} ${dtype}, ${RANKS} ranks`, worst < bounds[dtype], { worst })
      bench.close()
    }),
  )
}
