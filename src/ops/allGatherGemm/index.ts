/**
 * All-Gather + GEMM on a world: C = gather(A) x B. Every rank holds a shard of A, along K or along M, and its own B.
 * Every rank computes all of its own C.
 *
 *   bsp    one kernel gathers all of A, the next kernel multiplies
 *   pull   one kernel that loads the tiles of A from their owners
 *   push   one kernel sends tiles into the peers' inboxes, the next kernel multiplies each tile once it has arrived
 *   fused  one kernel that sends and multiplies
 *   auto   the variant that was fastest at the nearest measured point
 */
import { fewestProcessors, isCached, type Machine } from '../../world/machine.ts'
import type { LaunchOptions, PackedTensor, SymmetricTensor, World } from '../../world/world.ts'
import { dtypes } from '../../ir/dtype.ts'
import { variantOf } from '../../operation/choice.ts'
import { gemmKernel } from '../gemm.ts'
import { isLegalProduct } from '../limits.ts'
import { productCandidates } from '../../tune/candidates.ts'
import { tilesFor, type Tiling } from '../../tune/configurations.ts'
import {
  chosen,
  expectExtents,
  expectOptionsOf,
  randomNumbers,
  roundoff,
  type Operation,
  type OperandDType,
  type Step,
  type TilingWorld,
  type Traffic,
} from '../../operation/definition.ts'
import { gatherKernel } from '../gathered/gather.ts'
import type { ShippedOperation } from '../shipped.ts'
import { measurements } from './measurements.ts'
import { fusedByShardKernel, mostInAnyOrder, partsOf } from './fusedByShard.ts'
import { fusedByTileKernel } from './fusedByTile.ts'
import { packWeights, unpackWeights, weightsIn } from '../../operation/weights.ts'
import { windowOf } from '../matrices.ts'
import { points } from './points.ts'
import type { ProductMeta, Shard } from '../gathered/product.ts'
import { pullKernel } from './pullInPlace.ts'
import { pullStagedKernel, stagedParts } from './pullStaged.ts'
import { pushKernels } from './push.ts'
import { matrixProduct } from '../gathered/reference.ts'
import { recogniseAllGatherGemm } from './recognise.ts'
import { defaultTiles, spansShards, type Tiles } from '../gathered/tiles.ts'

export type { Shard } from '../gathered/product.ts'
export type { Tiles } from '../gathered/tiles.ts'
export type AllGatherGemmVariant = 'bsp' | 'pull' | 'push' | 'fused'

/** The shape is a type alias and not an interface, so that the type is assignable to a record of extents. */

export type MatrixShape = {
  readonly M: number
  readonly N: number
  readonly K: number
}

export interface AllGatherGemmOptions {
  /** The extents M and K count all shards together. The extent N is the number of columns of one rank's B. */
  readonly shape: MatrixShape
  readonly dtype: OperandDType
  readonly variant: AllGatherGemmVariant | 'auto'
  readonly shard: Shard
  readonly tiles?: Partial<Tiles>
  /**
   * The number of programs that each rank runs. By default, a rank runs as many programs as can be resident at once.
   */
  readonly grid?: LaunchOptions['grid']
  /**
   * The number of programs per rank that only send (`senders`), for the variant `fused`. With 0 senders, all programs
   * send first and multiply afterwards.
   */
  readonly senders?: number
  /**
   * If true, `push` and `fused` on a CPU multiply this rank's own shard before they wait for the shards of other ranks.
   *
   * With shards along K, the own shard is multiplied for all tiles of C, and C holds the partial sums until the end.
   * For shards along K, `ownFirst` requires the dtype f32 and is its default. With shards along M, strips of C are
   * computed from the own rows until the rows of the other ranks have arrived. For shards along M, `ownFirst` requires
   * that all rows fit into one tile, and is the default on two ranks. GPUs reject `ownFirst`, because it has not been
   * tried on them.
   */
  readonly ownFirst?: boolean
  /**
   * For `fused` with shards along K: selects one flag per tile of A, or one flag per shard. One flag per shard is the
   * default on a GPU.
   */
  readonly flagPer?: 'tile' | 'shard'
  /**
   * If true, `fused` with one flag per shard multiplies shards in rank order, which makes the results bitwise reproducible.
   * By default, if all rows fit into one tile, shards that have arrived are multiplied first, so that a late rank does not
   * delay the others. If shards are multiplied in the order of arrival, the last bits of sums may differ between launches.
   */
  readonly inOrder?: boolean
  /**
   * If true, `pull` along K pulls from a copy of the owner's A, so that no rank has to wait for its peers at the end.
   * The copy is the default on a GPU if some programs have no tile of C in the last round and can make the copy.
   */
  readonly staged?: boolean
  readonly stream?: number
}

/** The matrices of all ranks. */
export interface AllGatherGemmContents {
  /** The whole matrix A, with M x K elements. */
  readonly a: ArrayLike<number>
  /** The matrix B of each rank, with K x N elements. */
  readonly b: readonly ArrayLike<number>[]
}

export interface AllGatherGemm extends Operation<AllGatherGemmContents> {
  readonly shape: MatrixShape
  readonly shard: Shard
  readonly tiles: Tiles
  readonly inputs: { readonly a: SymmetricTensor<OperandDType>; readonly b: SymmetricTensor<OperandDType> }
  readonly outputs: { readonly c: SymmetricTensor<OperandDType> }
}

/** The settings from which a variant allocates its buffers and builds its launches. */
interface Plan {
  readonly world: World
  readonly shard: Shard
  readonly dtype: OperandDType
  readonly shape: MatrixShape
  /** The number of rows and columns of one rank's A, including padding. */
  readonly local: readonly [rows: number, depth: number]
  readonly a: SymmetricTensor<OperandDType>
  readonly b: SymmetricTensor<OperandDType>
  /** Returns this rank's B, in the target's packed layout if B has been packed. */
  readonly weights: () => SymmetricTensor<OperandDType> | PackedTensor<OperandDType>
  readonly c: SymmetricTensor<OperandDType>
  readonly tiles: Tiles
  readonly aligned: boolean
  readonly senders: number
  readonly ownFirst: boolean
  /** The strips of C, if shards are along M and own rows are multiplied first; undefined in all other cases. */
  readonly strips: Pick<ProductMeta, 'ownRows' | 'ownColumns'> | undefined
  readonly flagPer: 'tile' | 'shard'
  readonly inOrder: boolean
  readonly staged: boolean
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
}
/** Allocates the buffers of a variant besides A, B and C, and returns the launches of one execution, in order. */
type Variant = (plan: Plan) => readonly Step[]

const variants: Readonly<Record<AllGatherGemmVariant, Variant>> = {
  bsp({ world, shard, dtype, shape, local: [rows, depth], a, b, weights, c, tiles, options }) {
    const extents = shard === 'K' ? [shape.M, depth * world.ranks] : [rows * world.ranks, shape.K]
    const gathered = world.empty(dtype, extents, { name: 'gathered' })
    const entered = world.flags([world.ranks], { name: 'entered' })
    const left = world.flags([world.ranks], { name: 'left' })
    const meta = { BM: tiles.BM, BK: tiles.BK }
    return [
      {
        name: 'gather',
        launch: () =>
          world.launch(gatherKernel({ dtype, shard }), { a, gathered, entered, left }, { ...options, meta }),
      },
      {
        name: 'multiply',
        launch: () =>
          world.launch(gemmKernel(dtype), { a: gathered, b: weights(), c }, { ...options, meta: tiles }),
        product: { a: gathered, b, c },
      },
    ]
  },
  pull(plan) {
    if (plan.staged) return [pullStaged(plan)]
    const { world, shard, dtype, a, weights, c, tiles, aligned, options } = plan
    const ready = world.flags([world.ranks], { name: 'ready' })
    const done = world.flags([world.ranks], { name: 'done' })
    const launch = { ...options, meta: { ...tiles, aligned } }
    const pull = pullKernel({ dtype, shard })
    return [{ name: 'pull', launch: () => world.launch(pull, { a, b: weights(), c, ready, done }, launch) }]
  },
  push(plan) {
    const { world, shard, dtype, shape, a, weights, c, tiles, aligned, ownFirst, strips, options } = plan
    const mail = { a, ...mailbox(plan) }
    const { send, multiply } = pushKernels({ dtype, shard })
    const { BM, BK } = tiles
    const receiving = { ...options, meta: { ...tiles, aligned, ownFirst, ...strips } }
    return [
      {
        name: 'send',
        launch: () =>
          world.launch(send, { ...mail, rows: shape.M }, { ...options, meta: { BM, BK, ownFirst } }),
      },
      { name: 'multiply', launch: () => world.launch(multiply, { ...mail, b: weights(), c }, receiving) },
    ]
  },
  fused(plan) {
    if (plan.flagPer === 'shard') return [fusedByShard(plan)]
    const { world, shard, dtype, a, weights, c, tiles, aligned, senders, ownFirst, strips, options } = plan
    const launch = { ...options, meta: { ...tiles, aligned, senders, ownFirst, ...strips } }
    const args = { a, c, ...mailbox(plan) }
    const fused = fusedByTileKernel({ dtype, shard })
    return [{ name: 'fused', launch: () => world.launch(fused, { ...args, b: weights() }, launch) }]
  },
}

function pullStaged({ world, dtype, local, a, weights, c, tiles, options }: Plan): Step {
  const parts = stagedParts(local, tiles)
  const args = {
    ...{ a, c },
    outbox: world.empty(dtype, [2, ...local], { name: 'outbox' }),
    ready: world.flags([world.ranks], { name: 'ready', arrivals: parts }),
  }
  const launch = { ...options, meta: tiles }
  const pull = pullStagedKernel({ dtype, parts })
  return { name: 'pull', launch: () => world.launch(pull, { ...args, b: weights() }, launch) }
}

function fusedByShard({ world, dtype, local, a, weights, c, tiles, inOrder, options }: Plan): Step {
  const { ranks } = world
  const parts = partsOf(local, tiles)
  const args = {
    ...{ a, c },
    inbox: world.empty(dtype, [2, ranks, ...local], { name: 'inbox' }),
    arrived: world.flags([ranks], { name: 'arrived', arrivals: parts }),
  }
  const launch = { ...options, meta: tiles }
  const fused = fusedByShardKernel({ dtype, parts, inOrder })
  return { name: 'fused', launch: () => world.launch(fused, { ...args, b: weights() }, launch) }
}

function mailbox({ world, shard, dtype, local: [rows, depth], tiles: { BM, BK } }: Plan) {
  const { ranks } = world
  const tiles = [Math.ceil(rows / BM), Math.ceil(depth / BK)]
  return {
    inbox: world.empty(dtype, shard === 'K' ? [2, ranks, rows, depth] : [2, 1, ranks * rows, depth], {
      name: 'inbox',
    }),
    arrived: world.flags([ranks, ...tiles], { name: 'arrived' }),
  }
}

/**
 * The number of columns of a strip of C. A strip is narrow, so that it ends soon after the rows of other ranks have
 * arrived. A strip is wide enough to read B in several streams.
 */
const stripColumns = 128

/**
 * The size of a strip of C that is computed from a rank's own rows. The width of a tile is a multiple of the width of a
 * strip.
 */
const stripsOf = (ownRows: number, { BN }: Tiles): Plan['strips'] => ({
  ownRows,
  ownColumns: BN % stripColumns === 0 ? stripColumns : BN,
})

/** The number of rows and columns of one rank's A, including padding. */
const localExtents = (
  ranks: number,
  { shape: { M, K }, shard }: Pick<AllGatherGemmOptions, 'shape' | 'shard'>,
) => (shard === 'K' ? ([M, Math.ceil(K / ranks)] as const) : ([Math.ceil(M / ranks), K] as const))

/**
 * True if tiles may span shards: always for `bsp`, and for `push` and `fused` along M if shards have few rows.
 */
const isOfGathered = (variant: string, shard: Shard, rows: number): boolean =>
  variant === 'bsp' || (variant !== 'pull' && shard === 'M' && spansShards(rows))

function tilingOf(world: TilingWorld, options: Omit<AllGatherGemmOptions, 'tiles'>): Tiling<Tiles> {
  const { shape, dtype, shard, variant } = options
  const { ranks, machine } = world
  const local = localExtents(ranks, options)
  const [m, k] = isOfGathered(variant, shard, local[0]) ? [shape.M, shape.K] : local
  const product = { m, n: shape.N, k, dtype }
  const fallback = (): Tiles => defaultTiles(machine, product)
  return {
    asked: {
      operation: 'allGatherGemm',
      ...{ variant, layout: { shard }, dtype, ranks, shape },
      processors: fewestProcessors(machine),
      device: machine.name,
      growing: allGatherGemmOperation.growing,
    },
    fallback,
    isLegal: (tiles) => isLegalProduct(machine, product, tiles, fallback()),
    candidates: () => productCandidates(machine, product, fallback()),
  }
}

export function allGatherGemm(
  world: World,
  options: AllGatherGemmOptions,
  inputs?: Operation['inputs'],
): AllGatherGemm {
  const { shape, dtype, shard, grid = 'resident', senders = 0, stream = 0 } = options
  const { M, N, K } = shape
  const { ranks, machine } = world
  expectExtents('allGatherGemm', { M, N, K })
  expectExtents('allGatherGemm', { senders }, 0)
  if (typeof grid === 'number' && senders >= grid)
    throw new RangeError(`allGatherGemm: ${senders} senders of ${grid} programs leave no program to multiply`)
  const mayShareFlags = shard === 'K' && senders === 0
  const { flagPer = mayShareFlags && machine.capabilities.copyEngine ? 'shard' : 'tile' } = options
  if (flagPer === 'shard' && !mayShareFlags)
    throw new RangeError("allGatherGemm: flagPer 'shard' needs shards along K and senders = 0")
  const { variant, reason } = variantOf(allGatherGemmOperation, world, options)
  const prepare = chosen('allGatherGemm', variants, variant)
  expectOptionsOf('allGatherGemm', options, {
    senders: ['fused'],
    flagPer: ['fused'],
    ownFirst: ['push', 'fused'],
  })
  const mayComeAsTheyArrive = variant === 'fused' && flagPer === 'shard' && ranks <= mostInAnyOrder
  if (options.inOrder === false && options.variant !== 'auto' && !mayComeAsTheyArrive)
    throw new RangeError(
      `allGatherGemm: inOrder: false needs fused with one flag per shard, on at most ${mostInAnyOrder} ranks; this is ${variant} with one flag per ${flagPer}, on ${ranks} ranks`,
    )
  const local = localExtents(ranks, options)
  const [rows, depth] = local
  const tiling = tilingOf(world, { ...options, variant: variant as AllGatherGemmVariant })
  const { tiles, tilesFrom } = tilesFor(tiling, options.tiles)
  const isInbox = variant === 'push' || variant === 'fused'
  const isOneTile = !isInbox || (isOfGathered(variant, shard, rows) && M <= tiles.BM)
  // With shards along K, C holds the partial sums between the two passes, which is cheap if C stays in a cache.
  const mayGoFirst = isCached(machine) && (shard === 'K' ? dtype === 'f32' : isOneTile)
  const { ownFirst = mayGoFirst && (shard === 'K' || ranks === 2) } = options
  if (ownFirst && !mayGoFirst)
    throw new RangeError(
      `allGatherGemm: ownFirst needs tiles in caches (a CPU), and shards along K in f32 or all rows in one tile; this product has ${M} rows in ${dtype}, sharded along ${shard}, in tiles of ${tiles.BM} rows on ${machine.name}`,
    )
  const mayStage = variant === 'pull' && shard === 'K'
  const { staged = mayStage && ranks > 1 && hasProgramsLeft(machine, shape, local, tiles, grid) } = options
  if (staged && !mayStage && options.variant !== 'auto')
    throw new RangeError(`allGatherGemm: only pull along K can be staged, not ${variant} along ${shard}`)
  const heightOfB = shard === 'K' ? depth * ranks : K
  const { a, b } = (inputs as AllGatherGemm['inputs'] | undefined) ?? {
    a: world.zeros(dtype, [rows, depth], { name: 'a' }),
    b: world.zeros(dtype, [heightOfB, N], { name: 'b' }),
  }
  const c = world.empty(dtype, [M, N], { name: 'c' })
  const steps = prepare({
    world,
    shard,
    dtype,
    shape,
    local,
    a,
    b,
    weights: () => weightsIn(b),
    c,
    tiles,
    aligned: !isOfGathered(variant, shard, rows) && rows % tiles.BM === 0,
    senders,
    ownFirst: ownFirst && shard === 'K' && flagPer === 'tile',
    strips: ownFirst && shard === 'M' && ranks > 1 ? stripsOf(rows, tiles) : undefined,
    flagPer,
    // With several tiles of rows, programs that multiply different rows by the same weights should read those weights
    // at the same time, from a cache.
    inOrder: options.inOrder ?? !(mayComeAsTheyArrive && M <= tiles.BM),
    staged: staged && mayStage,
    options: { grid, stream },
  })
  return {
    name: 'allGatherGemm',
    variant,
    reason,
    dtype,
    shape,
    shard,
    tiles,
    tilesFrom,
    inputs: { a, b },
    outputs: { c },
    traffic: trafficOf(variant, shard, ranks, dtype, shape, tiles, steps.length),
    steps,
    launch: () => {
      for (const step of steps) step.launch()
    },
    random: (seed) => ({
      a: randomNumbers(dtype, M * K, seed),
      b: Array.from({ length: ranks }, (_, rank) => randomNumbers(dtype, K * N, seed * 64 + rank + 1)),
    }),
    pack: () => packWeights(world, b),
    fill(contents) {
      unpackWeights(world, b)
      for (let rank = 0; rank < ranks; rank++) {
        const [top, left] = shard === 'K' ? [0, rank * depth] : [rank * rows, 0]
        world.write(a, rank, windowOf(contents.a, [M, K], [top, left], [rows, depth]))
        world.write(b, rank, windowOf(contents.b[rank], [K, N], [0, 0], [heightOfB, N]))
      }
    },
    result: (rank) => world.read(c, rank),
    reference: (contents, rank, rows) => matrixProduct(contents.a, contents.b[rank], shape, rows),
    // Each element of C is a sum of K products of numbers up to 1, accumulated in f32. The final sum is rounded once to
    // the dtype.
    tolerance: K * roundoff.f32 + 2 * Math.sqrt(K) * roundoff[dtype],
  }
}

/**
 * The maximum number of sections of a shard that one program copies while other programs multiply the local shard. If
 * one program copied more sections, the other programs would finish multiplying before the copy is complete.
 */
const mostStagedParts = 4

/**
 * True if every rank has enough programs without a tile of C in the last round to copy the rank's shard in time. The
 * result is false if ranks access remote flags cheaply, because waiting at the end of `pull` then costs less than a
 * copy. The function assumes one resident program per processor.
 */
function hasProgramsLeft(
  { processors, capabilities }: Machine,
  { M, N }: MatrixShape,
  local: Plan['local'],
  tiles: Tiles,
  grid: LaunchOptions['grid'],
): boolean {
  const count = Math.ceil(M / tiles.BM) * Math.ceil(N / tiles.BN)
  if (capabilities.nearPeers) return false
  return processors.every((most, rank) => {
    const given = typeof grid === 'function' ? grid(rank) : grid
    const programs = typeof given === 'number' ? given : most
    const left = (programs - (count % programs)) % programs
    return stagedParts(local, tiles) <= left * mostStagedParts
  })
}

function trafficOf(
  variant: string,
  shard: Shard,
  ranks: number,
  dtype: OperandDType,
  { M, N, K }: MatrixShape,
  { BN }: Tiles,
  launches: number,
): Traffic {
  const [extent, other] = shard === 'K' ? [K, M] : [M, K]
  const shardOf = (rank: number): number =>
    Math.max(0, Math.min(Math.ceil(extent / ranks), extent - rank * Math.ceil(extent / ranks)))
  // The last rank has the smallest shard, so it receives the most bytes.
  const leastRemoteBytes = (extent - shardOf(ranks - 1)) * other * dtypes[dtype].bytes
  // `pull` loads each tile of A again for every column of tiles of C.
  const times = variant === 'pull' ? Math.ceil(N / BN) : 1
  return { remoteBytes: leastRemoteBytes * times, leastRemoteBytes, flops: 2 * M * N * K, launches }
}

export const allGatherGemmOperation: ShippedOperation<AllGatherGemmOptions, AllGatherGemmContents> = {
  name: 'allGatherGemm',
  title: 'All-Gather + GEMM',
  variants: ['bsp', 'pull', 'push', 'fused'],
  fused: ['pull', 'push', 'fused'],
  limit: { step: 'multiply', name: 'GEMM on data already gathered' },
  defaults: { shape: { M: 64, N: 1024, K: 2048 }, dtype: 'f32', variant: 'fused', shard: 'K' },
  layouts: { shard: ['K', 'M'] },
  growing: { M: 'neighbouring' },
  packs: true,
  demo: { shape: { M: 16 }, skews: [0, 20] },
  measurements,
  points,
  tiling: tilingOf,
  make: allGatherGemm,
  recognise: recogniseAllGatherGemm,
}
