/**
 * Computes the nodes that the producer of a pipelined block must execute: the waits and copies of the pipelines, the
 * waits before the pipelines, and all nodes on which they depend, in data or in control.
 */
import { attribute, walk, type Block, type Node } from '../node.ts'
import {
  accessesOf,
  awaitsFlag,
  declaresTile,
  isLoop,
  isStrong,
  leadingInputs,
  opOf,
  readRefs,
  stateBlocks,
  stateCount,
  type Ahead,
} from '../ops/index.ts'
import { hasEffect } from './dead.ts'

/** The nodes of a block that one role executes. */
export interface Share {
  readonly needed: ReadonlySet<Node>
  /** True if the role carries value `i` of a control node's state. */
  keeps(control: Node, i: number): boolean
}

export interface Slice extends Share {
  /** Waits and copies inside pipelines, which only the producer executes. */
  readonly moved: ReadonlySet<Node>
  /** The weak loads among the nodes that the producer needs. */
  readonly loads: ReadonlySet<Node>
  /**
   * The nodes that the consumer executes; undefined if the consumer executes all nodes except `moved`. Two polls of one
   * flag can give different results, so only the producer executes a poll that decides which tile is copied next.
   */
  readonly consumer: Share | undefined
  /** The reason why the producer cannot execute copies ahead of the consumer, or undefined if it can. */
  readonly obstacle: string | undefined
}

export function containsPipeline(node: Node): boolean {
  return node.op === 'pipeline' || node.blocks.some((block) => block.nodes.some(containsPipeline))
}

/** True if the node polls a flag without blocking (`reached`). */
export const isLook = (node: Node): boolean => opOf(node).ahead === 'one'

/** True for a copy that the producer makes: an unmasked copy from global memory to a whole shared tile. */
export function isProducerCopy(node: Node): boolean {
  if (node.op !== 'copy' || node.inputs.length > 2) return false
  const [from] = accessesOf(node)
  return from.level === 'global' && declaresTile(node.inputs[1])
}

/** The role that has to execute a node if the producer's copies depend on the node. */
function aheadOf(node: Node): Ahead {
  const { ahead, accesses } = opOf(node)
  const isConsumers = ahead === 'producer' && accesses.length > 0 && !isProducerCopy(node)
  return isConsumers || isStrong(node) ? 'consumer' : ahead
}

export function producerSlice(block: Block): Slice {
  const moved = new Set<Node>()
  for (const pipeline of walk(block))
    if (pipeline.op === 'pipeline')
      for (const node of walk(pipeline.blocks[0])) if (aheadOf(node) === 'producer') moved.add(node)
  const around = surroundings(block)
  const waits = standsBeforePipelines(block, awaitsFlag)
  const own = shareOf([...moved, ...waits], around)
  const looks = [...own.needed].filter(isLook)
  const consumer = looks.length > 0 ? shareOf(consumerRoots(block, moved, looks), around) : undefined
  const loads = [...own.needed].filter((node) => aheadOf(node) === 'both' && readRefs(node).length > 0)
  const obstacles = [...own.needed]
    .map((node) => obstacleOf(node, consumer))
    .filter((why) => why !== undefined)
  return { ...own, moved, loads: new Set(loads), consumer, obstacle: obstacles.at(-1) }
}

/**
 * The nodes that the consumer executes for their own effect, not for their result. A pipeline whose buffers the
 * producer fills is included, because the consumer must always release its buffer slots.
 */
function consumerRoots(block: Block, moved: ReadonlySet<Node>, looks: readonly Node[]): Node[] {
  const isFilled = (node: Node): boolean =>
    node.op === 'pipeline' && [...walk(node.blocks[0])].some((one) => moved.has(one))
  return [...walk(block)].filter(
    (node) => isFilled(node) || (isWork(node) && !moved.has(node) && !looks.includes(node)),
  )
}

function obstacleOf(node: Node, consumer: Share | undefined): string | undefined {
  const ahead = aheadOf(node)
  if (ahead === 'consumer' && opOf(node).effect === 'control')
    return `its waits or copies are inside ${node.op}(), at ${node.site}`
  if (ahead === 'one' && consumer?.needed.has(node))
    return `both the copied data and the work of the consumer depend on ${node.op} at ${node.site}`
  if (ahead === 'consumer')
    return `the copied data depend on ${node.op} at ${node.site}, which only the consumer executes`
  return undefined
}

/** True if a node has an effect itself, rather than through the nodes inside it or through its result. */
const isWork = (node: Node): boolean => opOf(node).effect !== 'control' && hasEffect(node)

/**
 * For each node, the control-flow node that contains it. For each parameter of a block, the block and its control-flow
 * node.
 */
interface Surroundings {
  readonly parents: ReadonlyMap<Node, Node>
  readonly owners: ReadonlyMap<Node, { readonly control: Node; readonly block: Block }>
}

function surroundings(block: Block): Surroundings {
  const parents = new Map<Node, Node>()
  const owners = new Map<Node, { control: Node; block: Block }>()
  const index = (inner: Block, control: Node | undefined): void => {
    for (const param of inner.params) if (control) owners.set(param, { control, block: inner })
    for (const node of inner.nodes) {
      if (control) parents.set(node, control)
      node.blocks.forEach((own) => index(own, node))
    }
  }
  index(block, undefined)
  return { parents, owners }
}

/** Collects all nodes on which the given nodes depend, in data or in control. */
function shareOf(from: readonly Node[], { parents, owners }: Surroundings): Share {
  const needed = new Set<Node>()
  const kept = new Map<Node, Set<number>>()
  const pending: Node[] = [...from]

  const keep = (control: Node, i: number): void => {
    const set = kept.get(control) ?? new Set<number>()
    kept.set(control, set)
    if (set.has(i)) return
    set.add(i)
    for (const inner of stateBlocks(control)) pending.push(inner.results[i])
    if (opOf(control).state !== 'yielded') pending.push(control.inputs[leadingInputs(control) + i])
  }

  for (let node = pending.pop(); node; node = pending.pop()) {
    if (node.op === 'param') {
      const owner = owners.get(node)
      const leading = owner ? owner.block.params.length - stateCount(owner.control) : 0
      const at = owner ? owner.block.params.indexOf(node) : -1
      if (owner && at >= leading) keep(owner.control, at - leading)
      continue
    }
    if (needed.has(node)) continue
    needed.add(node)
    const parent = parents.get(node)
    if (parent) pending.push(parent)
    if (node.op === 'result') {
      pending.push(node.inputs[0])
      keep(node.inputs[0], attribute<number>(node, 'index'))
      continue
    }
    if (opOf(node).effect === 'control') {
      pending.push(...node.inputs.slice(0, leadingInputs(node)))
      if (opOf(node).state === 'tested') pending.push(...node.blocks[0].results)
      continue
    }
    pending.push(...node.inputs)
  }
  return { needed, keeps: (control, i) => kept.get(control)?.has(i) ?? false }
}

/** The nodes of a given kind that precede some node inside a pipeline, including nodes inside the pipeline. */
export function standsBeforePipelines(block: Block, isWanted: (node: Node) => boolean): Node[] {
  const found: Node[] = []
  const visit = (inner: Block, followed: boolean): void => {
    const pipelines = inner.nodes.map(containsPipeline)
    const lastPipeline = pipelines.lastIndexOf(true)
    inner.nodes.forEach((node, i) => {
      const before = followed || i < lastPipeline
      if (before && isWanted(node)) found.push(node)
      const repeats = pipelines[i] && isLoop(node)
      node.blocks.forEach((own) => visit(own, before || repeats))
    })
  }
  visit(block, false)
  return found
}
