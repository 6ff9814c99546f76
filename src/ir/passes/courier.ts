/**
 * Moves the sends that a consumer does before its first matrix product into an additional role, the courier. The
 * courier role runs concurrently with the consumer, so that matrix products need not wait until the data is sent. The
 * courier role uses some of the producer's warps, which are idle if the producer is one thread (`RoleShape`).
 *
 *   consumer:  load(a); store(inbox on peers); signal(arrived on peers); wait(full[slot], phase); dot; ...
 *
 *   courier:   load(a); store(inbox on peers); signal(arrived on peers)
 *   consumer:  wait(full[slot], phase); dot; ...
 *
 * In the original kernel, the sends precede all other work of the consumer role. The pass must not remove an ordering
 * on which another agent relies, so it leaves the kernel unchanged in each of the following cases:
 *
 * - The consumer uses a value that the sending role (the courier) would load or compute. Scalars and addresses are an
 *   exception: the sending role and the consumer each compute them.
 *
 * - The consumer or the producer writes, on any rank, a tensor that the sending role would load. In the original
 *   kernel, the load that moves to the sending role comes before that write. Writes by other ranks need no check: only
 *   the signals of the sending role and the end of the kernel order such writes after its load.
 *
 * - The consumer or the producer reads, on another rank, a tensor that the sending role would store, or writes that
 *   tensor on any rank. In the original kernel, the store that moves to the sending role comes before that access. The
 *   consumer and the producer may read such tensors on their own rank: the sending role stores only on other ranks, and
 *   the data that other ranks send is protected by flags.
 *
 * - The consumer releases memory by a signal, a releasing store or fence, an atomic or a `last` block. In the original
 *   kernel, a release by the consumer also published the data that the consumer had sent before; after the change, the
 *   release would no longer publish that data. Arrivals at the barriers of the buffer ring are allowed: they release
 *   only to the producer, which reads no data of the sending role and releases nothing itself.
 *
 * - The sending role would acquire, that is, wait for a flag or execute a load with an order. In the original kernel,
 *   the consumer's accesses after the acquire relied on the acquire. A sending role without acquires waits for no other
 *   role, so no other role can keep it from ending. The sending role must not contain a `while` loop, which might not
 *   end.
 *
 * - The sending role would store or signal on its own rank, where the consumer may read.
 *
 * - The sending role would use shared memory.
 *
 * - The sending role would need a fence or an atomic, which orders all accesses of a role.
 *
 * The stores of the sending role still precede its signals. The sending role starts after the previous kernel has
 * ended, and the program ends only after the sending role has ended. Other launches and the host therefore observe no
 * difference.
 */
import { analysis } from '../analysis.ts'
import { subjectOf, type Decision } from '../decisions.ts'
import { attribute, walk, type Block, type KernelIR, type Node } from '../node.ts'
import {
  declaresBarriers,
  entryOf,
  isOfStart,
  isPassive,
  isPublished,
  isRemote,
  isStrong,
  opOf,
  opsWith,
  origin,
  writtenRefs,
  type OpName,
  type OpWith,
} from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import { dutiesOf, type Duty, type RoleShape } from '../roles.ts'
import type { RefType } from '../type.ts'
import { verify } from '../verify.ts'
import { hasEffect, removeDead } from './dead.ts'
import { elsewhere } from './elsewhere.ts'

/**
 * Returns the `roles` node of a kernel whose other nodes have no effects or belong to the start of a program. Returns
 * undefined for any other kernel.
 */
export function soleRoles(body: Block): Node | undefined {
  const [node, ...others] = body.nodes.filter((one) => !isPassive(one) && !isOfStart(one))
  return node?.op === 'roles' && others.length === 0 ? node : undefined
}

/** The kernel with a courier role and the nodes that the courier executes, or the reason why there is none. */
export type Detached =
  | { readonly ir: KernelIR; readonly moved: readonly Node[]; readonly obstacle?: undefined }
  | { readonly ir?: undefined; readonly obstacle: Decision }

/**
 * Adds a courier role to a kernel. The pass adds a courier role, which sends data, only if the kernel has a producer
 * and a consumer, the consumer sends data before its first matrix product, and no other agent could observe the change.
 */
export const detachCourier = analysis('courier', withDetachedCourier, (ir) =>
  withDetachedCourier(ir, { courierWarps: 1 }),
)

type Shape = Pick<RoleShape, 'courierWarps'>

function withDetachedCourier(ir: KernelIR, shape: Shape): Detached {
  const not = (why: string, ...nodes: readonly Node[]): Detached => ({
    obstacle: { what: `no courier: ${why}`, others: nodes.map(subjectOf) },
  })
  const roles = soleRoles(ir.body)
  if (!roles || !isOfPipeline(ir.body, roles))
    return not('the kernel does not consist of only a producer and a consumer of pipelines')
  const [producer, consumer] = roles.blocks
  const split = partsOf(consumer)
  if (split.moved.size === 0)
    return not('the consumer role sends nothing to other ranks before it first uses the buffer ring')
  if (!isApart(split)) return not('the consumer role uses values that the courier role would load or compute')
  const isElsewhere = elsewhere(consumer, ir.world)
  const courier = [...split.sent].flatMap(withInner)
  const rest = [...walk(producer), ...[...split.rest].flatMap(withInner)]
  const unfit = courier.find((node) => !isOfCourier(node, isElsewhere))
  if (unfit) return not('a courier role must not execute', unfit)
  const releasing = rest.find((node) => !releasesNothing(node))
  if (releasing)
    return not('the data that the courier role would send is released by the later op', releasing)
  if (sharesMemory(courier, rest))
    return not(
      'the courier role and another role would access the same memory, and one of them would write it',
    )
  return { ir: withCourier(ir, roles, split, shape), moved: [...split.moved] }
}

/**
 * True if the roles are the producer and the consumer of a lowered pipeline and the kernel has no other barriers.
 * Barriers that the author of a kernel declares have no `ring` attribute.
 */
function isOfPipeline({ nodes }: Block, roles: Node): boolean {
  const barriers = nodes.filter(declaresBarriers)
  const isOfRing = barriers.length > 0 && barriers.every(({ attributes }) => attributes.ring !== undefined)
  const [first, second, ...others] = dutiesOf(roles)
  return isOfRing && first === 'producer' && second === 'consumer' && others.length === 0
}

/** The top-level nodes of the consumer's block, divided between the courier role and the consumer. */
interface Parts {
  /**
   * The nodes with an effect that precede the first use of the buffer ring. The nodes before the first use of the
   * buffer ring move from the consumer to the courier role.
   */
  readonly moved: ReadonlySet<Node>
  /** All nodes that the courier executes: the moved nodes and the nodes that they depend on. */
  readonly sent: ReadonlySet<Node>
  /** All nodes that the consumer still executes. */
  readonly rest: ReadonlySet<Node>
}

function partsOf({ nodes }: Block): Parts {
  const ring = nodes.findIndex((node) => withInner(node).some(({ inputs }) => inputs.some(isBarrier)))
  const [before, after] = ring < 0 ? [[], nodes] : [nodes.slice(0, ring), nodes.slice(ring)]
  const moved = new Set(before.filter(hasEffect))
  return { moved, sent: withNeeded(moved, before), rest: withNeeded(after, before) }
}

const isBarrier = ({ type }: Node): boolean => type.kind === 'barriers' && type.count === 0

/** Returns the given nodes and those nodes of `others` on which they depend, directly or indirectly. */
function withNeeded(given: Iterable<Node>, others: readonly Node[]): ReadonlySet<Node> {
  const needed = new Set(given)
  // In reverse order, a node is visited after all nodes that may depend on it, so one pass finds indirect dependences.
  for (const other of [...others].reverse())
    if ([...needed].some((node) => dependsOn(node, other))) needed.add(other)
  return needed
}

const dependsOn = (node: Node, other: Node): boolean =>
  withInner(node).some(
    ({ inputs, blocks }) => inputs.includes(other) || blocks.some(({ results }) => results.includes(other)),
  )

const withInner = (node: Node): readonly Node[] => [node, ...node.blocks.flatMap((block) => [...walk(block)])]

/**
 * True if the sending role (courier) and the consumer share only scalars and references, which are cheap to compute
 * twice.
 */
const isApart = ({ sent, rest }: Parts): boolean =>
  [...sent].every((node) => !rest.has(node) || (isPassive(node) && !isFragment(node)))

const isFragment = ({ type }: Node): boolean => type.kind === 'value' && type.shape.length > 0

function isOfCourier(node: Node, isElsewhere: (place: Node) => boolean): boolean {
  return isPassive(node) || entryOf(courierOps, node)(node, isElsewhere)
}

type Passive = OpWith<{ effect: 'pure' }> | OpWith<{ effect: 'declare' }>
type Rule = (node: Node, isElsewhere: (place: Node) => boolean) => boolean

const always: Rule = () => true
const never: Rule = () => false

/**
 * The ops with effects that a sending role (courier) may execute, each with a rule about the rank whose memory it may
 * access. If the sends contain any other op with an effect, the kernel gets no courier.
 */
const courierOps: Readonly<Record<Exclude<OpName, Passive>, Rule>> = {
  ...opsWith({ effect: 'write', elements: 'other' }, never),
  ...opsWith({ completes: 'at barrier' }, never),
  ...opsWith({ completes: 'at quiet' }, never),
  ...opsWith({ waitsFor: 'programs' }, never),
  ...opsWith({ waitsFor: 'roles' }, never),
  ...opsWith({ waitsFor: 'threads' }, never),
  ...opsWith({ effect: 'report' }, never),
  load: (node) => !isStrong(node) && isGlobal(node.inputs[0]),
  store: ({ inputs: [place] }, isElsewhere) => isGlobal(place) && isElsewhere(place),
  signal: ({ inputs: [flag] }, isElsewhere) => isElsewhere(flag),
  for: always,
  persistent: always,
  if: always,
  copy: never,
  'put.signal': never,
  dot: never,
  'words.post': never,
  'words.take': never,
  reached: never,
  fence: never,
  quiet: never,
  'barrier.arrive': never,
  'arrive.held': never,
  'advance.signal': never,
  'advance.wait': never,
  pipeline: never,
  teams: never,
  last: never,
  once: never,
  boxes: never,
  operands: never,
  stage: never,
  'store.box': never,
}

const isGlobal = ({ type }: Node): boolean => (type as RefType).space === 'global'

/**
 * True if the node releases nothing that was done before it to another program or rank, and does not synchronise with
 * another role. An arrival at a barrier of the buffer ring releases memory to the producer only.
 */
const releasesNothing = (node: Node): boolean =>
  isPassive(node) || (!isPublished(node) && opOf(node).meets !== 'barrier')

/**
 * True if the sending role (courier) and another role could access the same memory, and at least one of them would
 * write it.
 */
function sharesMemory(courier: readonly Node[], rest: readonly Node[]): boolean {
  const baseOf = (ref: Node): Node => origin(ref).base
  const touched = new Set(courier.flatMap(placesOf).map(baseOf))
  const stored = new Set(courier.flatMap(writtenRefs).map(baseOf))
  return (
    rest.flatMap(writtenRefs).some((ref) => touched.has(baseOf(ref))) ||
    rest.flatMap(placesOf).some((ref) => stored.has(baseOf(ref)) && isRemote(ref))
  )
}

/** The memory references that a node itself reads or writes. Nodes that only compute addresses access no memory. */
const placesOf = (node: Node): readonly Node[] =>
  isPassive(node) ? [] : node.inputs.filter(({ type }) => type.kind === 'ref')

function withCourier(ir: KernelIR, roles: Node, { moved, sent }: Parts, { courierWarps }: Shape): KernelIR {
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
        warps: [producing - courierWarps, courierWarps, consuming],
        duties: ['producer', 'courier', 'consumer'] satisfies Duty[],
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
