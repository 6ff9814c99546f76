/**
 * Lowering of `pipeline`. The block around a pipeline becomes two roles: a producer that waits for flags and issues
 * asynchronous copies, and a consumer that does everything else. The roles share one ring of buffers per tile, with a
 * full and an empty barrier per slot. Rings persist through the whole block, so the producer already fills buffers for
 * the next tile while the consumer finishes the current one.
 *
 *   producer:  wait(empty[slot], phase - 1); wait(flag); copy.async(tile -> ring[slot], full[slot]); arrive(full[slot])
 *   consumer:  wait(full[slot], phase); compute on ring[slot]; arrive(empty[slot])
 *
 * A block is split only if executing copies early cannot be distinguished from sequential execution. The values that
 * the producer needs must follow from ids, arguments, weak loads of memory that the block does not write, and polls of
 * flags that the consumer does not need. The block must not write the memory that the producer copies. Otherwise the
 * pipeline becomes a plain loop, and a note in the lowered kernel says why.
 *
 * What the block does before its first pipeline is no obstacle: if it writes the memory that the producer copies, or
 * acquires it, the producer waits at a barrier until the consumer has finished that part.
 *
 * A pipeline inside a role splits this role, under the same conditions: its producer becomes a role beside the others.
 */
import { analysis } from '../analysis.ts'
import { attribute, Block, walk, type KernelIR, type Node } from '../node.ts'
import { MOST_WARPS, opOf, type OpName } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { Site } from '../site.ts'
import type { RefType } from '../type.ts'
import { findObstacle, type Group } from './obstacle.ts'
import { RoleBuilder, type Ring } from './roles.ts'
import { containsPipeline, isProducerCopy, producerSlice, type Slice } from './slice.ts'

/** The warps of a producer: one warpgroup, because registers are moved between whole warpgroups. */
const PRODUCER_WARPS = 4

export const lowerPipelines = analysis('pipelines', withRoles)

function withRoles(ir: KernelIR): KernelIR {
  const notes = [...(ir.notes ?? [])]
  const copier: Copier = new Copier((node) =>
    containsPipeline(node) ? containers[node.op]?.(node, copier, ir, notes) : undefined,
  )
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
    lowerBlock(rest, copier, ir, notes)
    return []
  })
  return { ...ir, body: declareFirst(body), notes }
}

function lowerTeams(node: Node, copier: Copier, ir: KernelIR, notes: string[]): Node {
  const blocks = node.blocks.map((block) => {
    const params = block.params.map((param) => ({
      type: param.type,
      name: String(param.attributes.name),
      site: param.site,
    }))
    return copier.block(params, (fresh) => {
      block.params.forEach((param, i) => copier.map.set(param, fresh[i]))
      // The roles of the team cannot complete copies that the program started before.
      const isSplit = block.nodes.some(containsPipeline)
      if (isSplit && ir.body.nodes.some((other) => other !== node && startsCopies(other)))
        copier.emit('quiet', [], { of: 'all' }, [], node.site)
      lowerBlock(block, copier, ir, notes)
      return []
    })
  })
  return copier.emit(
    'teams',
    node.inputs.map((input) => copier.get(input)),
    node.attributes,
    blocks,
    node.site,
  )
}

/** True if a node starts a copy in flight, or contains one that does. */
const startsCopies = (node: Node): boolean =>
  node.op === 'copy.nbi' || node.blocks.some((block) => block.nodes.some(startsCopies))

/**
 * Lowers a role with pipelines to a producer and a consumer, or to one role with plain loops. The other roles are
 * copied.
 */
function lowerRoles(node: Node, copier: Copier, ir: KernelIR, notes: string[]): Node {
  const names = attribute<readonly string[]>(node, 'names')
  const warps = attribute<readonly number[]>(node, 'warps')
  const barrier = node.blocks.flatMap((block) => [...walk(block)]).find(({ op }) => op === 'barrier')
  let total = warps.reduce((sum, count) => sum + count, 0)
  const made = node.blocks.flatMap((block, i) => {
    if (!block.nodes.some(containsPipeline))
      return [{ name: names[i], warps: warps[i], block: copier.copyBlock(block) }]
    const obstacle = barrier
      ? `the barrier at ${barrier.site} counts the roles of the program, and the pipeline would add one`
      : total + PRODUCER_WARPS > MOST_WARPS
        ? `the roles have ${total} warps, and ${PRODUCER_WARPS} more for a producer are too many for a program`
        : undefined
    const split = splitBlock(block, copier, ir, notes, obstacle)
    if (!split) return [{ name: names[i], warps: warps[i], block: inSequence(block, copier) }]
    total += PRODUCER_WARPS
    return [
      { name: `${names[i]} producer`, warps: PRODUCER_WARPS, block: split.producer },
      { name: names[i], warps: warps[i], block: split.consumer },
    ]
  })
  const attributes = {
    ...node.attributes,
    names: made.map(({ name }) => name),
    warps: made.map(({ warps }) => warps),
  }
  const blocks = made.map(({ block }) => block)
  return copier.emit('roles', [], attributes, blocks, node.site)
}

/** The ops whose blocks are lowered separately, because different programs or warps execute them. */
const containers: Readonly<
  Partial<Record<OpName, (node: Node, copier: Copier, ir: KernelIR, notes: string[]) => Node>>
> = { teams: lowerTeams, roles: lowerRoles }

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

/** Lowers the pipelines of a block, except those in teams or roles at its top, which are lowered by themselves. */
function lowerBlock(block: Block, copier: Copier, ir: KernelIR, notes: string[]): void {
  if (block.nodes.every((node) => containers[node.op] !== undefined || !containsPipeline(node)))
    return copier.copyNodes(block)
  const split = splitBlock(block, copier, ir, notes)
  if (!split) return new RoleBuilder('sequential', copier).build(block)
  const { producer, consumer, site } = split
  const attributes = { names: ['producer', 'consumer'], warps: [PRODUCER_WARPS, consumerWarps(block)] }
  copier.emit('roles', [], attributes, [producer, consumer], site)
}

/** Splits a block into producer and consumer. Returns undefined if it has to run in sequence, and notes why. */
function splitBlock(
  block: Block,
  copier: Copier,
  ir: KernelIR,
  notes: string[],
  otherObstacle?: string,
): Split | undefined {
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
 * Groups the pipelines that wait or copy, so that pipelines with shared tiles are in one group. The other pipelines
 * have nothing to overlap and become plain loops.
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

/**
 * The number of consumer warps: two warpgroups if the products have at least 128 rows, otherwise one. A target may
 * choose differently.
 */
function consumerWarps(block: Block): number {
  const rows = [...walk(block)].map((node) =>
    node.op === 'dot' && node.type.kind === 'value' ? node.type.shape[0] : 0,
  )
  return Math.max(0, ...rows) >= 128 ? 8 : 4
}

/** Moves all declarations to the top of the kernel, where they belong to every program. */
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
