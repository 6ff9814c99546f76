/**
 * GEMM + Reduce-Scatter on a world: C = sum over ranks of A x B, scattered over the ranks. Every rank holds a slice along
 * K of A and of B. The partial products of all ranks are summed, and every rank receives its shard of C, along M or N.
 *
 *   bsp     one kernel multiplies, the next kernel sums the partial products of all ranks
 *   push    one kernel multiplies and sends tiles to their owners, the next kernel sums each tile once it has arrived
 *   atomic  one kernel that adds tiles to the owners' accumulators, with remote atomic additions
 *   ring    one kernel in which partial sums travel around the ring of ranks
 *   fused   one kernel that multiplies, sends and sums
 *   auto    the variant that was fastest at the nearest measured point; `fused` if nothing was measured
 */
import { dtypes } from '../../ir/dtype.ts'
import { variantOf } from '../../operation/choice.ts'
import {
  chosen,
  expectExtents,
  expectOptionsOf,
  randomNumbers,
  roundoff,
  type OperandDType,
  type Operation,
  type Step,
  type TilingWorld,
} from '../../operation/definition.ts'
import { packWeights, unpackWeights, weightsIn } from '../../operation/weights.ts'
import { productCandidates } from '../../tune/candidates.ts'
import { tilesFor, type Tiling } from '../../tune/configurations.ts'
import { fewestProcessors } from '../../world/machine.ts'
import type { LaunchOptions, PackedTensor, SymmetricTensor, World } from '../../world/world.ts'
import { defaultTiles, type Tiles } from '../gathered/tiles.ts'
import { gemmInto } from '../gemm.ts'
import { isLegalProduct } from '../limits.ts'
import { windowOf } from '../matrices.ts'
import type { ShippedOperation } from '../shipped.ts'
import { atomicKernel } from './atomic.ts'
import { bulkReduceScatterKernel } from './bulk.ts'
import { fusedKernel } from './fused.ts'
import { blockOf, type BlockMeta } from './inbox.ts'
import { measurements } from './measurements.ts'
import { points } from './points.ts'
import type { PartialMeta, Scatter } from './product.ts'
import { pushKernels } from './push.ts'
import { recogniseGemmReduceScatter } from './recognise.ts'
import { shardOf, shardOfProduct, type GemmReduceScatterContents } from './reference.ts'
import { ringKernel } from './ring.ts'
import { summersFor } from './summers.ts'

export type { GemmReduceScatterContents } from './reference.ts'
export type { Scatter } from './product.ts'
export type GemmReduceScatterVariant = 'bsp' | 'push' | 'atomic' | 'ring' | 'fused'

/** The shape is a type alias and not an interface, so that the type is assignable to a record of extents. */
export type GemmReduceScatterShape = {
  /** The number of rows of C, of all shards together. */
  readonly M: number
  /** The number of columns of C, of all shards together. */
  readonly N: number
  /** The extent K of A and B, summed over the slices of all ranks. */
  readonly K: number
}

export interface GemmReduceScatterOptions {
  readonly shape: GemmReduceScatterShape
  readonly dtype: OperandDType
  readonly variant: GemmReduceScatterVariant | 'auto'
  /** The axis of C along which the ranks receive shards: rows (M) or columns (N). */
  readonly scatter: Scatter
  /**
   * The dtype in which partial sums travel between ranks: f32 (the default), or the dtype of the operands. With f32, the
   * result is rounded only once, and all variants can be compared, because remote atomic additions exist only in f32. A
   * 16-bit dtype halves the bytes from other ranks, and rounds each partial product and, in `ring`, each partial sum.
   */
  readonly wire?: OperandDType
  readonly tiles?: Partial<Tiles>
  /** The number of programs per rank. By default, a rank runs as many programs as can be resident at once. */
  readonly grid?: LaunchOptions['grid']
  /**
   * The number of programs per rank that only sum, for the variant `fused`. With 0 summers, all programs first multiply
   * and then sum. By default, the number of summers balances the times of both teams (summers.ts).
   */
  readonly summers?: number
  /**
   * If true, `push`, `atomic` and `fused` signal a tile only after the next product of the same program. Late signals are
   * the default on a GPU, where a copy engine stores the tile in the meantime. On a CPU, late signals only delay the owner.
   */
  readonly signalsLate?: boolean
  readonly stream?: number
}

export interface GemmReduceScatter extends Operation<GemmReduceScatterContents> {
  readonly shape: GemmReduceScatterShape
  readonly scatter: Scatter
  readonly wire: OperandDType
  readonly tiles: Tiles
  readonly inputs: { readonly a: SymmetricTensor<OperandDType>; readonly b: SymmetricTensor<OperandDType> }
  /** The shard of C that a rank receives, with padding to equal size. The contents of the padding are unspecified. */
  readonly outputs: { readonly c: SymmetricTensor<OperandDType> }
}

/** The settings from which a variant allocates its buffers and builds its launches. */
interface Plan {
  readonly world: World
  readonly shape: GemmReduceScatterShape
  readonly kinds: { readonly dtype: OperandDType; readonly wire: OperandDType; readonly scatter: Scatter }
  readonly a: SymmetricTensor<OperandDType>
  readonly b: SymmetricTensor<OperandDType>
  /** Returns B, in packed form if it has been packed and the variant can read it. */
  readonly weights: () => SymmetricTensor<OperandDType> | PackedTensor<OperandDType>
  readonly c: SymmetricTensor<OperandDType>
  readonly tiles: Tiles
  readonly partial: PartialMeta
  readonly block: Pick<BlockMeta, 'rows' | 'columns'>
  readonly summers: number
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
}
/** Allocates the buffers of a variant besides A, B and C, and returns the launches of one execution, in order. */
type Variant = (plan: Plan) => readonly Step[]

const variants: Readonly<Record<GemmReduceScatterVariant, Variant>> = {
  bsp({ world, shape: { M, N }, kinds, a, b, weights, c, tiles, block, options }) {
    const { dtype, wire } = kinds
    const partial = world.empty(wire, [M, N], { name: 'partial' })
    const entered = world.flags([world.ranks], { name: 'entered' })
    const left = world.flags([world.ranks], { name: 'left' })
    const multiply = gemmInto({ dtype, out: wire })
    const reduce = bulkReduceScatterKernel(kinds)
    return [
      {
        name: 'multiply',
        launch: () => world.launch(multiply, { a, b: weights(), c: partial }, { ...options, meta: tiles }),
        product: { a, b, c: partial },
      },
      {
        name: 'reduce',
        launch: () => world.launch(reduce, { partial, c, entered, left }, { ...options, meta: block }),
      },
    ]
  },
  push(plan) {
    const { world, kinds, a, weights, c, tiles, partial, block, options } = plan
    const box = mailbox(plan, world.ranks)
    const { multiply, sum } = pushKernels(kinds)
    const { BM, BN } = tiles
    return [
      {
        name: 'multiply',
        launch: () => world.launch(multiply, { a, b: weights(), c, ...box }, { ...options, meta: partial }),
      },
      {
        name: 'sum',
        launch: () => world.launch(sum, { c, ...box }, { ...options, meta: { BM, BN, ...block } }),
      },
    ]
  },
  atomic(plan) {
    const { world, kinds, a, weights, c, partial, block, options } = plan
    const args = {
      ...{ a, c },
      sums: world.empty('f32', [2, ...c.shape], { name: 'sums' }),
      zeroed: world.flags([world.ranks], { name: 'zeroed' }),
      arrived: arrivals(plan, world.ranks),
    }
    const atomic = atomicKernel({ dtype: kinds.dtype, scatter: kinds.scatter })
    const launch = { ...options, meta: { ...partial, ...block } }
    return [{ name: 'atomic', launch: () => world.launch(atomic, { ...args, b: weights() }, launch) }]
  },
  ring(plan) {
    const { world, kinds, a, weights, c, partial, options } = plan
    const args = { a, c, ...mailbox(plan, Math.max(1, world.ranks - 1)) }
    const launch = { ...options, meta: partial }
    return [
      { name: 'ring', launch: () => world.launch(ringKernel(kinds), { ...args, b: weights() }, launch) },
    ]
  },
  fused(plan) {
    const { world, kinds, a, weights, c, partial, block, summers, options } = plan
    const args = { a, c, ...mailbox(plan, world.ranks) }
    const launch = { ...options, meta: { ...partial, ...block, summers } }
    return [
      { name: 'fused', launch: () => world.launch(fusedKernel(kinds), { ...args, b: weights() }, launch) },
    ]
  },
}

/** The flags of the tiles of a shard, with one set per source rank (or hop). */
const arrivals = ({ world, c, tiles: { BM, BN } }: Plan, sources: number) =>
  world.flags([sources, Math.ceil(c.shape[0] / BM), Math.ceil(c.shape[1] / BN)], { name: 'arrived' })

const mailbox = (plan: Plan, sources: number) => ({
  inbox: plan.world.empty(plan.kinds.wire, [2, sources, ...plan.c.shape], { name: 'inbox' }),
  arrived: arrivals(plan, sources),
})

/** The extents of a shard of C, including padding. */
const shardExtents = (
  ranks: number,
  { shape: { M, N }, scatter }: Pick<GemmReduceScatterOptions, 'shape' | 'scatter'>,
) => (scatter === 'M' ? ([Math.ceil(M / ranks), N] as const) : ([M, Math.ceil(N / ranks)] as const))

/**
 * The matrix product for which tiles are chosen. Tiles of `bsp` may span shards, and those of other variants must not.
 * If a shard has at least the rows (columns) of the largest tile, any tile fits, so tiles are chosen for all of C.
 */
function tiledProduct(ranks: number, options: Omit<GemmReduceScatterOptions, 'tiles'>) {
  const { shape, dtype, variant, scatter } = options
  const { M, N, K } = shape
  const [rows, columns] = shardExtents(ranks, options)
  const mayLimit = variant !== 'bsp'
  return {
    m: mayLimit && scatter === 'M' && rows < mostTileRows ? rows : M,
    n: mayLimit && scatter === 'N' && columns < mostTileColumns ? columns : N,
    k: Math.ceil(K / ranks),
    dtype,
  }
}
const [mostTileRows, mostTileColumns] = [128, 256]

function tilingOf(world: TilingWorld, options: Omit<GemmReduceScatterOptions, 'tiles'>): Tiling<Tiles> {
  const { shape, dtype, scatter, variant } = options
  const { ranks, machine } = world
  const product = tiledProduct(ranks, options)
  const fallback = (): Tiles => defaultTiles(machine, product)
  return {
    asked: {
      operation: 'gemmReduceScatter',
      ...{ variant, layout: { scatter }, dtype, ranks, shape },
      processors: fewestProcessors(machine),
      device: machine.name,
      growing: gemmReduceScatterOperation.growing,
    },
    fallback,
    isLegal: (tiles) => isLegalProduct(machine, product, tiles, fallback()),
    candidates: () => productCandidates(machine, product, fallback()),
  }
}

/** The properties of the tiles of shards for which kernels are specialised. */
function partialMetaOf(
  { ranks, machine }: TilingWorld,
  options: Pick<GemmReduceScatterOptions, 'shape' | 'scatter' | 'signalsLate'>,
  tiles: Tiles,
): PartialMeta {
  const { scatter, shape, signalsLate = machine.capabilities.copyEngine } = options
  const extents = shardExtents(ranks, options)
  const [height, side, all] =
    scatter === 'M' ? [extents[0], tiles.BM, shape.M] : [extents[1], tiles.BN, shape.N]
  const lastTile = (ranks - 1) * height + (Math.ceil(height / side) - 1) * side
  return {
    ...tiles,
    aligned: height % side === 0,
    full: lastTile < all,
    signalsLate,
  }
}

/** Throws an error unless partial sums may travel in the given dtype. */
function expectWire(variant: string, dtype: OperandDType, wire: OperandDType): void {
  if (wire !== 'f32' && wire !== dtype)
    throw new RangeError(
      `gemmReduceScatter: wire is ${wire}; it must be f32 or the dtype of the operands, ${dtype}`,
    )
  if (variant === 'atomic' && wire !== 'f32')
    throw new RangeError(
      `gemmReduceScatter: atomic needs wire f32, because remote atomic additions exist only in f32; wire is ${wire}`,
    )
}

export function gemmReduceScatter(
  world: World,
  options: GemmReduceScatterOptions,
  inputs?: Operation['inputs'],
): GemmReduceScatter {
  const { shape, dtype, scatter, wire = 'f32', grid = 'resident', stream = 0 } = options
  const { M, N, K } = shape
  const { ranks, machine } = world
  expectExtents('gemmReduceScatter', { M, N, K })
  expectExtents('gemmReduceScatter', { summers: options.summers ?? 0 }, 0)
  expectWire(options.variant, dtype, wire)
  expectOptionsOf('gemmReduceScatter', options, {
    summers: ['fused'],
    signalsLate: ['push', 'atomic', 'fused'],
  })
  if (typeof grid === 'number' && (options.summers ?? 0) >= grid)
    throw new RangeError(
      `gemmReduceScatter: ${options.summers} summers of ${grid} programs leave no program to multiply`,
    )
  const { variant, reason } = variantOf(
    {
      ...gemmReduceScatterOperation,
      variants: gemmReduceScatterOperation.variants.filter((one) => one !== 'atomic' || wire === 'f32'),
    },
    world,
    options,
  )
  const prepare = chosen('gemmReduceScatter', variants, variant)
  const resolved = { ...options, variant: variant as GemmReduceScatterVariant }
  const { tiles, tilesFrom } = tilesFor(tilingOf(world, resolved), options.tiles)
  const depth = Math.ceil(K / ranks)
  const extents = shardExtents(ranks, options)
  const partial = partialMetaOf(world, options, tiles)
  // A packed B consists of whole tiles of the matrix. Shards along N that begin inside a tile have other tiles.
  const readsPacked = variant === 'bsp' || scatter === 'M' || partial.aligned
  const { a, b } = (inputs as GemmReduceScatter['inputs'] | undefined) ?? {
    a: world.zeros(dtype, [M, depth], { name: 'a' }),
    b: world.zeros(dtype, [depth, N], { name: 'b' }),
  }
  const c = world.empty(dtype, extents, { name: 'c' })
  const steps = prepare({
    ...{ world, shape, kinds: { dtype, wire, scatter } },
    ...{ a, b, weights: () => (readsPacked ? weightsIn(b) : b), c, tiles, partial },
    block: blockOf(tiles),
    summers: options.summers ?? summersFor(machine, ranks, { shape, extents, wire }, grid),
    options: { grid, stream },
  })
  const wireBytes = dtypes[wire].bytes
  return {
    ...{ name: 'gemmReduceScatter', variant, reason, dtype, shape, scatter, wire, tiles, tilesFrom },
    inputs: { a, b },
    outputs: { c },
    traffic: {
      // The busiest rank receives a full shard from every other rank or, in `ring`, one shard per hop.
      remoteBytes: (ranks - 1) * extents[0] * extents[1] * wireBytes,
      // For each element of C, the ranks together receive at least one partial sum less than there are ranks.
      leastRemoteBytes: Math.ceil(((ranks - 1) * M * N) / ranks) * wireBytes,
      flops: 2 * M * N * depth,
      launches: steps.length,
    },
    steps,
    launch: () => {
      for (const step of steps) step.launch()
    },
    random: (seed) => ({
      a: randomNumbers(dtype, M * K, seed),
      b: randomNumbers(dtype, K * N, seed * 64 + 1),
    }),
    pack: async () => {
      if (readsPacked) await packWeights(world, b)
    },
    fill(contents) {
      unpackWeights(world, b)
      for (let rank = 0; rank < ranks; rank++) {
        world.write(a, rank, windowOf(contents.a, [M, K], [0, rank * depth], [M, depth]))
        world.write(b, rank, windowOf(contents.b, [K, N], [rank * depth, 0], [depth, N]))
      }
    },
    async result(rank) {
      const { rows, columns } = shardOf(rank, ranks, scatter, shape)
      return Float64Array.from(windowOf(await world.read(c, rank), extents, [0, 0], [rows, columns]))
    },
    extents(rank) {
      const { rows, columns } = shardOf(rank, ranks, scatter, shape)
      return [rows, columns]
    },
    reference(contents, rank, rows) {
      const shard = shardOf(rank, ranks, scatter, shape)
      const all = rows ?? Array.from({ length: shard.rows }, (_, row) => row)
      return shardOfProduct(contents, shape, shard, all)
    },
    // Each element of C is a sum of K products of numbers up to 1, accumulated in f32. The sum is rounded once to the
    // dtype. A wire dtype of 16 bits rounds one partial sum per rank.
    tolerance:
      K * roundoff.f32 + 2 * Math.sqrt(K) * (roundoff[dtype] + (wire === 'f32' ? 0 : ranks * roundoff[wire])),
  }
}

export const gemmReduceScatterOperation: ShippedOperation<
  GemmReduceScatterOptions,
  GemmReduceScatterContents
> = {
  name: 'gemmReduceScatter',
  title: 'GEMM + Reduce-Scatter',
  variants: ['bsp', 'push', 'atomic', 'ring', 'fused'],
  fused: ['push', 'atomic', 'ring', 'fused'],
  limit: { step: 'multiply', name: 'GEMM of the slices of one rank' },
  recognise: recogniseGemmReduceScatter,
  defaults: { shape: { M: 64, N: 1024, K: 2048 }, dtype: 'f32', variant: 'fused', scatter: 'M' },
  layouts: { scatter: ['M', 'N'] },
  growing: { M: 'neighbouring' },
  packs: true,
  measurements,
  points,
  tiling: tilingOf,
  make: gemmReduceScatter,
}
