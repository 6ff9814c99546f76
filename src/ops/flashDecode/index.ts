/**
 * Flash Decode on a world: one token for each batch entry attends to a KV cache that is sharded along the sequence, with
 * grouped query heads and a length for each batch entry and rank. Every rank gets the whole result.
 *
 *   bsp            attend; all-gather in bulk; combine
 *   gather-kernel  attend; gather without a meeting of all ranks at its start; combine
 *   fine-grained   attend; gather with a flag for each partial result; combine each tile as its parts arrive
 *   fused-coarse   one kernel; one flag for each rank
 *   fused          one kernel; one flag for each partial result; on a CPU, ranks that are done go on with others' work
 *   auto           whichever of them was the fastest where it was measured
 */
import type { LaunchOptions, SymmetricFlags, SymmetricTensor, World } from '../../world/world.ts'
import { tilesFor, type Tiling } from '../../tune/configurations.ts'
import { dtypes } from '../../ir/dtype.ts'
import { fewestProcessors, isOneMemory, type Machine } from '../../world/machine.ts'
import { variantOf } from '../choice.ts'
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
} from '../operation.ts'
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
import { measurements } from './measurements.ts'
import { splitsOfShares } from './parts.ts'
import { points } from './points.ts'
import { attentionOf, type DecodeContents } from './reference.ts'
import { recogniseFlashDecode } from './recognise.ts'
import { decodeTiles, isLegalCache, piecesOf, type DecodeTiles } from './tiles.ts'

export type { DecodeContents } from './reference.ts'
export type { DecodeTiles } from './tiles.ts'
export type FlashDecodeVariant = 'bsp' | 'gather-kernel' | 'fine-grained' | 'fused-coarse' | 'fused'

/** A type and not an interface: operations of any kind take a record of extents. */

export type FlashDecodeShape = {
  readonly batch: number
  readonly queryHeads: number
  /** Divides `queryHeads`. */
  readonly kvHeads: number
  /** Of a head. */
  readonly D: number
  /** That a rank's part of the cache has room for. */
  readonly tokens: number
}

export interface FlashDecodeOptions {
  readonly shape: FlashDecodeShape
  readonly dtype: OperandDType
  readonly variant: FlashDecodeVariant | 'auto'
  /**
   * BN tokens a tile; `splits` parts of a rank's sequence, for more programs than there are (batch, kv head) tiles; 0: even shares of
   * the cache, one for each program.
   */
  readonly tiles?: Partial<DecodeTiles>
  /** Of the scores; 1 / sqrt(D) by default. */
  readonly scale?: number
  /**
   * Of `fused`: one rank owns each (batch, kv head) and sends its result to all, or all combine all. The first is the default on a
   * GPU where there are many for each rank: it is then the sending of parts that takes time, and not a result's second journey.
   */
  readonly owners?: boolean
  /**
   * Of `fused`: a rank that has attended to all of its own cache goes on with what is left of others', so that one that is late
   * or slow holds the rest up by less. `splits` are then those of the last tiles alone. The default on a CPU; on a GPU, with
   * owners, fetching or even shares it is refused.
   */
  readonly stealing?: boolean
  /**
   * Of `fused`, without owners or stealing: partial results stay with the rank that made them, and all ranks fetch them from there. Where ranks
   * share one GPU it is the default instead of inboxes: the last part is then stored once and not on every rank, and fetched from a memory that
   * is everybody's.
   */
  readonly fetching?: boolean
  /** Programs on each rank; as many as run at once by default. */
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
  /** Which kernel `fused` is. */
  readonly fusion: Fusion
  readonly options: Pick<LaunchOptions, 'grid' | 'stream'>
  /** Of kernels that attend. */
  readonly attending: Pick<LaunchOptions, 'grid' | 'stream'>
  /** Of kernels that combine. */
  readonly combining: Pick<LaunchOptions, 'grid' | 'stream'>
}
/** Allocates what a variant needs, and gives the launches of one execution, in order. */
type Variant = (plan: Plan) => readonly Step[]

/** Partial results: `parts` for each (batch, kv head), in so many slots; zero at first, as words that carry epochs have to be. */
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

/** The kernels that several variants begin with: attend, and hand over to whatever gathers. */
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

/** All ranks combine all. */
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

/** Of a rank's cache: one for each program, of which each processor has one if nobody said how many there are. */
function sharesOf(machine: Machine, grid: LaunchOptions['grid']): number {
  if (typeof grid === 'function')
    throw new RangeError(
      'flashDecode: even shares need the same number of programs on every rank, not a function',
    )
  return typeof grid === 'number' ? grid : fewestProcessors(machine)
}

/**
 * Where programs share processors, and those are no fewer than parts, or tiles to combine: no program without one. Two that have one would share a
 * multiprocessor, and those without would take room from the next attention.
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
      `flashDecode: stealing needs near peers (a CPU), no owners, no fetching and splits; here is ${machine.name}${owners ? ', with owners' : ''}${fetching ? ', fetching' : ''}${tiles?.splits === 0 ? ', with even shares' : ''}`,
    )
  return variant === 'fused' && (stealing ?? (maySteal && ranks > 1))
}

/** What `fused` is where nobody said, for so many (batch, kv head) tiles. */
function fusionOf(world: World, options: FlashDecodeOptions, tiles: number): Fusion {
  const { ranks, machine } = world
  const { nearPeers } = machine.capabilities
  const { fetching } = options
  if (options.variant === 'fused' && fetching && options.owners)
    throw new RangeError('flashDecode: fetching and owners exclude each other')
  // Where peers are near it is not the sending that takes time.
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
      // Steps of the ladder attend by one kernel.
      ...{ variant: ladder.includes(variant) ? 'bsp' : variant, dtype, ranks, shape },
      processors: fewestProcessors(machine),
      device: machine.name,
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
  // Whoever fetches a part loads its maxima twice: for the largest of all, and to weigh it by.
  const statistics = variant === 'fused' && fusion === 'fetching' ? 3 : 2
  const partBytes = (statistics = 2): number => (D + statistics) * G * Float32Array.BYTES_PER_ELEMENT
  const parts = fusion === 'stealing' ? piecesOf(batch * kvHeads, splits) : splits * batch * kvHeads
  // All parts of what a rank owns, and results of what others own.
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
    // No target reads keys and values in an order of its own.
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
            `flashDecode: lengths ${lengths.join(', ')} of rank ${rank}; the cache has ${tokens}`,
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
    // A mean of numbers up to 1: its weights are rounded to the dtype, and so is it; sums of all tokens are in f32.
    tolerance: 3 * roundoff[dtype] + 8 * Math.sqrt(ranks * tokens) * roundoff.f32,
  }
}

export const flashDecodeOperation: OperationDefinition<FlashDecodeOptions, DecodeContents> = {
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
  packs: false,
  demo: { shape: { tokens: 512 }, skews: [0] },
  measurements,
  points,
  tiling: tilingOf,
  make: flashDecode,
  recognise: recogniseFlashDecode,
}
