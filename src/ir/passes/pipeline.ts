/**
 * Lowering of `pipeline`: the block around it becomes two roles, a producer that waits for flags and issues asynchronous
 * copies, and a consumer that does everything else. They share a ring of buffers a tile, with a full and an empty barrier a
 * slot. Rings run through the whole block, so that the producer is already filling buffers for the next tile while the
 * consumer finishes this one.
 *
 *   producer:  wait(empty[slot], phase - 1); wait(flag); copy.async(tile -> ring[slot], full[slot]); arrive(full[slot])
 *   consumer:  wait(full[slot], phase); compute on ring[slot]; arrive(empty[slot])
 *
 * A block is split only where running ahead cannot be told from sequential execution: what the producer needs must follow
 * from ids, arguments, weak loads of memory that the block does not write, and looks at flags that the consumer does not need; and what it copies
 * must not be what the block writes. Otherwise the pipeline becomes a plain loop, and the lowered kernel carries a note that says why.
 */
import { analysis } from '../analysis.ts'
import { attribute, Block, walk, type KernelIR, type Node } from '../node.ts'
import { opOf } from '../ops/index.ts'
import { Copier } from '../rewrite.ts'
import type { RefType } from '../type.ts'
import { findObstacle, type Group } from './obstacle.ts'
import { RoleBuilder, type Ring } from './roles.ts'
import { containsPipeline, isProducerCopy, producerSlice, type Slice } from './slice.ts'

export const lowerPipelines = analysis('pipelines', withRoles)

function withRoles(ir: KernelIR): KernelIR {
  const notes = [...(ir.notes ?? [])]
  const copier: Copier = new Copier((node) =>
    node.op === 'teams' && containsPipeline(node) ? lowerTeams(node, copier, ir, notes) : undefined,
  )
  const declarations = ir.body.nodes.filter((node) => opOf(node).effect === 'declare')
  const rest = new Block()
  rest.nodes.push(...ir.body.nodes.filter((node) => !declarations.includes(node)))
  const outsideTeams = rest.nodes.some((node) => node.op !== 'teams' && containsPipeline(node))

  const params = ir.body.params.map((param) => ({
    type: param.type,
    name: String(param.attributes.name),
    site: param.site,
  }))
  const body = copier.block(params, (fresh) => {
    ir.body.params.forEach((param, i) => copier.map.set(param, fresh[i]))
    declarations.forEach((node) => copier.copyNode(node))
    if (outsideTeams) lowerBlock(rest, copier, ir, notes)
    else copier.copyNodes(rest)
    return []
  })
  return { ...ir, body: declareFirst(body), notes }
}

function lowerTeams(node: Node, copier: Copier, ir: KernelIR, notes: string[]): Node {
  const blocks = node.blocks.map((block) => {
    if (!block.nodes.some(containsPipeline)) return copier.copyBlock(block)
    const params = block.params.map((param) => ({
      type: param.type,
      name: String(param.attributes.name),
      site: param.site,
    }))
    return copier.block(params, (fresh) => {
      block.params.forEach((param, i) => copier.map.set(param, fresh[i]))
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

function lowerBlock(block: Block, copier: Copier, ir: KernelIR, notes: string[]): void {
  const pipelines = [...walk(block)].filter((node) => node.op === 'pipeline')
  const slice = producerSlice(block)
  const groups = groupPipelines(pipelines, slice)
  const obstacle = findObstacle(block, pipelines, slice, groups, ir)
  if (obstacle || groups.length === 0) {
    if (obstacle) notes.push(`${pipelines[0].site}: the pipeline runs without overlap: ${obstacle}`)
    new RoleBuilder('sequential', copier).build(block)
    return
  }
  const rings = groups.map((group) => makeRing(group, copier))
  const role = (name: 'producer' | 'consumer'): Block => {
    const outer = new Map(copier.map)
    const built = copier.block([], () => {
      new RoleBuilder(name, copier, rings, slice).build(block)
      return []
    })
    copier.map.clear()
    for (const [from, to] of outer) copier.map.set(from, to)
    return built
  }
  const attributes = { names: ['producer', 'consumer'], warps: [4, consumerWarps(block)] }
  copier.emit('roles', [], attributes, [role('producer'), role('consumer')], pipelines[0].site)
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

/** Pipelines that wait or copy, those that share tiles together. The others have nothing to overlap and are plain loops. */
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

/** Two warpgroups where the products have at least 128 rows, else one. A target may choose otherwise. */
function consumerWarps(block: Block): number {
  const rows = [...walk(block)].map((node) =>
    node.op === 'dot' && node.type.kind === 'value' ? node.type.shape[0] : 0,
  )
  return Math.max(0, ...rows) >= 128 ? 8 : 4
}

/** Rings are made where they are needed and declared at the top, where every program has them. */
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
