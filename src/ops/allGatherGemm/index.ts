/**
 * All-Gather + GEMM on a world: C = gather(A) x B, where every rank holds a shard of A, along K or along M, and a B of its
 * own. Every rank gets its whole C.
 *
 *   bsp    gather all of A, then multiply
 *   pull   one kernel; it loads the tiles of A that it needs from their owners
 *   push   a kernel sends tiles into the peers' inboxes, the next one multiplies each when it has arrived
 *   fused  one kernel that sends and multiplies
 *   auto   whichever of them was the fastest where it was measured
 */
import { fewestProcessors, isCached, type Machine } from '../../world/machine.ts'
import type { LaunchOptions, PackedTensor, SymmetricTensor, World } from '../../world/world.ts'
import { dtypes } from '../../ir/dtype.ts'
import { variantOf } from '../choice.ts'
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
  type OperationDefinition,
  type OperandDType,
  type Step,
  type TilingWorld,
  type Traffic,
} from '../operation.ts'
import { gatherKernel } from './bulk.ts'
import { fusedKernel } from './fused.ts'
import { measurements } from './measurements.ts'
import { fusedByShardKernel, mostInAnyOrder, partsOf } from './fusedByShard.ts'
import { packWeights, unpackWeights, weightsIn, windowOf } from '../matrices.ts'
import { points } from './points.ts'
import type { ProductMeta, Shard } from './product.ts'
import { pullKernel } from './pullInPlace.ts'
import { pullStagedKernel, stagedParts } from './pullStaged.ts'
import { pushKernels } from './push.ts'
import { matrixProduct } from './reference.ts'
import { recogniseAllGatherGemm } from './recognise.ts'
import { defaultTiles, type Tiles } from './tiles.ts'

export type { Shard } from './product.ts'
export type { Tiles } from './tiles.ts'
export type AllGatherGemmVariant = 'bsp' | 'pull' | 'push' | 'fused'

/** A type and not an interface: operations of any kind take a record of extents. */

export type MatrixShape = {
  readonly M: number
  readonly N: number
  readonly K: number
}

export interface AllGatherGemmOptions {
  /** M and K of all shards together; N of one rank's B. */
  readonly shape: MatrixShape
  readonly dtype: OperandDType
  readonly variant: AllGatherGemmVariant | 'auto'
  readonly shard: Shard
  readonly tiles?: Partial<Tiles>
  /** Programs on each rank; as many as run at once by default. */
  readonly grid?: LaunchOptions['grid']
  /** Of `fused`: programs of a rank that only send; 0 makes all of them send first. */
  readonly senders?: number
  /**
   * Of `push` and `fused` on a CPU: multiply this rank's own shard before waiting for others'. Along K, where it is the default in
   * f32 and needs it, for all tiles of C, with the sums put away in C meanwhile. Along M, where all rows must fit one tile and it is
   * the default on two ranks, for tiles until the others' rows are here. On a GPU it has not been tried, and is refused.
   */
  readonly ownFirst?: boolean
  /** Of `fused` along K: a flag for each tile of A, or one for each rank's shard, which is the default on a GPU. */
  readonly flagPer?: 'tile' | 'shard'
  /**
   * Of `fused` with a flag for each shard: multiply shards in the order of ranks, which gives the same bits every time. By default,
   * where all rows are in one tile, those that are here come first, so that a late rank holds nobody up, and the last bits of sums may
   * differ from launch to launch.
   */
  readonly inOrder?: boolean
  /**
   * Of `pull` along K: others pull from a copy of this rank's A, so that no rank waits for others at the end. The default on a GPU where
   * programs are left over in the last round of tiles of C, to copy.
   */
  readonly staged?: boolean
  readonly stream?: number
}

/** The matrices of all ranks. */
export interface AllGatherGemmContents {
  /** The whole A, M x K. */
  readonly a: ArrayLike<number>
  /** Each rank's B, K x N. */
  readonly b: readonly ArrayLike<number>[]
}

export interface AllGatherGemm extends Operation<AllGatherGemmContents> {
  readonly shape: MatrixShape
  readonly shard: Shard
  readonly tiles: Tiles
  readonly inputs: { readonly a: SymmetricTensor<OperandDType>; readonly b: SymmetricTensor<OperandDType> }
  readonly outputs: { readonly c: SymmetricTensor<OperandDType> }
}

/** What a variant needs to allocate and launch. */
interface Plan {
  readonly world: World
  readonly shard: Shard
  readonly dtype: OperandDType
  readonly shape: MatrixShape
  /** A rank's A, padded. */
  readonly local: readonly [rows: number, depth: number]
  readonly a: SymmetricTensor<OperandDType>
  /** As it is, or packed since. */
  readonly weights: () => SymmetricTensor<OperandDType> | PackedTensor<OperandDType>
  readonly c: SymmetricTensor<OperandDType>
  readonly tiles: Tiles
  readonly aligned: boolean
  readonly senders: number
  readonly ownFirst: boolean
  /** Along M, where own rows go first. */
  readonly strips: Pick<ProductMeta, 'ownRows' | 'ownColumns'> | undefined
  readonly flagPer: 'tile' | 'shard'
  readonly inOrder: boolean
  readonly staged: boolean
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
}
/** Allocates what a variant needs beside A, B and C, and gives the launches of one execution, in order. */
type Variant = (plan: Plan) => readonly Step[]

const variants: Readonly<Record<AllGatherGemmVariant, Variant>> = {
  bsp({ world, shard, dtype, shape, local: [rows, depth], a, weights, c, tiles, options }) {
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
    const fused = fusedKernel({ dtype, shard })
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

/** Of a shard: a product of fewer reads B so often for each that it is better to wait for the rows of other ranks. */
const fewRows = 128

/** Of a strip of C: few, so that it ends soon after the rows of others are here, and enough to read B in several streams. */
const stripColumns = 128

/** Strips of C for a rank's own rows; a tile has a whole number of them. */
const stripsOf = (ownRows: number, { BN }: Tiles): Plan['strips'] => ({
  ownRows,
  ownColumns: BN % stripColumns === 0 ? stripColumns : BN,
})

/** A rank's A, padded. */
const localExtents = (
  ranks: number,
  { shape: { M, K }, shard }: Pick<AllGatherGemmOptions, 'shape' | 'shard'>,
) => (shard === 'K' ? ([M, Math.ceil(K / ranks)] as const) : ([Math.ceil(M / ranks), K] as const))

/** A product of what was gathered sees no shards; one of what arrives sees those along M only where they are tall. */
const isOfGathered = (variant: string, shard: Shard, rows: number): boolean =>
  variant === 'bsp' || (variant !== 'pull' && shard === 'M' && rows < fewRows)

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
      ...{ variant, shard, dtype, ranks, shape },
      processors: fewestProcessors(machine),
      device: machine.name,
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
    throw new RangeError(`allGatherGemm: ${senders} senders of ${grid} programs leave nobody to multiply`)
  const mayShareFlags = shard === 'K' && senders === 0
  const { flagPer = mayShareFlags && machine.capabilities.copyEngine ? 'shard' : 'tile' } = options
  if (flagPer === 'shard' && !mayShareFlags)
    throw new RangeError('allGatherGemm: a flag for each shard needs shards along K, and no senders')
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
      `allGatherGemm: only fused with a flag for each shard, on at most ${mostInAnyOrder} ranks, takes shards in any order; here is ${variant} with a flag for each ${flagPer}, on ${ranks}`,
    )
  const local = localExtents(ranks, options)
  const [rows, depth] = local
  const tiling = tilingOf(world, { ...options, variant: variant as AllGatherGemmVariant })
  const { tiles, tilesFrom } = tilesFor(tiling, options.tiles)
  const isInbox = variant === 'push' || variant === 'fused'
  const isOneTile = !isInbox || (isOfGathered(variant, shard, rows) && M <= tiles.BM)
  // Sums are put away in C meanwhile: in a cache that is where they stay.
  const mayGoFirst = isCached(machine) && (shard === 'K' ? dtype === 'f32' : isOneTile)
  const { ownFirst = mayGoFirst && (shard === 'K' || ranks === 2) } = options
  if (ownFirst && !mayGoFirst)
    throw new RangeError(
      `allGatherGemm: ownFirst needs tiles in caches (a CPU), and shards along K in f32 or all rows in one tile; here are ${M} rows along ${shard}, in ${dtype}, tiles of ${tiles.BM}, on ${machine.name}`,
    )
  const mayStage = variant === 'pull' && shard === 'K'
  const { staged = mayStage && ranks > 1 && hasProgramsLeft(machine, shape, local, tiles, grid) } = options
  if (staged && !mayStage && options.variant !== 'auto')
    throw new RangeError(`allGatherGemm: only pull along K is staged; here is ${variant} along ${shard}`)
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
    weights: () => weightsIn(b),
    c,
    tiles,
    aligned: !isOfGathered(variant, shard, rows) && rows % tiles.BM === 0,
    senders,
    ownFirst: ownFirst && shard === 'K' && flagPer === 'tile',
    strips: ownFirst && shard === 'M' && ranks > 1 ? stripsOf(rows, tiles) : undefined,
    flagPer,
    // Programs that multiply other rows with the same weights read them at the same time, from a cache.
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
    // Sums of K products of numbers up to 1, added in f32, and the largest of so many rounded once.
    tolerance: K * roundoff.f32 + 2 * Math.sqrt(K) * roundoff[dtype],
  }
}

/** Parts of a shard that a program copies while others multiply their own: more would not be there when they are wanted. */
const mostStagedParts = 4

/**
 * Whether ranks have programs left in the last round of tiles of C, which copy this rank's shard in time. Where peers are near, to wait
 * for them at the end costs less than the copy. Nobody knows here how many programs run at once on a processor: one, as a rule.
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
  // The last rank has the smallest shard and gets the most.
  const leastRemoteBytes = (extent - shardOf(ranks - 1)) * other * dtypes[dtype].bytes
  // A puller loads a tile of A anew for each column of tiles of C.
  const times = variant === 'pull' ? Math.ceil(N / BN) : 1
  return { remoteBytes: leastRemoteBytes * times, leastRemoteBytes, flops: 2 * M * N * K, launches }
}

export const allGatherGemmOperation: OperationDefinition<AllGatherGemmOptions, AllGatherGemmContents> = {
  name: 'allGatherGemm',
  title: 'All-Gather + GEMM',
  variants: ['bsp', 'pull', 'push', 'fused'],
  fused: ['pull', 'push', 'fused'],
  limit: { step: 'multiply', name: 'GEMM on data already gathered' },
  defaults: { shape: { M: 64, N: 1024, K: 2048 }, dtype: 'f32', variant: 'fused', shard: 'K' },
  layouts: { shard: ['K', 'M'] },
  packs: true,
  demo: { shape: { M: 16 }, skews: [0, 20] },
  measurements,
  points,
  tiling: tilingOf,
  make: allGatherGemm,
  recognise: recogniseAllGatherGemm,
}
