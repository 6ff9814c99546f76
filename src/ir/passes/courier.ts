/**
 * What a consumer sends to other ranks before its first product, in a role of its own beside it, so that products need not wait until
 * it is sent. The role has two of the producer's warps: where the producer is one thread, they are idle.
 *
 *   consumer:  load(a); store(inbox on peers); signal(arrived on peers); wait(full[slot], phase); dot; ...
 *
 *   courier:   load(a); store(inbox on peers); signal(arrived on peers)
 *   consumer:  wait(full[slot], phase); dot; ...
 *
 * The consumer did the one before the other, and nobody may miss that. Somebody could, and so all stays as it is, where
 *
 * - what remains uses what the courier loads or computes. Scalars and places that both need are computed by both;
 * - the consumer or the producer writes, on whichever rank, what the courier loads: the load came first. Of other ranks' writes none
 *   is ordered behind it but by the courier's own signals, or by the end of the kernel;
 * - either of them reads on another rank what the courier stores, or writes it anywhere: the store came first. On its own rank it may be
 *   read: the courier stores on other ranks alone, and what those send is behind flags;
 * - the consumer releases something, by a signal, an ordered store, an atomic, a fence, or as the last program: that covered what was
 *   sent before, and would no longer. Its arrivals at the ring release to the producer, who looks at nothing of the courier's and
 *   releases nothing itself;
 * - the courier would acquire something, from a flag or by an ordered load: what remains counted on that. Without, it has nothing to wait
 *   for, and ends whatever becomes of the others; a loop without a bound might not;
 * - it would store or signal on its own rank, where what remains may look; or use shared memory; or need a fence or an atomic, whose order is
 *   one with all that a role does.
 *
 * What the courier stores comes before what it signals, as ever. It starts when the kernel before has ended, and the program ends
 * after it: launches and the host see what they saw.
 */
import { analysis } from '../analysis.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../node.ts'
import { isPassive, isRemote, isStrong, origin, writtenRefs, type OpName } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { RefType } from '../type.ts'
import { verify } from '../verify.ts'
import { hasEffect, removeDead } from './dead.ts'
import { elsewhere } from './elsewhere.ts'

/** Of the producer's four, which needs one. */
const COURIER_WARPS = 2

/** The roles that share a warpgroup, by name; others have warpgroups of their own. */
export const togetherOf = (roles: Node): readonly string[] =>
  (roles.attributes.together as readonly string[] | undefined) ?? []

/** The roles of a kernel that does nothing else. */
export function soleRoles(body: Block): Node | undefined {
  const [node, ...others] = body.nodes.filter((one) => !isPassive(one))
  return node?.op === 'roles' && others.length === 0 ? node : undefined
}

/** Undefined: there are no such roles, nothing to send before the first product, or somebody could tell. */
export const detachCourier = analysis('courier', withDetachedCourier)

function withDetachedCourier(ir: KernelIR): KernelIR | undefined {
  const roles = soleRoles(ir.body)
  if (!roles || !isOfPipeline(ir.body, roles)) return undefined
  const [producer, consumer] = roles.blocks
  const split = partsOf(consumer)
  if (split.moved.size === 0 || !isApart(split)) return undefined
  const isElsewhere = elsewhere(consumer, ir.world)
  const courier = [...split.sent].flatMap(withInner)
  const rest = [...walk(producer), ...[...split.rest].flatMap(withInner)]
  if (!courier.every((node) => isOfCourier(node, isElsewhere)) || !rest.every(releasesNothing))
    return undefined
  return sharesMemory(courier, rest) ? undefined : withCourier(ir, roles, split)
}

/** Producer and consumer of a ring, with no other barriers: those that an author makes are of none. */
function isOfPipeline({ nodes }: Block, roles: Node): boolean {
  const barriers = nodes.filter(({ op }) => op === 'barriers')
  const isOfRing = barriers.length > 0 && barriers.every(({ attributes }) => attributes.ring !== undefined)
  return isOfRing && attribute<readonly string[]>(roles, 'names').join() === 'producer,consumer'
}

/** Nodes of the consumer's block itself. */
interface Parts {
  /** What has an effect, before the ring is used first. */
  readonly moved: ReadonlySet<Node>
  /** All that the courier executes: what moves, and what that needs. */
  readonly sent: ReadonlySet<Node>
  /** All that the consumer still executes. */
  readonly rest: ReadonlySet<Node>
}

function partsOf({ nodes }: Block): Parts {
  const ring = nodes.findIndex((node) => withInner(node).some(({ inputs }) => inputs.some(isBarrier)))
  const [before, after] = ring < 0 ? [[], nodes] : [nodes.slice(0, ring), nodes.slice(ring)]
  const moved = new Set(before.filter(hasEffect))
  return { moved, sent: withNeeded(moved, before), rest: withNeeded(after, before) }
}

const isBarrier = ({ type }: Node): boolean => type.kind === 'barriers' && type.count === 0

/** The given nodes, and those among the others that they depend on. */
function withNeeded(given: Iterable<Node>, others: readonly Node[]): ReadonlySet<Node> {
  const needed = new Set(given)
  // Those that come later are added while earlier ones are still to be asked for.
  for (const other of [...others].reverse())
    if ([...needed].some((node) => dependsOn(node, other))) needed.add(other)
  return needed
}

const dependsOn = (node: Node, other: Node): boolean =>
  withInner(node).some(
    ({ inputs, blocks }) => inputs.includes(other) || blocks.some(({ results }) => results.includes(other)),
  )

const withInner = (node: Node): readonly Node[] => [node, ...node.blocks.flatMap((block) => [...walk(block)])]

/** Whether the two have nothing in common but what costs nothing to have twice. */
const isApart = ({ sent, rest }: Parts): boolean =>
  [...sent].every((node) => !rest.has(node) || (isPassive(node) && !isFragment(node)))

const isFragment = ({ type }: Node): boolean => type.kind === 'value' && type.shape.length > 0

function isOfCourier(node: Node, isElsewhere: (place: Node) => boolean): boolean {
  return isPassive(node) || (courierOps[node.op]?.(node, isElsewhere) ?? false)
}

/** The ops that a courier may execute besides pure ones, and where each may act. An op without an entry stays with the consumer. */
const courierOps: Readonly<
  Partial<Record<OpName, (node: Node, isElsewhere: (place: Node) => boolean) => boolean>>
> = {
  load: (node) => !isStrong(node) && isGlobal(node.inputs[0]),
  store: ({ inputs: [place] }, isElsewhere) => isGlobal(place) && isElsewhere(place),
  signal: ({ inputs: [flag] }, isElsewhere) => isElsewhere(flag),
  for: () => true,
  persistent: () => true,
  if: () => true,
}

const isGlobal = ({ type }: Node): boolean => (type as RefType).space === 'global'

/**
 * True if the node releases nothing that was done before it to another program or rank. Arrivals at the ring release to the producer
 * only. An op without an entry may release.
 */
const releasesNothing = (node: Node): boolean => isPassive(node) || (quietOps[node.op]?.(node) ?? false)

const always = (): boolean => true

const quietOps: Readonly<Partial<Record<OpName, (node: Node) => boolean>>> = {
  store: (node) => !isStrong(node),
  load: always,
  copy: always,
  'copy.async': always,
  dot: always,
  wait: always,
  reached: always,
  'barrier.wait': always,
  'barrier.arrive': always,
  for: always,
  while: always,
  persistent: always,
  if: always,
}

/** Whether the rest may come to a place that the courier comes to, and one of them writes it. */
function sharesMemory(courier: readonly Node[], rest: readonly Node[]): boolean {
  const baseOf = (ref: Node): Node => origin(ref).base
  const touched = new Set(courier.flatMap(placesOf).map(baseOf))
  const stored = new Set(courier.flatMap(writtenRefs).map(baseOf))
  return (
    rest.flatMap(writtenRefs).some((ref) => touched.has(baseOf(ref))) ||
    rest.flatMap(placesOf).some((ref) => stored.has(baseOf(ref)) && isRemote(ref))
  )
}

/** What a node reads or writes itself; of what only computes places, nothing. */
const placesOf = (node: Node): readonly Node[] =>
  isPassive(node) ? [] : node.inputs.filter(({ type }) => type.kind === 'ref')

function withCourier(ir: KernelIR, roles: Node, { moved, sent }: Parts): KernelIR {
  const [producer, consumer] = roles.blocks
  let isLeftOut = (_: Node): boolean => false
  const copier: Copier = new Copier((node) => {
    if (node === roles) return three()
    return isLeftOut(node) ? 'drop' : undefined
  })
  const without = (block: Block, leftOut: (node: Node) => boolean): Block => {
    isLeftOut = leftOut
    const made = copier.copyBlock(block)
    isLeftOut = () => false
    return made
  }
  const three = (): Node => {
    const own = new Set(consumer.nodes)
    const [producing, consuming] = attribute<readonly number[]>(roles, 'warps')
    return copier.emit(
      'roles',
      [],
      {
        names: ['producer', 'courier', 'consumer'],
        warps: [producing - COURIER_WARPS, COURIER_WARPS, consuming],
        together: ['producer', 'courier'],
      },
      [
        copier.copyBlock(producer),
        without(consumer, (node) => own.has(node) && !sent.has(node)),
        without(consumer, (node) => moved.has(node)),
      ],
      roles.site,
    )
  }
  const made = removeDead({ ...ir, body: copier.copyBlock(ir.body) })
  verify(made)
  return made
}
