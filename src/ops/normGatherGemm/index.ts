/**
 * LayerNorm + All-Gather + GEMM on a world: C = gather(LayerNorm(x)) x B. As in sequence parallelism, every rank holds
 * some rows (tokens) of the activation x. Every rank also holds some columns of the weights as its own B. Every rank
 * computes all of its own C.
 *
 *   bsp    three kernels: normalise the own rows, gather all rows, multiply
 *   fused  one kernel that normalises, sends and multiplies
 *   auto   the variant that was fastest at the nearest measured point
 */
import { dtypes } from '../../ir/dtype.ts'
import { productCandidates } from '../../tune/candidates.ts'
import { tilesFor, type Tiling } from '../../tune/configurations.ts'
import { fewestProcessors, isCached, isOneMemory, type Machine } from '../../world/machine.ts'
import type { LaunchOptions, SymmetricTensor, World } from '../../world/world.ts'
import { gatherKernel } from '../gathered/gather.ts'
import { matrixProduct } from '../gathered/reference.ts'
import { defaultTiles, spansShards, type Tiles } from '../gathered/tiles.ts'
import { variantOf } from '../../operation/choice.ts'
import { gemmKernel } from '../gemm.ts'
import { isLegalProduct } from '../limits.ts'
import { packWeights, unpackWeights, weightsIn } from '../../operation/weights.ts'
import { windowOf } from '../matrices.ts'
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
import { fusedKernel } from './fused.ts'
import type { ShippedOperation } from '../shipped.ts'
import { measurements } from './measurements.ts'
import { normKernel, normMeta, type NormMeta } from './norm.ts'
import { points } from './points.ts'
import { recogniseNormGatherGemm } from './recognise.ts'
import { layerNorm, type NormGatherGemmContents } from './reference.ts'

export type { NormGatherGemmContents } from './reference.ts'
export type NormGatherGemmVariant = 'bsp' | 'fused'

/** The shape is a type alias and not an interface, so that the type is assignable to a record of extents. */
export type NormGatherGemmShape = {
  /** The number of rows of all ranks together. */
  readonly M: number
  /** The number of columns of one rank's B. */
  readonly N: number
  readonly K: number
}

export interface NormGatherGemmOptions {
  readonly shape: NormGatherGemmShape
  readonly dtype: OperandDType
  readonly variant: NormGatherGemmVariant | 'auto'
  readonly tiles?: Partial<Tiles>
  /** The constant that LayerNorm adds to the variance. LayerNorm's constant is 1e-5 by default. */
  readonly eps?: number
  /**
   * In `fused` with fetching, the normalised rows stay on the rank that computed them, and all ranks load them from
   * that rank's memory. Fetching is the default if ranks share one GPU and shards have many rows. In one memory,
   * sending the rows to every rank would multiply the traffic, and ranks could not share the rows in a cache.
   */
  readonly fetching?: boolean
  /** The number of programs per rank. By default, a rank runs as many programs as can be resident at once. */
  readonly grid?: LaunchOptions['grid']
  readonly stream?: number
}

export interface NormGatherGemm extends Operation<NormGatherGemmContents> {
  readonly shape: NormGatherGemmShape
  readonly tiles: Tiles
  readonly inputs: {
    readonly x: SymmetricTensor<OperandDType>
    readonly gamma: SymmetricTensor<OperandDType>
    readonly beta: SymmetricTensor<OperandDType>
    readonly b: SymmetricTensor<OperandDType>
  }
  readonly outputs: { readonly c: SymmetricTensor<OperandDType> }
}

/** The settings from which a variant allocates its buffers and builds its launches. */
interface Plan {
  readonly world: World
  readonly dtype: OperandDType
  readonly inputs: NormGatherGemm['inputs']
  readonly c: SymmetricTensor<OperandDType>
  readonly tiles: Tiles
  readonly norm: NormMeta
  readonly isAcross: boolean
  readonly isFetching: boolean
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
}

const variants: Readonly<Record<NormGatherGemmVariant, (plan: Plan) => readonly Step[]>> = {
  bsp({ world, dtype, inputs: { x, gamma, beta, b }, c, tiles, norm, options }) {
    const [rows, K] = x.shape
    const y = world.empty(dtype, [rows, K], { name: 'normalised' })
    const gathered = world.empty(dtype, [rows * world.ranks, K], { name: 'gathered' })
    const entered = world.flags([world.ranks], { name: 'entered' })
    const left = world.flags([world.ranks], { name: 'left' })
    const gather = gatherKernel({ dtype, shard: 'M' })
    const { BM, BK } = tiles
    return [
      {
        name: 'normalise',
        launch: () => world.launch(normKernel(dtype), { x, gamma, beta, y }, { ...options, meta: norm }),
      },
      {
        name: 'gather',
        launch: () =>
          world.launch(gather, { a: y, gathered, entered, left }, { ...options, meta: { BM, BK } }),
      },
      {
        name: 'multiply',
        launch: () =>
          world.launch(gemmKernel(dtype), { a: gathered, b: weightsIn(b), c }, { ...options, meta: tiles }),
        product: { a: gathered, b, c },
      },
    ]
  },
  fused({ world, dtype, inputs: { x, gamma, beta, b }, c, tiles, norm, isAcross, isFetching, options }) {
    const { ranks } = world
    const [rows, K] = x.shape
    const blocks = tiles.BM / norm.rows
    const args = {
      ...{ x, gamma, beta, c },
      box: world.empty(dtype, [2, isFetching ? rows : ranks * rows, K], {
        name: isFetching ? 'outbox' : 'inbox',
      }),
      arrived: world.flags([ranks, Math.ceil(rows / tiles.BM)], { name: 'arrived', arrivals: blocks }),
    }
    const aligned = !isAcross && rows % tiles.BM === 0
    const launch = { ...options, meta: { ...tiles, ...norm, aligned, acrossShards: isAcross } }
    const fused = fusedKernel({ dtype, blocks, fetching: isFetching })
    return [{ name: 'fused', launch: () => world.launch(fused, { ...args, b: weightsIn(b) }, launch) }]
  },
}

/** True if a tile of the matrix product may span the rows of several ranks. */
const isAcrossShards = (
  { variant, fetching = false }: Pick<NormGatherGemmOptions, 'variant' | 'fetching'>,
  rows: number,
): boolean => variant === 'bsp' || (spansShards(rows) && !fetching)

function isFetching(
  { ranks, machine }: TilingWorld,
  options: Pick<NormGatherGemmOptions, 'variant' | 'fetching'>,
  rows: number,
): boolean {
  if (options.variant !== 'fused' || isAcrossShards(options, rows)) return false
  return options.fetching ?? (!machine.capabilities.nearPeers && isOneMemory(machine) && ranks > 1)
}

/** The maximum number of rows that are normalised together: the rows of a fragment that a GPU's matrix unit uses. */
const mostRowsOfBlock = 16

/**
 * The maximum number of elements of a block that a program holds at a time, on machines with scratch memory: 64
 * registers in each of 128 threads. A program that held fewer elements would need more steps, each of which waits for
 * memory. The sums of a block with fewer than 8 rows occupy as many registers as those of 8 rows.
 */
const mostElements = 8192
const leastRowsHeld = 8

/**
 * The number of rows that a program normalises together, and the number of columns that it holds at a time. The number of rows
 * is a divisor of BM, and as small as it can be with one block per processor, so that all processors of a rank take part.
 */
function blockOf(machine: Machine, rows: number, K: number, BM: number): Pick<NormMeta, 'rows' | 'columns'> {
  let most = 1
  for (let count = 1; count <= mostRowsOfBlock && BM % count === 0; count *= 2) {
    most = count
    if (count * fewestProcessors(machine) >= rows) break
  }
  if (isCached(machine)) return { rows: most, columns: normMeta.columns }
  const { columns: least } = normMeta
  const covering = 2 ** Math.ceil(Math.log2(K))
  return {
    rows: most,
    columns: Math.max(least, Math.min(covering, mostElements / Math.max(most, leastRowsHeld))),
  }
}

function tilingOf(world: TilingWorld, options: Omit<NormGatherGemmOptions, 'tiles'>): Tiling<Tiles> {
  const { shape, dtype, variant } = options
  const { ranks, machine } = world
  const rows = Math.ceil(shape.M / ranks)
  const product = { m: isAcrossShards(options, rows) ? shape.M : rows, n: shape.N, k: shape.K, dtype }
  const fallback = (): Tiles => defaultTiles(machine, product)
  return {
    asked: {
      ...{ operation: 'normGatherGemm', variant, dtype, ranks, shape },
      ...{ processors: fewestProcessors(machine), device: machine.name },
      growing: normGatherGemmOperation.growing,
    },
    fallback,
    isLegal: (tiles) => isLegalProduct(machine, product, tiles, fallback()),
    candidates: () => productCandidates(machine, product, fallback()),
  }
}

export function normGatherGemm(
  world: World,
  options: NormGatherGemmOptions,
  inputs?: Operation['inputs'],
): NormGatherGemm {
  const { shape, dtype, eps = normMeta.eps, grid = 'resident', stream = 0 } = options
  const { M, N, K } = shape
  const { ranks } = world
  expectExtents('normGatherGemm', { M, N, K })
  if (!(eps > 0)) throw new RangeError(`normGatherGemm: eps is ${eps}; it must be a number above 0`)
  const { variant, reason } = variantOf(normGatherGemmOperation, world, options)
  const prepare = chosen('normGatherGemm', variants, variant)
  const rows = Math.ceil(M / ranks)
  expectOptionsOf('normGatherGemm', options, { fetching: ['fused'] })
  const resolved = { ...options, variant: variant as NormGatherGemmVariant }
  const tiling = tilingOf(world, resolved)
  const { tiles, tilesFrom } = tilesFor(tiling, options.tiles)
  const own = (inputs as NormGatherGemm['inputs'] | undefined) ?? {
    x: world.zeros(dtype, [rows, K], { name: 'x' }),
    gamma: world.zeros(dtype, [K], { name: 'gamma' }),
    beta: world.zeros(dtype, [K], { name: 'beta' }),
    b: world.zeros(dtype, [K, N], { name: 'b' }),
  }
  const c = world.empty(dtype, [M, N], { name: 'c' })
  const steps = prepare({
    ...{ world, dtype, inputs: own, c, tiles },
    norm: { ...blockOf(world.machine, rows, K, tiles.BM), eps },
    isFetching: isFetching(world, resolved, rows),
    isAcross: isAcrossShards(resolved, rows),
    options: { grid, stream },
  })
  // The last rank has the fewest rows, so it receives the most bytes.
  const ofLast = Math.max(0, M - (ranks - 1) * rows)
  const remoteBytes = (M - ofLast) * K * dtypes[dtype].bytes
  return {
    ...{ name: 'normGatherGemm', variant, reason, dtype, shape, tiles, tilesFrom },
    inputs: own,
    outputs: { c },
    traffic: {
      remoteBytes,
      leastRemoteBytes: remoteBytes,
      flops: 2 * M * N * K,
      launches: steps.length,
    },
    steps,
    launch: () => {
      for (const step of steps) step.launch()
    },
    random: (seed) => ({
      x: randomNumbers(dtype, M * K, seed),
      gamma: randomNumbers(dtype, K, seed + 1),
      beta: randomNumbers(dtype, K, seed + 2),
      b: Array.from({ length: ranks }, (_, rank) => randomNumbers(dtype, K * N, seed * 64 + rank + 3)),
    }),
    pack: () => packWeights(world, own.b),
    fill(contents) {
      unpackWeights(world, own.b)
      for (let rank = 0; rank < ranks; rank++) {
        world.write(own.x, rank, windowOf(contents.x, [M, K], [rank * rows, 0], [rows, K]))
        world.write(own.gamma, rank, contents.gamma)
        world.write(own.beta, rank, contents.beta)
        world.write(own.b, rank, contents.b[rank])
      }
    },
    result: (rank) => world.read(c, rank),
    reference(contents, rank, rows = Array.from({ length: M }, (_, row) => row)) {
      const normalised = layerNorm(contents, K, eps, rows)
      return matrixProduct(normalised, contents.b[rank], { M: rows.length, N, K })
    },
    // Each element of C is a sum of K products of numbers up to 3, accumulated in f32. The factors and the sum are
    // rounded to the dtype.
    tolerance: 8 * K * roundoff.f32 + 12 * Math.sqrt(K) * roundoff[dtype],
  }
}

export const normGatherGemmOperation: ShippedOperation<NormGatherGemmOptions, NormGatherGemmContents> = {
  name: 'normGatherGemm',
  title: 'LayerNorm + All-Gather + GEMM',
  variants: ['bsp', 'fused'],
  fused: ['fused'],
  limit: { step: 'multiply', name: 'GEMM on data already gathered' },
  recognise: recogniseNormGatherGemm,
  defaults: { shape: { M: 64, N: 1024, K: 2048 }, dtype: 'f32', variant: 'fused' },
  growing: { M: 'neighbouring' },
  packs: true,
  measurements,
  points,
  tiling: tilingOf,
  make: normGatherGemm,
}
