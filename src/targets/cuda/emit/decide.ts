/**
 * Makes all decisions about a kernel before it is rendered as CUDA C++. The analyses run in the order of their
 * dependencies. The stages of the CUDA target (`../stages.ts`) rewrite the IR according to some decisions, then call
 * `decide` again for the new IR. The renderers use the decisions that no stage has written into the IR.
 */

import { analysis } from '../../../ir/analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import {
  arrivesAt,
  declaresBarriers,
  declaresTile,
  isOpenEnded,
  isRemote,
  opOf,
  origin,
  writtenRefs,
} from '../../../ir/ops/index.ts'
import { elsewhere } from '../../../ir/passes/elsewhere.ts'
import { assignLayouts, isFragment, isSplat, type Conflict, type Layouts } from './assign.ts'
import { CopyPlanner, type TensorPlan } from './copies.ts'
import type { EmissionPlans, SharedPlan } from './emission.ts'
import { planEarly, type EarlyPlan } from './early.ts'
import { planRoles, type Group, type RolesPlan } from './groups.ts'
import { accessesOf } from './hazards.ts'
import { planLoops } from './loops.ts'
import { notesOf } from './notes.ts'
import { planOverlap, type Overlap } from './overlap.ts'
import { isByWarpgroups, productIn } from './products.ts'
import { Ranges } from './ranges.ts'
import { deviceOf, type EmitFacts, type EmitNote } from './recipe.ts'
import { planRecord, recordBytes, type RecordPlan } from './record.ts'
import { STAGING_BOX } from './render/store.ts'
import { planScratch } from './scratch.ts'
import { planStart } from './start.ts'
import { BASE_ALIGNMENT, expectFits, planTiles, SharedSpace, type Region, type Tile } from './tiles.ts'
import { tileGroupOf } from './tileOrder.ts'
import { Uses } from './uses.ts'

/**
 * The number of tile rows that the tile order groups together, so that concurrent programs share tiles in the L2 cache.
 */
const TILE_ROWS = 8

export interface Decisions extends EmissionPlans {
  /** The loops that the stage `order` changes so that consecutive matrix products overlap. */
  readonly overlaps: readonly Overlap[]
  /** The asynchronous copies (`copy.async`) that TMA makes while the role that started them continues. */
  readonly inFlight: ReadonlySet<Node>
  readonly groupOf: ReadonlyMap<Node, Group>
  /** Shared tiles that TMA or the matrix unit accesses, and tensors to which TMA stores fragments. */
  readonly seenByEngines: ReadonlySet<Node>
  /** Shared memory per program, in bytes, including the padding that aligns its base. */
  readonly sharedBytes: number
  /** Notes for the author of the kernel. */
  readonly notes: readonly EmitNote[]
}

/** The decisions about memory and roles, which are made before the decisions about layouts. */
interface Basis {
  readonly ranges: Ranges
  readonly tiles: ReadonlyMap<Node, Tile>
  readonly copies: CopyPlanner
  readonly roles: RolesPlan
}

function basisOf(ir: KernelIR, facts: EmitFacts): Basis {
  const { ranges, tiles, copies } = memoryOf(ir, facts)
  return { ranges, tiles, copies, roles: planRoles(ir, copies, deviceOf(facts).perProcessor.registers) }
}

function memoryOf(ir: KernelIR, facts: EmitFacts): Omit<Basis, 'roles'> {
  const tiles = planTiles(ir)
  const ranges = new Ranges(ir.body, facts)
  return { ranges, tiles, copies: new CopyPlanner(facts, ranges, tiles) }
}

/** Returns the plans of the copies of a kernel. The kernel may still contain values that are needed in two layouts. */
export const copiesIn = (ir: KernelIR, facts: EmitFacts): CopyPlanner => memoryOf(ir, facts).copies

/**
 * Finds a value of the kernel that is needed in two layouts. Returns undefined if no value is needed in two layouts.
 */
export const conflictIn = analysis('layout conflicts', conflictOf, (ir) => conflictOf(ir, { tensors: {} }))

function conflictOf(ir: KernelIR, facts: EmitFacts): Conflict | undefined {
  return assignLayouts(ir, basisOf(ir, facts).roles).conflict
}

export const decide = analysis('decisions for a GPU', decided, (ir) => decided(ir, { tensors: {} }))

/** Makes all decisions for a kernel in which each fragment has a single layout. */
function decided(ir: KernelIR, facts: EmitFacts): Decisions {
  const { ranges, tiles, copies, roles } = basisOf(ir, facts)
  const groupOf = groupsOf(ir, roles)
  const { layouts, conflict } = assignLayouts(ir, roles)
  if (conflict) throw new Error(`${ir.name}: ${conflict.value.op} at ${conflict.value.site} has two layouts`)
  const wanted = new Map<Node, TensorPlan>()
  for (const node of walk(ir.body)) {
    const isStore = node.op === 'store' || opOf(node).completes === 'at drain'
    if (!isStore || !isFragment(node.inputs[1]) || isSplat(node.inputs[1])) continue
    const made = copies.ofStore(node, layouts.of(node.inputs[1]))
    if (made) wanted.set(node, made)
  }
  const memory = planMemory(ir, facts, { tiles, stores: wanted, groupOf, roles, layouts })
  const { space, shared, record, stores } = memory
  expectFits(space, ir, { tiles: [...tiles.values()], scratch: shared.scratch })
  const early = record ? undefined : planEarly(ir, roles)
  const arrivers = planArrivers(ir, groupOf)
  const all = [...walk(ir.body)]
  const products = new Map(
    all
      .filter((node) => node.op === 'dot')
      .map((node) => [node, productIn(node, layouts.of(node), groupOf.get(node)!)]),
  )
  const inFlight = new Set(
    all.filter((node) => opOf(node).completes === 'at quiet' && copies.ofCopy(node).how === 'tensor'),
  )
  const accesses = all.flatMap((node) =>
    accessesOf(node, { layouts, copies, stores, products, scratch: shared.scratch }),
  )
  return {
    ir,
    facts,
    ranges,
    tiles,
    copies,
    roles,
    groupOf,
    layouts,
    stores,
    inFlight,
    products,
    scratch: shared.scratch,
    shared,
    record,
    early,
    clerk: clerkOf(roles, early),
    isOpenEnded: all.some(isOpenEnded),
    start: planStart(ir, roles),
    loops: planLoops(ir, { layouts, products, groupOf }),
    uses: new Uses(ir.body),
    overlaps: planOverlap(ir).filter(
      ({ dot, arrivals }) =>
        isByWarpgroups(products.get(dot)) &&
        arrivals.every((arrival) => arrivers.get(arrivesAt(arrival)!) === groupOf.get(dot)!.warps),
    ),
    arrivers,
    warpgroupBarriers: planWarpgroupBarriers(stores, groupOf, roles),
    tileGroup: tileGroupOf(ir, TILE_ROWS),
    mayHaveWritten: planWritten(ir, (node) => stores.has(node) || inFlight.has(node)),
    usesCopyEngine: all.some(
      (node) => opOf(node).completes === 'at barrier' && copies.ofCopy(node).how === 'tensor',
    ),
    touchedByThreads: new Set(
      accesses.flatMap(({ base, by }) =>
        ['threads', 'fetch'].includes(by) && declaresTile(base) ? [base] : [],
      ),
    ),
    seenByEngines: new Set(
      accesses.flatMap(({ base, by }) =>
        by === 'engineStore' || (by !== 'threads' && by !== 'fetch' && declaresTile(base)) ? [base] : [],
      ),
    ),
    sharedBytes: space.used + BASE_ALIGNMENT,
    notes: notesOf({ ir, roles, layouts, products, groupOf }),
  }
}

/** Maps each IR node to the group of warps that executes it. */
function groupsOf(ir: KernelIR, roles: RolesPlan): ReadonlyMap<Node, Group> {
  const groups = new Map<Node, Group>()
  const visit = (block: Block, group: Group): void => {
    for (const node of block.nodes) {
      groups.set(node, group)
      node.blocks.forEach((inner) => visit(inner, roles.groups.get(inner) ?? group))
    }
  }
  visit(ir.body, roles.whole)
  return groups
}

interface MemoryUsers {
  readonly tiles: ReadonlyMap<Node, Tile>
  /** Maps each store that TMA can make to its plan. TMA makes the store only if its staging buffers fit. */
  readonly stores: ReadonlyMap<Node, TensorPlan>
  readonly groupOf: ReadonlyMap<Node, Group>
  readonly roles: RolesPlan
  readonly layouts: Layouts
}

interface MemoryPlan {
  readonly space: SharedSpace
  readonly shared: SharedPlan
  readonly record: RecordPlan | undefined
  /** Maps each store that TMA makes to its plan. */
  readonly stores: ReadonlyMap<Node, TensorPlan>
}

/**
 * Plans the shared memory of a program. The fewest thread barriers are needed if each node has scratch memory of its
 * own. If so much scratch memory does not fit into shared memory, the nodes of a group use one region in turn.
 */
function planMemory(ir: KernelIR, facts: EmitFacts, users: MemoryUsers): MemoryPlan {
  const plan = (inTurn: boolean): MemoryPlan => {
    const space = new SharedSpace(deviceOf(facts).sharedBytes)
    const stores = new Map(users.stores)
    const reserved = facts.record ? recordBytes(users.roles) : 0
    const shared = planShared(ir, { ...users, stores, reserved, inTurn }, space)
    return { space, shared, stores, record: facts.record ? planRecord(users.roles, space) : undefined }
  }
  const apart = plan(false)
  return apart.space.hasRoom(0) ? apart : plan(true)
}

interface SharedUsers extends MemoryUsers {
  readonly stores: Map<Node, TensorPlan>
  /** Bytes of shared memory that must stay free for the recording of events. */
  readonly reserved: number
  /** True if the nodes of a group use one region of scratch memory in turn. */
  readonly inTurn: boolean
}

function planShared(ir: KernelIR, users: SharedUsers, space: SharedSpace): SharedPlan {
  const { tiles, stores, groupOf, roles, layouts, reserved, inTurn } = users
  const places = new Map<Node, Region>()
  const bySize = [...tiles.values()].sort((a, b) => Number(a.span === 0) - Number(b.span === 0))
  for (const tile of bySize)
    places.set(tile.node, space.take(tile.stages * tile.stageBytes, tile.span === 0 ? 128 : 1024))
  const scratch = planScratch(groupOf, layouts, space, inTurn)
  const barriers = new Map<Node, Region>()
  const nodes = [...walk(ir.body)].filter(declaresBarriers)
  const exchange = new Map<Group, number>([...roles.groups.values(), roles.whole].map((group) => [group, 16]))
  for (const [node, group] of groupOf)
    if (opOf(node).elements === 'reduced' && !isFragment(node))
      exchange.set(group, Math.max(exchange.get(group)!, 8 * group.warps))
  const small =
    reserved +
    nodes.reduce((sum, node) => sum + 8 * attribute<number>(node, 'count'), 0) +
    [...exchange.values()].reduce((sum, bytes) => sum + bytes + 16, 0)
  const staging = planStaging(stores, groupOf, space, small)
  for (const node of nodes) barriers.set(node, space.take(8 * attribute<number>(node, 'count'), 8))
  const exchanges = new Map([...exchange].map(([group, bytes]) => [group, space.take(bytes, 16)]))
  return { tiles: places, barriers, staging, exchange: exchanges, scratch }
}

/**
 * Allocates staging buffers for TMA stores, one buffer per group of warps. If a buffer does not fit, the threads of the
 * group store directly instead.
 */
function planStaging(
  stores: Map<Node, TensorPlan>,
  groupOf: ReadonlyMap<Node, Group>,
  space: SharedSpace,
  small: number,
): Map<Group, Region> {
  const staging = new Map<Group, Region>()
  for (const node of [...stores.keys()]) {
    const group = groupOf.get(node)!
    if (staging.has(group)) continue
    const bytes = (2 * group.warps * STAGING_BOX) / 4
    if (space.hasRoom(1024 + bytes + small)) staging.set(group, space.take(bytes, 1024))
    else stores.delete(node)
  }
  return staging
}

/**
 * Returns the number of the thread that advances the flag epochs, which takes about a microsecond: a thread of an idle
 * warp of the producer's warpgroup if there is one, otherwise the last thread.
 */
function clerkOf({ block, groups }: RolesPlan, early: EarlyPlan | undefined): number {
  const spare = [...groups.values()].find(({ solo, warps }) => solo && warps > 1)
  const isBehind = early && spare && spare.branch === early.group.branch
  return spare && (!early || isBehind) ? spare.first + 32 : block - 1
}

function planWarpgroupBarriers(
  stores: ReadonlyMap<Node, TensorPlan>,
  groupOf: ReadonlyMap<Node, Group>,
  roles: RolesPlan,
): ReadonlyMap<Group, number> {
  const barriers = new Map<Group, number>()
  let next = roles.freeBarrier
  for (const node of stores.keys()) {
    const group = groupOf.get(node)!
    if (barriers.has(group)) continue
    barriers.set(group, next)
    next += group.warps / 4
  }
  return barriers
}

/**
 * Returns the number of hardware arrivals for one `barrier.arrive` at each mbarrier: one arrival per warp if all groups
 * that arrive at the mbarrier have equally many warps, otherwise one arrival.
 */
function planArrivers(ir: KernelIR, groupOf: ReadonlyMap<Node, Group>): ReadonlyMap<Node, number> {
  const arrivers = new Map<Node, number>()
  for (const node of walk(ir.body)) {
    const barriers = arrivesAt(node)
    if (!barriers) continue
    const group = groupOf.get(node)!
    const count = group.solo ? 1 : group.warps
    arrivers.set(barriers, (arrivers.get(barriers) ?? count) === count ? count : 1)
  }
  return arrivers
}

/** The number of hardware arrivals that complete one phase of the mbarriers that a node declares. */
export const hardwareArrivals = (node: Node, { arrivers }: Pick<Decisions, 'arrivers'>): number =>
  attribute<number>(node, 'arrivals') * (arrivers.get(node) ?? 1)

/**
 * Returns a predicate: true if the program itself may have written the memory behind a ref with ordinary stores. A
 * local read does not see writes to other ranks, and a read from another rank does not see local writes.
 */
function planWritten({ body, world }: KernelIR, isByEngine: (node: Node) => boolean): (ref: Node) => boolean {
  const isElsewhere = elsewhere(body, world)
  const refs = [...walk(body)].filter((node) => !isByEngine(node)).flatMap(writtenRefs)
  const basesOf = (some: readonly Node[]): ReadonlySet<Node> => new Set(some.map((ref) => origin(ref).base))
  const [all, remotely] = [basesOf(refs), basesOf(refs.filter(isRemote))]
  const atHome = basesOf(refs.filter((ref) => !isElsewhere(ref)))
  const writtenWhere = (ref: Node): ReadonlySet<Node> => {
    if (!isRemote(ref)) return atHome
    return isElsewhere(ref) ? remotely : all
  }
  return (ref) => writtenWhere(ref).has(origin(ref).base)
}

/** The tensors and shared tiles that a node writes, not counting the writes of nodes in its blocks. */
export const writtenBases = (node: Node): Node[] => writtenRefs(node).map((ref) => origin(ref).base)
