/**
 * Flash Decode on a world: one token per batch entry attends to a KV cache that is sharded along the sequence. Query
 * heads are grouped, and every batch entry has its own length on every rank. Every rank gets the whole result of the
 * attention.
 *
 *   bsp            three kernels: attend; all-gather in bulk; combine
 *   gather-kernel  three kernels: attend; gather without a rank barrier at its start; combine
 *   fine-grained   three kernels: attend; gather with one flag per partial result; combine tiles as parts arrive
 *   fused-coarse   one kernel with one flag per rank
 *   fused          one kernel with one flag per partial result; on a CPU, ranks that have finished steal work
 *   auto           the variant that was fastest at the nearest measured point
 */
import type { LaunchOptions, SymmetricFlags, SymmetricTensor, World } from '../../world/world.ts'
import { tilesFor, type Tiling } from '../../tune/configurations.ts'
import { dtypes } from '../../ir/dtype.ts'
import { fewestProcessors, isOneMemory, type Machine } from '../../world/machine.ts'
import { variantOf } from '../../operation/choice.ts'
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
} from '../../operation/definition.ts'
import { decodeCandidates } from './candidates.ts'
import { fusedByOwnerKernel } from './fusedByOwner.ts'
import { fusedFetchingKernel } from './fusedFetching.ts'
import { fusedCoarseKernel, fusedKernel } from './fusedForAll.ts'
import { fusedStealingKernel } from './fusedStealing.ts'
import {
  attendKernel,
  bulkCombineKernel,
  bulkGatherKernel,
  combineKernel,
  fineGrainedCombineKernel,
  fineGrainedGatherKernel,
  gatherKernel,
} from './ladder.ts'
import type { ShippedOperation } from '../shipped.ts'
import { measurements } from './measurements.ts'
import { splitsOfShares } from './parts.ts'
import { points } from './points.ts'
import { attentionOf, type DecodeContents } from './reference.ts'
import { recogniseFlashDecode } from './recognise.ts'
import { decodeTiles, isLegalCache, piecesOf, type DecodeTiles } from './tiles.ts'

export type { DecodeContents } from './reference.ts'
export type { DecodeTiles } from './tiles.ts'
export type FlashDecodeVariant = 'bsp' | 'gather-kernel' | 'fine-grained' | 'fused-coarse' | 'fused'

/** The shape is a type alias and not an interface, so that the type is assignable to a record of extents. */

export type FlashDecodeShape = {
  readonly batch: number
  readonly queryHeads: number
  /** The number of kv heads. The number of kv heads must divide `queryHeads`. */
  readonly kvHeads: number
  /** The number of elements per attention head. */
  readonly D: number
  /** The number of tokens that one rank's section of the KV cache can hold. */
  readonly tokens: number
}

export interface FlashDecodeOptions {
  readonly shape: FlashDecodeShape
  readonly dtype: OperandDType
  readonly variant: FlashDecodeVariant | 'auto'
  /**
   * The option `BN` is the number of tokens per tile. The option `splits` is the number of splits into which a rank's
   * sequence is divided. Several splits are useful if there are more programs than (batch, kv head) tiles. With
   * `splits` = 0, the cache is divided stream-K style into one equal share per program.
   */
  readonly tiles?: Partial<DecodeTiles>
  /** The factor by which the scores are multiplied. The factor is 1 / sqrt(D) by default. */
  readonly scale?: number
  /**
   * In `fused` with owners, each (batch, kv head) has an owner rank, which combines and sends the result. Without
   * owners, all ranks combine all partial results of every tile. Owner ranks are the default on a GPU with many (batch,
   * kv head) tiles per rank. With many tiles, sending partial results takes longer than the second hop of a result.
   */
  readonly owners?: boolean
  /**
   * In `fused` with stealing, a rank that has finished its own cache continues with the remaining work of other ranks,
   * so that a late or slow rank delays the others less. With work stealing, `splits` applies only to the last tiles.
   * Work stealing is the default on a CPU. Stealing is rejected on a GPU and in combination with owners, fetching or
   * stream-K shares.
   */
  readonly stealing?: boolean
  /**
   * In `fused` with fetching, partial results stay on the rank that computed them, and all ranks load them from that
   * rank; fetching excludes owners and stealing. Fetching is the default if ranks share one GPU. With fetching, the
   * last partial result is stored once instead of once per rank, and is loaded from the shared memory.
   */
  readonly fetching?: boolean
  /** The number of programs per rank. By default, a rank runs as many programs as can be resident at once. */
  readonly grid?: LaunchOptions['grid']
  readonly stream?: number
}

export interface FlashDecode extends Operation<DecodeContents> {
  readonly shape: FlashDecodeShape
  readonly inputs: Pick<Cache, keyof Cache>
  readonly outputs: { readonly out: SymmetricTensor<OperandDType> }
}
export interface Cache {
  readonly q: SymmetricTensor<OperandDType>
  readonly k: SymmetricTensor<OperandDType>
  readonly v: SymmetricTensor<OperandDType>
  readonly lengths: SymmetricTensor<'i32'>
}

type Fusion = 'for all' | 'by owner' | 'stealing' | 'fetching'

interface Plan extends Cache {
  readonly world: World
  readonly dtype: OperandDType
  readonly shape: FlashDecodeShape
  readonly out: SymmetricTensor<OperandDType>
  readonly meta: {
    readonly G: number
    readonly D: number
    readonly BN: number
    readonly stages: number
    readonly splits: number
    readonly programs: number
    readonly scale: number
  }
  /** The kernel that implements the variant `fused`. */
  readonly fusion: Fusion
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
  /** Launch options of the kernels that compute attention. */
  readonly attending: Pick<LaunchOptions, 'grid' | 'stream'>
  /** Launch options of the kernels that combine partial results. */
  readonly combining: Pick<LaunchOptions, 'grid' | 'stream'>
}
/** Allocates the buffers of a variant and returns the launches of one execution, in order. */
type Variant = (plan: Plan) => readonly Step[]

/**
 * Allocates memory for `parts` partial results of each (batch, kv head), in each of `slots` slots. The buffers are
 * filled with zeros at first, as flag-in-data words require.
 */
function partials({ world, shape, meta: { G, D } }: Plan, slots: number, parts: number, name: string) {
  const count = parts * shape.batch * shape.kvHeads
  return {
    sums: world.zeros('f32', [slots, count, G, D], { name: `${name}.sums` }),
    stats: world.zeros('f32', [slots, count, 2, G], { name: `${name}.stats` }),
  }
}
const ofRanks = ({ world }: Plan, name: string): SymmetricFlags => world.flags([world.ranks], { name })
const ofParts = ({ world, shape, meta }: Plan, name: string, slots = 1): SymmetricFlags =>
  world.flags([slots * world.ranks * meta.splits, shape.batch, shape.kvHeads], { name })

/** Builds the step `attend` and the buffers that the following gather kernel reads and writes. */
function inSteps(plan: Plan, slots: number) {
  const { world, dtype, q, k, v, lengths, meta, options, attending, combining } = plan
  const { G, D, splits } = meta
  const own = partials(plan, 1, splits, 'own')
  const all = partials(plan, slots, splits * world.ranks, 'all')
  return {
    all,
    gathering: { ...own, allSums: all.sums, allStats: all.stats },
    launch: { ...options, meta: { G, D } },
    launchSplits: { ...options, meta: { G, D, splits } },
    combining: { ...combining, meta: { G, D, splits } },
    attend: {
      name: 'attend',
      launch: () => world.launch(attendKernel(dtype), { q, k, v, lengths, ...own }, { ...attending, meta }),
    },
  }
}

const variants: Readonly<Record<FlashDecodeVariant, Variant>> = {
  bsp(plan) {
    const { world, dtype, out } = plan
    const { all, gathering, attend, launch, combining } = inSteps(plan, 1)
    const meeting = { entered: ofRanks(plan, 'entered'), left: ofRanks(plan, 'left') }
    return [
      attend,
      { name: 'gather', launch: () => world.launch(bulkGatherKernel, { ...gathering, ...meeting }, launch) },
      {
        name: 'combine',
        launch: () => world.launch(bulkCombineKernel(dtype), { ...all, out }, combining),
      },
    ]
  },
  'gather-kernel'(plan) {
    const { world, dtype, out } = plan
    const { all, gathering, attend, launch, combining } = inSteps(plan, 1)
    const [arrived, done] = [ofRanks(plan, 'arrived'), ofRanks(plan, 'done')]
    return [
      attend,
      { name: 'gather', launch: () => world.launch(gatherKernel, { ...gathering, arrived, done }, launch) },
      {
        name: 'combine',
        launch: () => world.launch(combineKernel(dtype), { ...all, out, done }, combining),
      },
    ]
  },
  'fine-grained'(plan) {
    const { world, dtype, out } = plan
    const { all, gathering, attend, launchSplits, combining } = inSteps(plan, 2)
    const arrived = ofParts(plan, 'arrived')
    return [
      attend,
      {
        name: 'gather',
        launch: () => world.launch(fineGrainedGatherKernel, { ...gathering, arrived }, launchSplits),
      },
      {
        name: 'combine',
        launch: () => world.launch(fineGrainedCombineKernel(dtype), { ...all, out, arrived }, combining),
      },
    ]
  },
  'fused-coarse'(plan) {
    const { world, dtype, q, k, v, lengths, out, meta, attending } = plan
    const inbox = partials(plan, 2, world.ranks * meta.splits, 'inbox')
    const arrived = ofRanks(plan, 'arrived')
    const args = { q, k, v, lengths, out, ...inbox, arrived }
    return [
      { name: 'fused', launch: () => world.launch(fusedCoarseKernel(dtype), args, { ...attending, meta }) },
    ]
  },
  fused: (plan) => [fusions[plan.fusion](plan)],
}

const fusions: Readonly<Record<Fusion, (plan: Plan) => Step>> = {
  'for all': (plan) =>
    fusedThrough(plan, fusedKernel, partials(plan, 2, plan.world.ranks * plan.meta.splits, 'inbox')),
  fetching: (plan) => fusedThrough(plan, fusedFetchingKernel, partials(plan, 2, plan.meta.splits, 'outbox')),
  'by owner': fusedByOwner,
  stealing: fusedStealing,
}

/** The launch of a fused kernel in which all ranks combine all partial results. */
function fusedThrough(plan: Plan, kernelOf: typeof fusedKernel, boxes: ReturnType<typeof partials>): Step {
  const { world, dtype, q, k, v, lengths, out, meta, attending } = plan
  const args = { q, k, v, lengths, out, ...boxes, arrived: ofParts(plan, 'arrived') }
  const launch = { ...attending, meta }
  return { name: 'fused', launch: () => world.launch(kernelOf(dtype), args, launch) }
}

function fusedByOwner(plan: Plan): Step {
  const { world, dtype, q, k, v, lengths, out, meta, attending } = plan
  const inbox = partials(plan, 1, world.ranks * meta.splits, 'inbox')
  const flags = { arrived: ofParts(plan, 'arrived'), left: ofRanks(plan, 'left') }
  const args = { q, k, v, lengths, out, ...inbox, ...flags }
  const launch = { ...attending, meta }
  return { name: 'fused', launch: () => world.launch(fusedByOwnerKernel(dtype), args, launch) }
}

function fusedStealing(plan: Plan): Step {
  const { world, dtype, q, k, v, lengths, out, meta, options } = plan
  const inbox = partials(plan, 2, world.ranks * meta.splits, 'inbox')
  const tickets = world.empty('i32', [2], { name: 'tickets' })
  const flags = { entered: ofRanks(plan, 'entered'), arrived: ofParts(plan, 'arrived', 2) }
  const args = { q, k, v, lengths, out, ...inbox, tickets, ...flags }
  const launch = { ...options, meta }
  return { name: 'fused', launch: () => world.launch(fusedStealingKernel(dtype), args, launch) }
}

/**
 * The number of stream-K shares into which a rank's cache is divided, one share per program. If `grid` is not a number,
 * one program per processor is assumed.
 */
function sharesOf(machine: Machine, grid: LaunchOptions['grid']): number {
  if (typeof grid === 'function')
    throw new RangeError(
      'flashDecode: stream-K shares (splits = 0) need the same number of programs on every rank; grid must not be a function',
    )
  return typeof grid === 'number' ? grid : fewestProcessors(machine)
}

/**
 * Limits the grid to one program per split. The limit of the grid applies to machines on which several programs share a
 * processor, if there are at least as many processors as splits. With more programs, two busy programs might share a
 * processor, and idle programs would take room from the next attention kernel.
 */
function programsFor(machine: Machine, parts: number, grid: LaunchOptions['grid']): LaunchOptions['grid'] {
  const { sharedProcessors } = machine.capabilities
  return grid === 'resident' && sharedProcessors && parts <= fewestProcessors(machine) ? parts : grid
}

function isStealing(
  { ranks, machine }: TilingWorld,
  { variant, owners = false, fetching = false, stealing, tiles }: Omit<FlashDecodeOptions, 'shape' | 'dtype'>,
): boolean {
  const maySteal = machine.capabilities.nearPeers && !owners && !fetching && tiles?.splits !== 0
  if (stealing && !maySteal)
    throw new RangeError(
      `flashDecode: stealing needs ranks with cheap access to the flags of other ranks (a CPU), no owners, no fetching and splits > 0; this is ${machine.name}${owners ? ', with owners' : ''}${fetching ? ', fetching' : ''}${tiles?.splits === 0 ? ', with even shares' : ''}`,
    )
  return variant === 'fused' && (stealing ?? (maySteal && ranks > 1))
}

/** The kernel that `fused` uses, from the options or the defaults, given the number of (batch, kv head) tiles. */
function fusionOf(world: World, options: FlashDecodeOptions, tiles: number): Fusion {
  const { ranks, machine } = world
  const { nearPeers } = machine.capabilities
  const { fetching } = options
  if (options.variant === 'fused' && fetching && options.owners)
    throw new RangeError('flashDecode: fetching and owners exclude each other')
  // On machines with fast access to peers, sending is not the bottleneck.
  const isSending = !nearPeers && ranks > 1 && tiles >= 4 * ranks
  if (options.owners ?? (isSending && !fetching)) return 'by owner'
  if (isStealing(world, options)) return 'stealing'
  return (fetching ?? (!nearPeers && isOneMemory(machine) && ranks > 1)) ? 'fetching' : 'for all'
}

const ladder: readonly string[] = ['gather-kernel', 'fine-grained']

function tilingOf(world: TilingWorld, options: Omit<FlashDecodeOptions, 'tiles'>): Tiling<DecodeTiles> {
  const { shape, dtype, variant } = options
  const { ranks, machine } = world
  const cache = {
    ...{ ...shape, dtype },
    stealing: isStealing(world, options),
    uneven: typeof options.grid === 'function',
  }
  return {
    asked: {
      operation: 'flashDecode',
      // The variants in ladder.ts compute attention with the same kernel as `bsp`, so they share its tuned tiles.
      ...{ variant: ladder.includes(variant) ? 'bsp' : variant, dtype, ranks, shape },
      processors: fewestProcessors(machine),
      device: machine.name,
      growing: flashDecodeOperation.growing,
    },
    fallback: (given) => decodeTiles(machine, cache, given),
    isLegal: (tiles) => isLegalCache(machine, cache, tiles),
    candidates: () => decodeCandidates(machine, cache, decodeTiles(machine, cache)),
    mayBeZero: ['splits'],
  }
}

export function flashDecode(
  world: World,
  options: FlashDecodeOptions,
  inputs?: Operation['inputs'],
): FlashDecode {
  const { shape, dtype, grid = 'resident', stream = 0 } = options
  const { batch, queryHeads, kvHeads, D, tokens } = shape
  const { ranks, machine } = world
  expectExtents('flashDecode', { batch, queryHeads, kvHeads, D, tokens })
  const { variant, reason } = variantOf(flashDecodeOperation, world, options)
  const prepare = chosen('flashDecode', variants, variant)
  expectOptionsOf('flashDecode', options, { owners: ['fused'], stealing: ['fused'], fetching: ['fused'] })
  const G = queryHeads / kvHeads
  if (!Number.isInteger(G))
    throw new RangeError(`flashDecode: ${queryHeads} query heads do not share ${kvHeads} kv heads evenly`)
  const { scale = 1 / Math.sqrt(D) } = options
  const resolved = { ...options, variant: variant as FlashDecodeVariant }
  const tiling = tilingOf(world, resolved)
  const { tiles, tilesFrom } = tilesFor(tiling, options.tiles)
  const { BN, stages } = tiles
  expectExtents('flashDecode', { BN, stages })
  expectExtents('flashDecode', { splits: tiles.splits }, 0)
  const programs = tiles.splits > 0 ? 0 : sharesOf(machine, grid)
  const splits = tiles.splits || splitsOfShares(batch * kvHeads, Math.ceil(tokens / BN), programs)
  const cache = (inputs as Cache | undefined) ?? {
    q: world.zeros(dtype, [batch, kvHeads, G, D], { name: 'q' }),
    k: world.zeros(dtype, [batch, kvHeads, tokens, D], { name: 'k' }),
    v: world.zeros(dtype, [batch, kvHeads, tokens, D], { name: 'v' }),
    lengths: world.zeros('i32', [batch], { name: 'lengths' }),
  }
  const out = world.empty(dtype, [batch, kvHeads, G, D], { name: 'out' })
  const meta = { G, D, BN, stages, splits, programs, scale }
  const fusion = fusionOf(world, resolved, batch * kvHeads)
  const steps = prepare({
    ...{ world, dtype, shape, ...cache, out, meta, fusion },
    options: { grid, stream },
    attending: { grid: programs || programsFor(machine, batch * kvHeads * splits, grid), stream },
    combining: { grid: programsFor(machine, batch * kvHeads, grid), stream },
  })
  // With fetching, the maxima of each partial result are loaded twice: once to find the largest maximum and once to
  // compute the weight.
  const statistics = variant === 'fused' && fusion === 'fetching' ? 3 : 2
  const partBytes = (statistics = 2): number => (D + statistics) * G * Float32Array.BYTES_PER_ELEMENT
  const parts = fusion === 'stealing' ? piecesOf(batch * kvHeads, splits) : splits * batch * kvHeads
  // A rank receives all partial results of the tiles that it owns, and the results of the tiles that other ranks own.
  const byOwner = (parts: number): number => {
    const owned = Math.ceil((batch * kvHeads) / ranks)
    const results = (batch * kvHeads - owned) * G * D * dtypes[dtype].bytes
    return (ranks - 1) * owned * parts * partBytes() + results
  }
  const perRank = <T>(make: (rank: number) => T): T[] =>
    Array.from({ length: ranks }, (_, rank) => make(rank))
  const elements = batch * kvHeads * tokens * D
  return {
    name: 'flashDecode',
    variant,
    reason,
    dtype,
    shape,
    tiles,
    tilesFrom,
    inputs: cache,
    outputs: { out },
    traffic: {
      remoteBytes:
        variant === 'fused' && fusion === 'by owner'
          ? byOwner(splits)
          : (ranks - 1) * parts * partBytes(statistics),
      leastRemoteBytes: byOwner(1),
      flops: 4 * batch * queryHeads * tokens * D,
      launches: steps.length,
    },
    steps,
    launch: () => {
      for (const step of steps) step.launch()
    },
    // No target has a special layout for keys and values, so nothing is packed.
    pack: () => Promise.resolve(),
    random: (seed) => ({
      q: randomNumbers(dtype, batch * queryHeads * D, seed),
      k: perRank((rank) => randomNumbers(dtype, elements, seed * 128 + 2 * rank + 1)),
      v: perRank((rank) => randomNumbers(dtype, elements, seed * 128 + 2 * rank + 2)),
      lengths: perRank(() => new Int32Array(batch).fill(tokens)),
    }),
    fill(contents) {
      for (let rank = 0; rank < ranks; rank++) {
        const lengths = Array.from(contents.lengths[rank])
        if (lengths.some((length) => !Number.isInteger(length) || length < 0 || length > tokens))
          throw new RangeError(
            `flashDecode: lengths ${lengths.join(', ')} of rank ${rank}; each must be a whole number from 0 to ${tokens} tokens`,
          )
        world.write(cache.q, rank, contents.q)
        world.write(cache.k, rank, contents.k[rank])
        world.write(cache.v, rank, contents.v[rank])
        world.write(cache.lengths, rank, lengths)
      }
    },
    result: (rank) => world.read(out, rank),
    reference: (contents, _rank, rows) =>
      attentionOf(contents, { batch, heads: kvHeads, G, D, tokens, scale }, rows),
    // The result of attention is a mean of numbers up to 1. The weights of the mean and the result are rounded to the
    // dtype. Sums over all tokens are in f32.
    tolerance: 3 * roundoff[dtype] + 8 * Math.sqrt(ranks * tokens) * roundoff.f32,
  }
}

export const flashDecodeOperation: ShippedOperation<FlashDecodeOptions, DecodeContents> = {
  name: 'flashDecode',
  title: 'Flash Decode',
  variants: ['bsp', 'gather-kernel', 'fine-grained', 'fused-coarse', 'fused'],
  fused: ['fused-coarse', 'fused'],
  limit: { step: 'attend', name: "attention to the rank's own tokens" },
  defaults: {
    shape: { batch: 1, queryHeads: 32, kvHeads: 8, D: 128, tokens: 4096 },
    dtype: 'f32',
    variant: 'fused',
  },
  aliases: { q: 'queryHeads', kv: 'tokens' },
  growing: { batch: 'rounded', tokens: 'neighbouring' },
  packs: false,
  demo: { shape: { tokens: 512 }, skews: [0] },
  measurements,
  points,
  tiling: tilingOf,
  make: flashDecode,
  recognise: recogniseFlashDecode,
}
