/**
 * Every kernel that Arke ships, emitted for eight ranks at shapes of each class: from one token to many rows, from one
 * to many query heads per KV head, and rows that do or do not fill whole tiles.
 */
import { lower } from '../../src/targets/cuda/stages.ts'
import type { Kernel, Meta } from '../../src/lang/kernel.ts'
import { gatherKernel } from '../../src/ops/gathered/gather.ts'
import { fusedByShardKernel, partsOf } from '../../src/ops/allGatherGemm/fusedByShard.ts'
import { fusedByTileKernel } from '../../src/ops/allGatherGemm/fusedByTile.ts'
import { pullKernel } from '../../src/ops/allGatherGemm/pullInPlace.ts'
import { pullStagedKernel, stagedParts } from '../../src/ops/allGatherGemm/pullStaged.ts'
import { pushKernels } from '../../src/ops/allGatherGemm/push.ts'
import { allGatherKernel } from '../../src/ops/collectives/allGather.ts'
import { allToAllKernel } from '../../src/ops/collectives/allToAll.ts'
import { barrierKernel } from '../../src/ops/collectives/barrier.ts'
import { broadcastKernel } from '../../src/ops/collectives/broadcast.ts'
import { oneShotAllReduce } from '../../src/ops/collectives/oneShot.ts'
import { reduceScatterKernel } from '../../src/ops/collectives/reduceScatter.ts'
import { ringAllReduce } from '../../src/ops/collectives/ring.ts'
import { twoShotAllReduce } from '../../src/ops/collectives/twoShot.ts'
import { fusedByOwnerKernel } from '../../src/ops/flashDecode/fusedByOwner.ts'
import { fusedFetchingKernel } from '../../src/ops/flashDecode/fusedFetching.ts'
import { fusedCoarseKernel, fusedKernel as fusedDecodeKernel } from '../../src/ops/flashDecode/fusedForAll.ts'
import * as ladder from '../../src/ops/flashDecode/ladder.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { operandDTypes, type OperandDType } from '../../src/operation/definition.ts'
import { scratchTiles } from '../../src/ops/tiles.ts'
import { oneEach } from '../../src/world/machine.ts'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf, type EmitFacts, type EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'

export interface Shipped {
  readonly name: string
  emit(options?: Pick<EmitFacts, 'record'>): EmittedKernel
}

const WORLD = 8
type Shapes = Readonly<Record<string, readonly number[]>>

function shipped(name: string, kernel: Pick<Kernel, 'record'>, meta: Meta, shapes: Shapes): Shipped {
  const tensors = Object.fromEntries(
    Object.entries(shapes).map(([tensor, shape]) => [tensor, factsOf(shape)]),
  )
  const emitted = new Map<boolean, EmittedKernel>()
  return {
    name,
    // Several test files use the emitted text of these kernels.
    emit({ record = false } = {}) {
      const known = emitted.get(record)
      if (known) return known
      const text = emitCuda(lower(kernel.record({ world: WORLD, meta })), { tensors, record })
      emitted.set(record, text)
      return text
    },
  }
}

function products(dtype: OperandDType, M: number): Shipped[] {
  const [N, K] = [3584, 8192]
  const tiles = { ...scratchTiles(oneEach(h200, WORLD), { m: M, n: N, dtype }) }
  const { BM, BK } = tiles
  const at = `${dtype} M=${M}`
  const sharded = (['K', 'M'] as const).flatMap((shard) => {
    const local = shard === 'K' ? [M, K / WORLD] : [Math.ceil(M / WORLD), K]
    const gathered = shard === 'K' ? [M, K] : [local[0] * WORLD, K]
    const shapes = { a: local, b: [K, N], c: [M, N], inbox: [2, WORLD, ...local], gathered }
    const meta = { ...tiles, aligned: local[0] % BM === 0 }
    const choice = { dtype, shard }
    const { send, multiply } = pushKernels(choice)
    return [
      shipped(`all-gather ${shard} ${at}`, gatherKernel(choice), { BM, BK }, shapes),
      shipped(`pull ${shard} ${at}`, pullKernel(choice), meta, shapes),
      shipped(`push, send ${shard} ${at}`, send, { BM, BK }, shapes),
      shipped(`push, multiply ${shard} ${at}`, multiply, meta, shapes),
      shipped(`fused ${shard} ${at}`, fusedByTileKernel(choice), { ...meta, senders: 0 }, shapes),
      shipped(`fused, teams ${shard} ${at}`, fusedByTileKernel(choice), { ...meta, senders: 2 }, shapes),
    ]
  })
  const parts = partsOf([M, K / WORLD], { BM })
  const matrices = { b: [K, N], c: [M, N] }
  const mail = { a: [M, K / WORLD], inbox: [2, WORLD, M, K / WORLD] }
  return [
    shipped(`gemm ${at}`, gemmKernel(dtype), tiles, { a: [M, K], ...matrices }),
    ...[true, false].map((inOrder) =>
      shipped(
        `fused by shard${inOrder ? '' : ', as they come'} ${at}`,
        fusedByShardKernel({ dtype, parts, inOrder }),
        tiles,
        { ...mail, ...matrices },
      ),
    ),
    shipped(
      `pull staged ${at}`,
      pullStagedKernel({ dtype, parts: stagedParts([M, K / WORLD], { BM }) }),
      tiles,
      { a: mail.a, outbox: [2, M, K / WORLD], ...matrices },
    ),
    ...sharded,
  ]
}

interface DecodeShape {
  readonly batch: number
  readonly heads: number
  readonly G: number
  readonly tokens: number
  readonly BN: number
  readonly splits: number
  /** The number of programs for stream-K. */
  readonly programs?: number
}

function decodes(dtype: OperandDType, shape: DecodeShape): Shipped[] {
  const { batch, heads, G, tokens, BN, splits, programs = 0 } = shape
  const D = 128
  const own = splits * batch * heads
  const parts = WORLD * own
  const rows = [batch, heads, G, D]
  const cache = [batch, heads, tokens, D]
  const [sums, stats] = [
    [2, parts, G, D],
    [2, parts, 2, G],
  ]
  const shapes = {
    ...{ q: rows, k: cache, v: cache, out: rows, lengths: [batch] },
    ...{ sums, stats, allSums: sums, allStats: stats, inbox: sums },
  }
  const outbox = { sums: [2, own, G, D], stats: [2, own, 2, G] }
  const meta = { G, D, BN, splits, programs, stages: 3 }
  const extents = { G, D, splits }
  const at = `${dtype} batch=${batch} G=${G} BN=${BN} splits=${splits}${programs > 0 ? ` programs=${programs}` : ''}`
  const kernels = [
    shipped(`attend ${at}`, ladder.attendKernel(dtype), meta, shapes),
    shipped(`bulk combine ${at}`, ladder.bulkCombineKernel(dtype), extents, shapes),
    shipped(`combine ${at}`, ladder.combineKernel(dtype), extents, shapes),
    shipped(`fine-grained combine ${at}`, ladder.fineGrainedCombineKernel(dtype), extents, shapes),
    shipped(`decode, coarse ${at}`, fusedCoarseKernel(dtype), meta, shapes),
    shipped(`decode, fused ${at}`, fusedDecodeKernel(dtype), meta, shapes),
    shipped(`decode, fused by owner ${at}`, fusedByOwnerKernel(dtype), meta, shapes),
    shipped(`decode, fetching ${at}`, fusedFetchingKernel(dtype), meta, { ...shapes, ...outbox }),
  ]
  if (dtype !== 'bf16' || programs > 0) return kernels
  return [
    ...kernels,
    shipped(`bulk gather ${at}`, ladder.bulkGatherKernel, { G, D }, shapes),
    shipped(`gather ${at}`, ladder.gatherKernel, { G, D }, shapes),
    shipped(`fine-grained gather ${at}`, ladder.fineGrainedGatherKernel, extents, shapes),
  ]
}

function collectives(dtype: OperandDType, n: number): Shipped[] {
  const at = `${dtype} n=${n}`
  const each = [WORLD, n]
  const inbox = [2, WORLD, n]
  return [
    shipped(`allGather ${at}`, allGatherKernel(dtype), {}, { x: [n], out: each }),
    shipped(`allToAll ${at}`, allToAllKernel(dtype), {}, { x: each, out: each }),
    shipped(`broadcast ${at}`, broadcastKernel(dtype), {}, { x: [n] }),
    shipped(`oneShotAllReduce ${at}`, oneShotAllReduce(dtype), {}, { x: [n], inbox }),
    shipped(`twoShotAllReduce ${at}`, twoShotAllReduce(dtype), {}, { x: [n], inbox: each }),
    shipped(`ringAllReduce ${at}`, ringAllReduce(dtype), {}, { x: [n], inbox: [WORLD - 1, n] }),
    shipped(`reduceScatter ${at}`, reduceScatterKernel(dtype), {}, { x: each, out: [n], inbox }),
  ]
}

const decodeShapes: readonly DecodeShape[] = [
  { batch: 1, heads: 12, G: 8, tokens: 8192, BN: 64, splits: 1 },
  { batch: 1, heads: 12, G: 8, tokens: 524288, BN: 128, splits: 16 },
  { batch: 16, heads: 8, G: 16, tokens: 16384, BN: 64, splits: 2 },
  { batch: 1, heads: 8, G: 4, tokens: 16384, BN: 64, splits: 1 },
  { batch: 3, heads: 8, G: 1, tokens: 1001, BN: 64, splits: 1 },
  { batch: 1, heads: 12, G: 8, tokens: 16384, BN: 128, splits: 2, programs: 16 },
  { batch: 1, heads: 12, G: 64, tokens: 16384, BN: 64, splits: 2, programs: 16 },
]

const [firstDecode] = decodeShapes

/** The short tests of all shipped kernels take every third kernel of bf16. */
export const isSample = ([name]: readonly [string, ...unknown[]], place: number): boolean =>
  / bf16/.test(name) && place % 3 === 0

export const shippedKernels: readonly Shipped[] = [
  ...[1, 8, 16, 64, 1024].flatMap((M) => products('bf16', M)),
  ...[8, 1024].flatMap((M) => products('f16', M)),
  ...products('f32', 8),
  ...decodeShapes.flatMap((shape) => decodes('bf16', shape)),
  ...decodes('f16', firstDecode),
  ...decodes('f32', { ...firstDecode, BN: 32 }),
  ...operandDTypes.flatMap((dtype) => collectives(dtype, 1 << 20)),
  ...collectives('bf16', 1001),
  shipped('barrier', barrierKernel, {}, {}),
]
