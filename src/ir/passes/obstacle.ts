/**
 * What keeps a block from being split into producer and consumer: everything by which running ahead could be told from
 * sequential execution. Each obstacle is a reason for the author, with the line it stands on.
 */
import { walk, type Block, type KernelIR, type Node } from '../node.ts'
import { isLoop, isRemote, isStrong, opOf, origin, paramName, readRefs, writtenRefs } from '../ops/index.ts'
import { elsewhere } from './elsewhere.ts'
import {
  containsPipeline,
  isLook,
  isProducerCopy,
  isWait,
  standsBeforePipelines,
  type Slice,
} from './slice.ts'

/** Pipelines that share tiles; they share a ring. */
export interface Group {
  readonly tiles: ReadonlySet<Node>
  readonly pipelines: readonly Node[]
}

export function findObstacle(
  block: Block,
  pipelines: readonly Node[],
  slice: Slice,
  groups: readonly Group[],
  ir: KernelIR,
): string | undefined {
  if (slice.obstacle) return slice.obstacle
  const filled = new Set(groups.flatMap((group) => [...group.tiles]))
  return (
    misplaced(block, pipelines) ??
    usedOutside(ir, pipelines, filled) ??
    first(pipelines, (pipeline) => misfilled(pipeline, filled)) ??
    readAndWritten(block, slice, filled, ir.world) ??
    acquiredByConsumer(block, pipelines, slice) ??
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
  const teams = [...walk(block)].find((node) => node.op === 'teams')
  if (teams) return `the teams at ${teams.site} stand in a loop or a branch, or beside a pipeline`
  const roles = [...walk(block)].find((node) => node.op === 'roles')
  if (roles) return `the roles at ${roles.site} stand beside it, and roles are not nested`
  if (pipelines.some((pipeline) => pipeline.blocks[0].nodes.some(containsPipeline)))
    return 'a pipeline stands inside a pipeline; give one pipeline a space of several axes'
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
      return `the shared tile that it fills is also used at ${node.site}, outside the pipeline`
  return undefined
}

/** An iteration has a slot of its own: it must fill a tile once, before using it, and finds nothing of earlier iterations. */
function misfilled(pipeline: Node, filled: ReadonlySet<Node>): string | undefined {
  interface Filled {
    /** Tiles filled on every path here, and those filled on some. */
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
        if (inLoop) obstacle ??= `the copy at ${node.site} stands in a loop inside the pipeline`
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
 * What is written to other ranks alone does not change what this one copies of its own, nor what is written at home alone what it copies of
 * others; flags order what those write. What both roles load, they must find alike, and where a pipeline has no iteration the consumer does
 * not wait for the producer: it may have told others to write there again.
 */
function readAndWritten(
  block: Block,
  slice: Slice,
  filled: ReadonlySet<Node>,
  world: number,
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
      return `what it copies depends on the load at ${load.site} from a shared tile that it fills itself`
  for (const node of walk(block)) {
    const [target] = writtenRefs(node)
    const base = target && origin(target).base
    const reader = base && read.get(base)
    if (!reader || slice.moved.has(node)) continue
    const isApart = isRemote(target)
      ? isElsewhere(target) && !readRemotely.has(base)
      : !mayBeReadAtHome.has(base)
    if (!isApart || loaded.has(base))
      return `it reads ${paramName(base)} (${reader.site}), which is written at ${node.site}`
  }
  return undefined
}

/**
 * The producer executes waits for flags itself, and in a pipeline the looks that it needs, behind which the consumer comes by the
 * slot; other acquires order only who executes them.
 */
function acquiredByConsumer(block: Block, pipelines: readonly Node[], { needed }: Slice): string | undefined {
  const inside = new Set(pipelines.flatMap((pipeline) => [...walk(pipeline.blocks[0])]))
  const acquires = (node: Node): boolean => {
    if (isWait(node) || (isLook(node) && needed.has(node) && inside.has(node))) return false
    const { order } = opOf(node)
    // What orders both ways by itself orders roles, of which there is one, or what stands inside it.
    if (order !== 'attribute') return order === 'acquires'
    return ['acquire', 'acqRel', 'seqCst'].includes(String(node.attributes.order))
  }
  const [found] = standsBeforePipelines(block, acquires)
  return (
    found && `what it copies may be ordered by ${found.op} at ${found.site}, which only the consumer executes`
  )
}

/**
 * The consumer starts an iteration after the producer's waits in it, and after its looks, which may be repeated until one says yes:
 * another rank may need the signal for that.
 */
function signalledBeforeWait(body: Block, { needed }: Slice): string | undefined {
  let signal: Node | undefined
  let obstacle: string | undefined
  const visit = (block: Block): void => {
    for (const node of block.nodes) {
      const looks = isLook(node) && needed.has(node)
      if ((isWait(node) || looks) && signal)
        obstacle ??= `${signal.op} at ${signal.site} stands before the ${looks ? 'look' : 'wait'} at ${node.site} in one iteration`
      if (tells(node)) signal ??= node
      const times = isLoop(node) ? 2 : 1 // a loop comes round again
      for (let i = 0; i < times; i++) node.blocks.forEach(visit)
    }
  }
  visit(body)
  return obstacle
}

/** By which others may go on. */
function tells(node: Node): boolean {
  const { advances, effect, order } = opOf(node)
  return advances === 'signal' || order === 'releases' || (effect === 'write' && isStrong(node))
}
