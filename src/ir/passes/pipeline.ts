/**
 * Lowers each `pipeline` loop to roles. The block around a pipeline becomes two roles: a producer that waits for flags
 * and issues asynchronous copies, and a consumer that does everything else. The roles share one ring of buffers per
 * tile, with a full and an empty barrier per slot. The buffer rings persist through the whole block, so the producer
 * already fills buffers for the next tile while the consumer finishes the current tile.
 *
 *   producer:  wait(empty[slot], phase - 1); wait(flag); copy.async(tile -> ring[slot], full[slot]); arrive(full[slot])
 *   consumer:  wait(full[slot], phase); compute on ring[slot]; arrive(empty[slot])
 *
 * The pass splits a block only if no agent can observe that copies run ahead of the sequential order. The values that
 * the producer needs must be computable from program and rank ids, arguments, weak loads of memory that the block does
 * not write, and polls of flags that the consumer does not need. The block must not write the memory that the producer
 * copies. If a block cannot be split, its pipeline becomes a plain loop, and a note in the lowered kernel says why.
 *
 * Code before the first pipeline of a block does not prevent the split. If code before the pipeline writes the memory
 * that the producer copies, or acquires data that another agent has written to this memory, the producer waits at a
 * barrier until the consumer has executed that code.
 *
 * A pipeline inside a role splits this role under the same conditions: the producer of the pipeline becomes an
 * additional role.
 */
import { analysis } from '../analysis.ts'
import { attribute, Block, walk, type KernelIR, type Node } from '../node.ts'
import { meetsRoles, opOf, type Facts } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { Duty, RoleShape } from '../roles.ts'
import type { Site } from '../site.ts'
import type { RefType } from '../type.ts'
import { findObstacle, type Group } from './obstacle.ts'
import { RoleBuilder, type Ring } from './roles.ts'
import { containsPipeline, isProducerCopy, producerSlice, type Slice } from './slice.ts'

/** Data for all functions that lower a block. */
interface Context {
  readonly ir: KernelIR
  readonly copier: Copier
  readonly shape: RoleShape
  /** A list of notes to the author of the kernel, to which the lowering adds. */
  readonly notes: string[]
}

/** `shape` holds the number of warps that each role has on the target. */
export const lowerPipelines = analysis('pipelines', withRoles, (ir) =>
  withRoles(ir, { producerWarps: 1, courierWarps: 0, consumers: [{ fromRows: 0, warps: 1 }], mostWarps: 2 }),
)

function withRoles(ir: KernelIR, shape: RoleShape): KernelIR {
  const notes = [...(ir.notes ?? [])]
  const copier: Copier = new Copier((node) =>
    containsPipeline(node) ? containers[opOf(node).flow]?.(node, context) : undefined,
  )
  const context: Context = { ir, copier, shape, notes }
  const declarations = ir.body.nodes.filter((node) => opOf(node).effect === 'declare')
  const rest = new Block()
  rest.nodes.push(...ir.body.nodes.filter((node) => !declarations.includes(node)))

  const params = ir.body.params.map((param) => ({
    type: param.type,
    name: String(param.attributes.name),
    site: param.site,
  }))
  const body = copier.block(params, (fresh) => {
    ir.body.params.forEach((param, i) => copier.map.set(param, fresh[i]))
    declarations.forEach((node) => copier.copyNode(node))
    lowerBlock(rest, context)
    return []
  })
  return { ...ir, body: declareFirst(body), notes }
}

function lowerTeams(node: Node, context: Context): Node {
  const { copier, ir } = context
  const blocks = node.blocks.map((block) => {
    const params = block.params.map((param) => ({
      type: param.type,
      name: String(param.attributes.name),
      site: param.site,
    }))
    return copier.block(params, (fresh) => {
      block.params.forEach((param, i) => copier.map.set(param, fresh[i]))
      // The roles inside a team cannot complete asynchronous copies that the program started before the team.
      const isSplit = block.nodes.some(containsPipeline)
      if (isSplit && ir.body.nodes.some((other) => other !== node && startsCopies(other)))
        copier.emit('quiet', [], { of: 'all' }, [], node.site)
      lowerBlock(block, context)
      return []
    })
  })
  return copier.emit(
    node.op,
    node.inputs.map((input) => copier.get(input)),
    node.attributes,
    blocks,
    node.site,
  )
}

/** True if a node starts an asynchronous copy, or contains a node that does. */
const startsCopies = (node: Node): boolean =>
  opOf(node).completes === 'at quiet' || node.blocks.some((block) => block.nodes.some(startsCopies))

/**
 * Lowers a role with pipelines to a producer and a consumer, or to one role with plain loops. The other roles of the
 * program are copied unchanged.
 */
function lowerRoles(node: Node, context: Context): Node {
  const { copier, shape } = context
  const { producerWarps, mostWarps } = shape
  const names = attribute<readonly string[]>(node, 'names')
  const warps = attribute<readonly number[]>(node, 'warps')
  const barrier = node.blocks.flatMap((block) => [...walk(block)]).find(meetsRoles)
  let total = warps.reduce((sum, count) => sum + count, 0)
  const made = node.blocks.flatMap((block, i) => {
    if (!block.nodes.some(containsPipeline))
      return [{ name: names[i], warps: warps[i], block: copier.copyBlock(block) }]
    const obstacle = barrier
      ? `the barrier at ${barrier.site} counts the roles of the program, and the pipeline would add a role`
      : total + producerWarps > mostWarps
        ? `the roles have ${total} warps, and ${producerWarps} more for a producer are too many for a program`
        : undefined
    const split = splitBlock(block, context, obstacle)
    if (!split) return [{ name: names[i], warps: warps[i], block: inSequence(block, copier) }]
    total += producerWarps
    return [
      { name: `${names[i]} producer`, warps: producerWarps, block: split.producer },
      { name: names[i], warps: warps[i], block: split.consumer },
    ]
  })
  const attributes = {
    ...node.attributes,
    names: made.map(({ name }) => name),
    warps: made.map(({ warps }) => warps),
  }
  const blocks = made.map(({ block }) => block)
  return copier.emit(node.op, [], attributes, blocks, node.site)
}

/** The control flow ops whose blocks are lowered separately, because different programs or warps execute them. */
const containers: Readonly<Record<Facts['flow'], ((node: Node, context: Context) => Node) | undefined>> = {
  straight: undefined,
  branches: undefined,
  repeats: undefined,
  chosen: undefined,
  programs: lowerTeams,
  warps: lowerRoles,
}

function inSequence(block: Block, copier: Copier): Block {
  return copier.block([], () => {
    new RoleBuilder('sequential', copier).build(block)
    return []
  })
}

interface Split {
  readonly producer: Block
  readonly consumer: Block
  readonly site: Site | undefined
}

/**
 * Lowers the pipelines of a block, except those inside teams or roles at the top of the block, which are lowered
 * separately.
 */
function lowerBlock(block: Block, context: Context): void {
  const { copier, shape } = context
  if (block.nodes.every((node) => containers[opOf(node).flow] !== undefined || !containsPipeline(node)))
    return copier.copyNodes(block)
  const split = splitBlock(block, context)
  if (!split) return new RoleBuilder('sequential', copier).build(block)
  const { producer, consumer, site } = split
  const attributes = {
    names: ['producer', 'consumer'],
    warps: [shape.producerWarps, consumerWarps(block, shape)],
    duties: ['producer', 'consumer'] satisfies Duty[],
  }
  copier.emit('roles', [], attributes, [producer, consumer], site)
}

/**
 * Splits a block into producer and consumer. If the block must run sequentially, the result is undefined, and a note
 * says why.
 */
function splitBlock(block: Block, { ir, copier, notes }: Context, otherObstacle?: string): Split | undefined {
  const pipelines = [...walk(block)].filter((node) => node.op === 'pipeline')
  const slice = producerSlice(block)
  const groups = groupPipelines(pipelines, slice)
  const first = block.nodes.find(containsPipeline)!
  const preparation = block.nodes.slice(0, block.nodes.indexOf(first))
  const finished = new Set(
    preparation.flatMap((node) => [node, ...node.blocks.flatMap((own) => [...walk(own)])]),
  )
  const atOnce = findObstacle(block, pipelines, slice, groups, ir)
  const obstacle =
    (atOnce && findObstacle(block, pipelines, slice, groups, ir, finished)) ??
    (groups.length > 0 ? otherObstacle : undefined)
  if (obstacle) notes.push(`${pipelines[0].site}: the pipeline runs without overlap: ${obstacle}`)
  if (obstacle || groups.length === 0) return undefined
  const rings = groups.map((group) => makeRing(group, copier))
  const prepared = atOnce ? copier.emit('barriers', [], { count: 1, arrivals: 1 }, [], first.site) : undefined
  const role = (name: 'producer' | 'consumer'): Block => {
    const outer = new Map(copier.map)
    const built = copier.block([], () => {
      new RoleBuilder(name, copier, rings, slice).build(
        block,
        prepared && { before: first, barrier: prepared },
      )
      return []
    })
    copier.map.clear()
    for (const [from, to] of outer) copier.map.set(from, to)
    return built
  }
  return { producer: role('producer'), consumer: role('consumer'), site: pipelines[0].site }
}

function makeRing(group: Group, copier: Copier): Ring {
  const [{ site }] = group.pipelines
  const stages = Math.max(...group.pipelines.map((pipeline) => attribute<number>(pipeline, 'stages')))
  const stage = (tile: Node): Node => {
    const { dtype, shape } = tile.type as RefType
    return copier.emit('shared', [], { dtype, shape: [stages, ...shape] }, [], tile.site)
  }
  const barriers = (side: 'full' | 'empty'): Node =>
    copier.emit('barriers', [], { count: stages, arrivals: 1, ring: side }, [], site)
  const tiles = new Map([...group.tiles].map((tile) => [tile, stage(tile)]))
  return { stages, pipelines: group.pipelines, tiles, full: barriers('full'), empty: barriers('empty') }
}

/**
 * Groups the pipelines that wait or copy, so that pipelines with shared tiles are in one group. Pipelines that neither
 * wait nor copy have nothing to overlap and become plain loops.
 */
function groupPipelines(pipelines: readonly Node[], slice: Slice): Group[] {
  let groups: Group[] = []
  for (const pipeline of pipelines) {
    if (![...walk(pipeline.blocks[0])].some((node) => slice.moved.has(node))) continue
    const copies = [...walk(pipeline.blocks[0])].filter(isProducerCopy)
    const tiles = new Set(copies.map((copy) => copy.inputs[1]))
    const shares = (group: Group): boolean => [...tiles].some((tile) => group.tiles.has(tile))
    const joined = groups.filter(shares)
    groups = [
      ...groups.filter((group) => !shares(group)),
      {
        tiles: new Set([...joined.flatMap((group) => [...group.tiles]), ...tiles]),
        pipelines: [...joined.flatMap((group) => group.pipelines), pipeline],
      },
    ]
  }
  return groups
}

/** The number of consumer warps, which depends on the rows of the block's matrix products. */
function consumerWarps(block: Block, { consumers }: RoleShape): number {
  const rows = [...walk(block)].map((node) =>
    node.op === 'dot' && node.type.kind === 'value' ? node.type.shape[0] : 0,
  )
  const most = Math.max(0, ...rows)
  return consumers.findLast(({ fromRows }) => most >= fromRows)!.warps
}

/**
 * Moves all declarations of shared tiles and barriers to the top of the kernel, because they exist for the whole
 * program.
 */
function declareFirst(body: Block): Block {
  const declarations: Node[] = []
  const take = (block: Block): void => {
    for (const node of block.nodes) node.blocks.forEach(take)
    const isDeclaration = (node: Node): boolean => opOf(node).effect === 'declare'
    declarations.push(...block.nodes.filter(isDeclaration))
    block.nodes.splice(0, block.nodes.length, ...block.nodes.filter((node) => !isDeclaration(node)))
  }
  take(body)
  body.nodes.unshift(...declarations)
  return body
}
