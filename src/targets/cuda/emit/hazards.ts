/**
 * Tracks memory hazards inside a group. The language guarantees that a role executes sequentially. The group of warps
 * that executes a role has many threads, however, and TMA and the tensor cores access memory asynchronously. `Hazards`
 * records the accesses since the last thread barrier of the group. For the next access, the class determines the
 * required synchronisation: a thread barrier, a fence between ordinary and asynchronous accesses, or the completion of
 * TMA stores. Different tensor parameters are assumed to refer to disjoint memory, because a launch rejects the same
 * tensor for two parameters if the kernel writes either of them.
 */
import { attribute, walk, type Node } from '../../../ir/node.ts'
import {
  copyOf,
  declaresTile,
  entryOf,
  isPassive,
  opOf,
  opsWith,
  origin,
  readRefs,
  writtenRefs,
  STAGING_PLACES,
  type MemoryName,
} from '../../../ir/ops/index.ts'
import type { RefType } from '../../../ir/type.ts'
import { isFragment, type Layouts } from './assign.ts'
import type { CopyPlanner, TensorPlan } from './copies.ts'
import { isByWarpgroups, type Product } from './products.ts'
import type { Scratch } from './scratch.ts'
import { hasView, viewOf, type TensorView } from './views.ts'

export interface Access {
  /** The tensor parameter or shared tile that is accessed. */
  readonly base: Node
  readonly ref: Node
  readonly writes: boolean
  /**
   * `threads`: ordinary loads and stores. `engine`: accesses by TMA or wgmma. `engineStore`: TMA stores that may not
   * have completed. `inFlight`: TMA copies that may not have completed and that the author completes with `quiet`.
   * `fetch`: cp.async copies that may not have completed and that the author completes with `quiet`.
   */
  readonly by: 'threads' | 'engine' | 'engineStore' | 'inFlight' | 'fetch'
  /** The number of boxes of this TMA store that TMA may still be reading from staging memory. */
  readonly boxes?: number
  /**
   * A string that identifies the assignment of elements to threads. If the strings of two accesses are equal, the same
   * thread makes both accesses to an element.
   */
  readonly dealt: string
}

export interface Plans {
  readonly layouts: Layouts
  readonly copies: CopyPlanner
  readonly stores: ReadonlyMap<Node, TensorPlan>
  readonly products: ReadonlyMap<Node, Product>
  /** Maps each node whose threads exchange elements to the shared memory for the exchange. */
  readonly scratch: ReadonlyMap<Node, Scratch>
}

/** The memory accesses of a node without its nested blocks, including accesses to the scratch memory of the node. */
export function accessesOf(node: Node, plans: Plans): Access[] {
  const inScratch = (of: Node, writes: boolean): Access[] => {
    const region = plans.scratch.get(of)
    return region ? [{ base: region.owner, ref: of, writes, by: 'threads', dealt: 'all' }] : []
  }
  return [
    ...namedAccesses(node, plans),
    ...node.inputs.filter(({ type }) => type.kind === 'ref').flatMap((ref) => inScratch(ref, false)),
    ...inScratch(node, true),
  ]
}

/** Returns the write access of an asynchronous copy to its target. */
export function fillOf(node: Node, { copies }: Plans): Access {
  const by = copies.ofCopy(node).how === 'tensor' ? 'engine' : 'threads'
  const { target } = copyOf(node)!
  return { base: origin(target).base, ref: target, writes: true, by, dealt: 'copy' }
}

function namedAccesses(node: Node, plans: Plans): readonly Access[] {
  if (opOf(node).accesses.length === 0) return []
  return entryOf(
    named,
    node,
    'accesses memory, but the hazard analysis does not know whether threads or an engine make the access',
  )(node, plans)
}

const access = (ref: Node, writes: boolean, by: Access['by'], dealt: string): Access => ({
  base: origin(ref).base,
  ref,
  writes,
  by,
  dealt,
})

/**
 * Returns a string that identifies the assignment of a fragment's elements to threads. The string is empty for a
 * scalar.
 */
function dealtAs(value: Node, { layouts }: Plans): string {
  if (!isFragment(value)) return ''
  const { key, count } = layouts.of(value)
  return `${key} ${count}`
}

const named: Readonly<Record<MemoryName, (node: Node, plans: Plans) => readonly Access[]>> = {
  load: (node, plans) => [access(node.inputs[0], false, 'threads', dealtAs(node, plans) || 'all')],
  store: (node, plans) => {
    const [ref, value] = node.inputs
    const plan = plans.stores.get(node)
    if (plan) return [{ ...access(ref, true, 'engineStore', 'engine'), boxes: plan.boxes.length }]
    return [access(ref, true, 'threads', dealtAs(value, plans) || 'leader')]
  },
  copy(node, { copies }) {
    const [source, target] = node.inputs
    const dealt = `${copies.ofCopy(node).how} ${(source.type as RefType).shape.join('x')}`
    return [access(source, false, 'threads', dealt), access(target, true, 'threads', dealt)]
  },
  // An asynchronous copy does not list the write to its target, because the kernel's author orders this write with the
  // mbarrier on which the copy completes.
  ...opsWith({ completes: 'at barrier' }, (node: Node, { copies }: Plans) =>
    readRefs(node).map((ref) =>
      access(ref, false, copies.ofCopy(node).how === 'tensor' ? 'engine' : 'threads', 'copy'),
    ),
  ),
  ...opsWith({ completes: 'at quiet' }, (node: Node, { copies }: Plans) => {
    const by = copies.ofCopy(node).how === 'chunks' ? 'fetch' : 'inFlight'
    return [
      ...readRefs(node).map((ref) => access(ref, false, by, by)),
      ...writtenRefs(node).map((ref) => access(ref, true, by, by)),
    ]
  }),
  'put.signal': ({ op }) => {
    throw new Error(`${op} must be replaced before the hazard analysis for a GPU`)
  },
  dot(node, { products }) {
    const [by, dealt] = isByWarpgroups(products.get(node))
      ? (['engine', 'engine'] as const)
      : (['threads', 'product'] as const)
    return readRefs(node).map((ref) => access(ref, false, by, dealt))
  },
  // Accesses to staging memory are not listed: each staging buffer belongs to the TMA stores of one role, and `boxes`
  // orders its accesses.
  stage: () => [],
  // Operands that are staged in shared memory use the scratch memory of their matrix product, whose accesses
  // `accessesOf` lists.
  operands: () => [],
  'store.box': ({ inputs: [ref] }) => [access(ref, true, 'engineStore', 'engine')],
  // Flag-in-data words need no synchronisation, because each word contains its epoch.
  'words.post': () => [],
  'words.take': () => [],
  ...opsWith({ effect: 'write', elements: 'other' }, (atomic: Node, plans: Plans) => [
    access(atomic.inputs[0], true, 'threads', dealtAs(atomic, plans) || 'leader'),
  ]),
}

export interface Need {
  readonly meet: boolean
  readonly fenceShared: boolean
  readonly fenceGlobal: boolean
  readonly drain: boolean
  /** The earlier accesses that make the synchronisation necessary, one for each tensor, tile or scratch region. */
  readonly conflicting: readonly Node[]
}

interface Pending extends Access {
  /**
   * The loop in whose previous iteration the access happened, or undefined if the access happened in the current
   * iteration.
   */
  readonly before: Node | undefined
}

/** A snapshot of the pending accesses, taken where branches diverge or a loop begins. */
export interface Pendings {
  readonly accesses: readonly Pending[]
  readonly unfenced: readonly Access[]
  readonly isUnfenced: boolean
}

export class Hazards {
  #pending: Pending[] = []
  /**
   * The writes of threads that engines cannot see yet, because no proxy fence followed. A thread barrier does not make
   * the writes of threads visible to engines (TMA and the matrix unit). (TMA copies that the author wrote execute their
   * own fence for tensors: `Decisions.mayHaveWritten`.)
   */
  #unfenced: readonly Access[] = []
  /**
   * True if TMA could overwrite shared tiles that threads are still reading. The initial value of `#isUnfenced` is
   * true, because the accesses before the start of the group are unknown.
   */
  #isUnfenced = true
  readonly #seenByEngines: ReadonlySet<Node>

  /** `seenByEngines` contains the tensors and shared tiles that TMA or the matrix unit accesses. */
  constructor(seenByEngines: ReadonlySet<Node>) {
    this.#seenByEngines = seenByEngines
  }

  /**
   * Returns the hazards at the start of a role. At the start of a role, all threads have synchronised, but they may not
   * have executed a proxy fence.
   */
  ofRole(): Hazards {
    const made = new Hazards(this.#seenByEngines)
    made.#unfenced = this.#unfenced
    return made
  }

  need(accesses: readonly Access[]): Need {
    const conflicts = accesses.flatMap((now) =>
      this.#pending.filter((then) => conflict(then, now)).map((then) => ({ then, now })),
    )
    const crossing = [
      ...conflicts.filter(({ then, now }) => isWrittenByThreads(then) && isByEngine(now)),
      ...accesses.flatMap((now) =>
        this.#unfenced.filter((then) => isUnseen(then, now)).map((then) => ({ then, now })),
      ),
    ]
    return {
      meet: conflicts.length > 0,
      fenceShared: crossing.some(({ then }) => isShared(then)),
      fenceGlobal: crossing.some(({ then }) => !isShared(then)),
      drain: conflicts.some(({ then }) => then.by === 'engineStore'),
      conflicting: [
        ...new Map([...conflicts, ...crossing].map(({ then }) => [then.base, then.ref])).values(),
      ],
    }
  }

  add(accesses: readonly Access[]): void {
    for (const access of accesses) this.#pending.push({ ...access, before: undefined })
    this.#write(accesses)
  }

  #write(accesses: readonly Access[]): void {
    const seen = accesses.filter(
      (access) => isWrittenByThreads(access) && this.#seenByEngines.has(access.base),
    )
    this.#unfenced = [...this.#unfenced, ...seen]
  }

  /** Records that all threads of the group have executed a proxy fence for the memory `space`. */
  fence(space: 'shared' | 'all'): void {
    this.#unfenced = space === 'all' ? [] : this.#unfenced.filter((access) => !isShared(access))
  }

  /** Records that the threads of the group have synchronised at a thread barrier. */
  meet(): void {
    this.handedBack()
    this.#pending = this.#pending.filter(({ by }) => ['engineStore', 'inFlight', 'fetch'].includes(by))
  }

  /** Records that threads of any group have finished with shared tiles, which TMA may then fill again. */
  handedBack(): void {
    this.#isUnfenced = true
  }

  /**
   * True if TMA could overwrite a shared tile that threads may still be reading. A thread barrier orders the loads of
   * threads before later accesses of other threads. Loads are ordered before later TMA writes only if a thread also
   * executes a fence. (Without this fence, matrix products of small tiles gave wrong results, because an arrival at an
   * mbarrier can overtake queued `ldmatrix` loads.)
   */
  get isUnfenced(): boolean {
    return this.#isUnfenced
  }

  fenced(): void {
    this.#isUnfenced = false
  }

  /** Records that all TMA stores have completed. */
  drained(): void {
    this.#pending = this.#pending.filter(({ by }) => by !== 'engineStore' && by !== 'inFlight')
  }

  /**
   * Records that each thread has waited for its copies in flight. After this call, the caller must insert a thread
   * barrier.
   */
  fetched(): void {
    const done = this.#pending.filter(({ by }) => by === 'fetch')
    this.#pending = this.#pending.filter(({ by }) => by !== 'fetch')
    this.#write(done.map((access) => ({ ...access, by: 'threads' })))
  }

  /** Records that TMA has read all boxes of earlier stores. */
  boxesRead(): void {
    this.#pending = this.#pending.map((access) => (access.boxes ? { ...access, boxes: 0 } : access))
  }

  /**
   * True if TMA may still be reading the staging buffer that the next TMA store fills first. The boxes of a store use
   * two staging buffers alternately, and every store begins with the same buffer.
   */
  get isStagingInUse(): boolean {
    return this.#pending.some(({ boxes = 0 }) => boxes % STAGING_PLACES === 1)
  }

  get isClear(): boolean {
    return this.#pending.length === 0
  }

  get hasStoresUnderWay(): boolean {
    return this.#pending.some((access) => access.by === 'engineStore')
  }

  /** True if TMA copies are in flight that the author of the kernel completes with `quiet`. */
  get hasCopiesInFlight(): boolean {
    return this.#pending.some((access) => access.by === 'inFlight')
  }

  /** True if copies by threads (cp.async) are in flight. */
  get hasFetches(): boolean {
    return this.#pending.some((access) => access.by === 'fetch')
  }

  /** True if threads have written shared tiles since the last thread barrier. */
  get hasSharedWrites(): boolean {
    return this.#pending.some((access) => isWrittenByThreads(access) && isShared(access))
  }

  /**
   * True if threads have written shared tiles that engines access, and no proxy fence has made the writes visible to
   * engines yet.
   */
  get hasUnfencedTiles(): boolean {
    return this.#unfenced.some(isShared)
  }

  /**
   * Adds all accesses of a loop as pending accesses of its previous iteration. This function must be called before the
   * accesses of the loop's body are added.
   */
  enterLoop(loop: Node, plans: Plans): void {
    for (const block of loop.blocks)
      for (const node of walk(block))
        for (const access of accessesOf(node, plans)) {
          this.#pending.push({ ...access, before: loop })
          this.#write([access])
        }
    this.handedBack()
  }

  snapshot(): Pendings {
    return { accesses: [...this.#pending], unfenced: this.#unfenced, isUnfenced: this.#isUnfenced }
  }

  /** Records that branches join: an access is then pending if it is pending at the end of any branch. */
  restore(...branches: readonly Pendings[]): void {
    this.#pending = [...new Set(branches.flatMap(({ accesses }) => accesses))]
    this.#unfenced = [...new Set(branches.flatMap(({ unfenced }) => unfenced))]
    this.#isUnfenced = branches.some(({ isUnfenced }) => isUnfenced)
  }
}

const isByEngine = ({ by }: Access): boolean => by !== 'threads' && by !== 'fetch'
const isWrittenByThreads = ({ writes, by }: Access): boolean => writes && by === 'threads'
const isShared = ({ base }: Access): boolean => declaresTile(base)

/**
 * True if an engine accesses memory that threads have written, and no proxy fence was executed between the write and
 * the access.
 */
const isUnseen = (then: Access, now: Access): boolean =>
  then.base === now.base &&
  (now.by === 'engineStore' || (isByEngine(now) && isShared(now))) &&
  !isApart(then.ref, now.ref)

function conflict(then: Pending, now: Access): boolean {
  if (then.base !== now.base || !(then.writes || now.writes)) return false
  // The author of a kernel calls `quiet` between a copy in flight and later accesses to the same memory.
  if (then.by === 'inFlight' || then.by === 'fetch') return false
  if (then.by === 'engine' && now.by === 'engine') return false
  if (then.dealt === 'leader' && now.dealt === 'leader') return false
  if (isApart(then.ref, now.ref)) return false
  if (then.ref !== now.ref || mayRepeat(now.ref)) return true
  if (then.before && isDistinct(now.ref, then.before)) return false
  if (then.dealt !== now.dealt || then.by !== 'threads' || then.dealt === 'all') return true
  return then.before !== undefined && !isAligned(now.ref, then.before)
}

/** True if two tiles are disjoint because they are picked from the same axis with different constant indices. */
function isApart(a: Node, b: Node): boolean {
  if (a === b || a.op !== 'tile' || b.op !== 'tile') return false
  const [left, right] = [tensorView(a.inputs[0]), tensorView(b.inputs[0])]
  const constants = (view: TensorView | undefined) =>
    new Map(
      view?.picks
        .filter(({ index, starts }) => index.op === 'const' && starts.length === 0)
        .map(({ axis, index }) => [axis, attribute<number>(index, 'value')]),
    )
  const others = constants(right)
  return [...constants(left)].some(([axis, value]) => others.has(axis) && others.get(axis) !== value)
}

/** True if two indices of a gather or scatter, held by different threads, may refer to the same element. */
function mayRepeat(ref: Node): boolean {
  if (ref.op !== 'at' || ref.type.kind !== 'ref' || ref.type.shape.length === 0) return false
  return ref.type.shape.length > 1 || !ref.inputs.slice(1).some(countsUp)
}

/** True if the indices are 0, 1, 2, …, optionally plus a scalar that is the same for all elements. */
function countsUp(node: Node): boolean {
  if (node.op === 'iota') return true
  if (node.op !== 'add') return false
  const [a, b] = node.inputs
  return (countsUp(a) && b.op === 'broadcast') || (countsUp(b) && a.op === 'broadcast')
}

/**
 * True if a reference denotes a different tile in every iteration of a loop. Each loop index must select the tile along
 * an axis whose window does not change during the loop.
 */
function isDistinct(ref: Node, loop: Node): boolean {
  if (loop.op !== 'for' && loop.op !== 'persistent') return false
  const view = ref.op === 'tile' ? tensorView(ref.inputs[0]) : undefined
  if (!view) return false
  const [body] = loop.blocks
  const indices = body.params.slice(0, loop.op === 'for' ? 1 : attribute<number>(loop, 'axes'))
  const chosen = [
    ...view.axes.map(({ starts }, i) => ({ index: ref.inputs[1 + i], starts })),
    ...view.picks,
  ].filter(({ starts }) => starts.every((start) => isInvariant(start, loop)))
  return indices.every((own) => chosen.some(({ index }) => index === own))
}

/**
 * True if, for any two iterations of a loop, a ref denotes either the same elements or disjoint elements. `isAligned`
 * is true for tiles of windows that do not change during the loop, whatever the indices of the tiles are, and for the
 * copies of a tensor on different ranks.
 */
function isAligned(ref: Node, loop: Node): boolean {
  if (isInvariant(ref, loop)) return true
  if (ref.op === 'pick' && ref.inputs[0].type.kind === 'ref') return isAligned(ref.inputs[0], loop)
  const view = ref.op === 'tile' || ref.op === 'at' ? tensorView(ref.inputs[0]) : undefined
  if (!view) return false
  const starts = [...view.axes, ...view.picks].flatMap((axis) => axis.starts)
  const fixed = ref.op === 'tile' ? starts : [...starts, ...ref.inputs.slice(1)]
  return fixed.every((one) => isInvariant(one, loop))
}

/**
 * Describes a view of a tensor parameter by its windows and picked indices. The result is undefined for gathered rows,
 * which windows and picked indices cannot describe.
 */
function tensorView(node: Node): TensorView | undefined {
  for (let view = node; view.op !== 'param'; view = view.inputs[0]) if (!hasView(view)) return undefined
  return viewOf(node)
}

/** True if a node has the same value in every iteration of a loop. */
function isInvariant(node: Node, loop: Node): boolean {
  const inside = insideOf(loop)
  const visit = (one: Node): boolean =>
    !inside.has(one) || (one.op !== 'param' && isPassive(one) && one.inputs.every(visit))
  return visit(node)
}

const insides = new WeakMap<Node, ReadonlySet<Node>>()

/** All nodes inside a loop, including nested blocks and the params of all blocks. */
function insideOf(loop: Node): ReadonlySet<Node> {
  const known = insides.get(loop)
  if (known) return known
  const inside = new Set<Node>()
  for (const block of loop.blocks) {
    block.params.forEach((param) => inside.add(param))
    for (const node of walk(block)) {
      inside.add(node)
      for (const { params } of node.blocks) params.forEach((param) => inside.add(param))
    }
  }
  insides.set(loop, inside)
  return inside
}
