/**
 * Finds obstacles to splitting a block into producer and consumer. An obstacle is anything by which another agent could
 * observe that copies run ahead of the sequential order. Each obstacle is a message for the author that names the
 * source line.
 */
import { walk, type Block, type KernelIR, type Node } from '../node.ts'
import {
  awaitsFlag,
  isLoop,
  isRemote,
  isStrong,
  opOf,
  origin,
  paramName,
  readRefs,
  writtenRefs,
} from '../ops/index.ts'
import { elsewhere } from './elsewhere.ts'
import { containsPipeline, isLook, isProducerCopy, standsBeforePipelines, type Slice } from './slice.ts'

/** Pipelines that share tiles and therefore share a ring of buffers. */
export interface Group {
  readonly tiles: ReadonlySet<Node>
  readonly pipelines: readonly Node[]
}

/** `finished` lists the nodes that the consumer has executed before the producer starts its first pipeline. */
export function findObstacle(
  block: Block,
  pipelines: readonly Node[],
  slice: Slice,
  groups: readonly Group[],
  ir: KernelIR,
  finished: ReadonlySet<Node> = new Set(),
): string | undefined {
  if (slice.obstacle) return slice.obstacle
  const filled = new Set(groups.flatMap((group) => [...group.tiles]))
  return (
    misplaced(block, pipelines) ??
    usedOutside(ir, pipelines, filled) ??
    first(pipelines, (pipeline) => misfilled(pipeline, filled)) ??
    readAndWritten(block, slice, filled, ir.world, finished) ??
    acquiredByConsumer(block, pipelines, slice, finished) ??
    first(pipelines, (pipeline) => signalledBeforeWait(pipeline.blocks[0], slice))
  )
}

function first<T>(list: readonly T[], find: (one: T) => string | undefined): string | undefined {
  for (const one of list) {
    const found = find(one)
    if (found) return found
  }
  return undefined
}

function misplaced(block: Block, pipelines: readonly Node[]): string | undefined {
  const teams = [...walk(block)].find((node) => opOf(node).flow === 'programs')
  if (teams) return `the teams at ${teams.site} are in a loop or a branch, or beside a pipeline`
  const roles = [...walk(block)].find((node) => opOf(node).flow === 'warps')
  if (roles)
    return `the roles at ${roles.site} are beside the pipeline or in a loop around it, and roles cannot be nested`
  if (pipelines.some((pipeline) => pipeline.blocks[0].nodes.some(containsPipeline)))
    return 'a pipeline is inside another pipeline; use one pipeline over a space of several axes'
  return undefined
}

function usedOutside(
  ir: KernelIR,
  pipelines: readonly Node[],
  filled: ReadonlySet<Node>,
): string | undefined {
  const inside = new Set(pipelines.flatMap((pipeline) => [...walk(pipeline.blocks[0])]))
  for (const node of walk(ir.body))
    if (!inside.has(node) && node.inputs.some((input) => filled.has(input)))
      return `the shared tile that the pipeline fills is also used at ${node.site}, outside the pipeline`
  return undefined
}

/**
 * Checks how a pipeline fills its tiles. Each iteration of a pipeline has its own buffer slot, so it must fill a shared
 * tile exactly once before using it. The data of earlier iterations is not available in the slot of the current
 * iteration.
 */
function misfilled(pipeline: Node, filled: ReadonlySet<Node>): string | undefined {
  interface Filled {
    /**
     * The shared tiles that every path to the current node fills (`surely`), and those that at least one path fills
     * (`maybe`).
     */
    readonly surely: Set<Node>
    readonly maybe: Map<Node, Node>
  }
  let obstacle: string | undefined
  const visit = (block: Block, before: Filled, inLoop: boolean): Filled => {
    let { surely, maybe } = { surely: new Set(before.surely), maybe: new Map(before.maybe) }
    for (const node of block.nodes) {
      const tile = node.inputs.find((input) => filled.has(input))
      if (tile && isProducerCopy(node)) {
        const earlier = maybe.get(tile)
        if (inLoop) obstacle ??= `the copy at ${node.site} is in a loop inside the pipeline`
        if (earlier)
          obstacle ??= `an iteration fills one shared tile twice, at ${earlier.site} and ${node.site}`
        surely.add(tile)
        maybe.set(tile, node)
      } else if (tile && !surely.has(tile))
        obstacle ??= `the shared tile is used at ${node.site} without a copy before it in the same iteration`
      const after = node.blocks.map((inner) =>
        visit(inner, { surely, maybe }, inLoop || opOf(node).flow !== 'branches'),
      )
      if (opOf(node).flow !== 'branches') continue
      const [yes, no] = after
      surely = new Set([...yes.surely].filter((one) => no.surely.has(one)))
      maybe = new Map([...yes.maybe, ...no.maybe])
    }
    return { surely, maybe }
  }
  visit(pipeline.blocks[0], { surely: new Set(), maybe: new Map() }, false)
  return obstacle
}

/**
 * Checks that the block does not write memory that the producer reads. A write that always goes to another rank does
 * not affect copies from this rank's own memory. A write that always goes to this rank does not affect copies from
 * other ranks' memory; flags order the writes of those ranks. The producer and the consumer must load equal values. If
 * a pipeline has no iterations, the consumer does not wait for the producer. If the consumer does not wait, the
 * consumer could signal another rank too early, and that rank could overwrite data that the producer still has to load.
 */
function readAndWritten(
  block: Block,
  slice: Slice,
  filled: ReadonlySet<Node>,
  world: number,
  finished: ReadonlySet<Node>,
): string | undefined {
  const read = new Map<Node, Node>()
  const isElsewhere = elsewhere(block, world)
  const [readRemotely, mayBeReadAtHome] = [new Set<Node>(), new Set<Node>()]
  const loaded = new Set([...slice.loads].map((load) => origin(load.inputs[0]).base))
  for (const node of [...slice.moved, ...slice.loads]) {
    for (const ref of readRefs(node)) {
      const { base } = origin(ref)
      read.set(base, node)
      if (isRemote(ref)) readRemotely.add(base)
      if (!isElsewhere(ref)) mayBeReadAtHome.add(base)
    }
  }
  for (const load of slice.loads)
    if (filled.has(origin(load.inputs[0]).base))
      return `the copied data depend on the load at ${load.site} from a shared tile that the pipeline itself fills`
  for (const node of walk(block)) {
    const [target] = writtenRefs(node)
    const base = target && origin(target).base
    const reader = base && read.get(base)
    if (!reader || slice.moved.has(node)) continue
    // The producer may execute its loads before the consumer has finished.
    if (finished.has(node) && !loaded.has(base)) continue
    const isApart = isRemote(target)
      ? isElsewhere(target) && !readRemotely.has(base)
      : !mayBeReadAtHome.has(base)
    if (!isApart || loaded.has(base))
      return `the pipeline reads ${paramName(base)} (${reader.site}), which is written at ${node.site}`
  }
  return undefined
}

/**
 * Finds an acquire (a wait, or a load with acquire order) that only the consumer would execute, and not the producer.
 * The producer of a pipeline itself executes waits for flags. Inside a pipeline, the producer also executes the polls
 * (`reached`) that it needs, and the consumer is ordered after them by the barrier of the buffer slot. An acquire that
 * only the consumer executes orders only the consumer's accesses.
 */
function acquiredByConsumer(
  block: Block,
  pipelines: readonly Node[],
  { needed }: Slice,
  finished: ReadonlySet<Node>,
): string | undefined {
  const inside = new Set(pipelines.flatMap((pipeline) => [...walk(pipeline.blocks[0])]))
  const acquires = (node: Node): boolean => {
    // Only the producer executes the polls on which its copies depend.
    const isProducers = isLook(node) && needed.has(node)
    if (awaitsFlag(node) || (isProducers ? inside.has(node) : finished.has(node))) return false
    const { order } = opOf(node)
    // An op that both acquires and releases either synchronises the roles, and here only one role runs, or orders the
    // nodes inside its block.
    if (order !== 'attribute') return order === 'acquires'
    return ['acquire', 'acqRel', 'seqCst'].includes(String(node.attributes.order))
  }
  const [found] = standsBeforePipelines(block, acquires)
  return (
    found && `the copies might have to follow ${found.op} at ${found.site}, which only the consumer executes`
  )
}

/**
 * Finds a signal that precedes a wait or poll in one iteration of a pipeline. In each iteration of a pipeline, the
 * consumer starts after the producer's waits and polls. A program can repeat a poll until the poll returns true, and
 * that could require that another rank first gets the signal.
 */
function signalledBeforeWait(body: Block, { needed }: Slice): string | undefined {
  let signal: Node | undefined
  let obstacle: string | undefined
  const visit = (block: Block): void => {
    for (const node of block.nodes) {
      const looks = isLook(node) && needed.has(node)
      if ((awaitsFlag(node) || looks) && signal)
        obstacle ??= `${signal.op} at ${signal.site} precedes the ${looks ? 'poll' : 'wait'} at ${node.site} in the same iteration`
      if (tells(node)) signal ??= node
      const times = isLoop(node) ? 2 : 1 // In a loop, a signal precedes the waits of the next iteration.
      for (let i = 0; i < times; i++) node.blocks.forEach(visit)
    }
  }
  visit(body)
  return obstacle
}

/** True if the node lets other agents continue: a signal, a release, or a strong write. */
function tells(node: Node): boolean {
  const { advances, effect, order } = opOf(node)
  return advances === 'signal' || order === 'releases' || (effect === 'write' && isStrong(node))
}
