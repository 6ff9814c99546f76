/**
 * Shared tiles that are a place in a tensor most of the time: the copy that fills one moves nothing where all of the tile exists and
 * its rows lie in memory as a shared tile's would, and the products that read it read the tensor itself. For a few rows that read every
 * element once, a copy costs as much as the product, and memory idles while the product has what was copied.
 *
 * Nobody can tell the difference: no program of the kernel writes the tensor (two parameters of a launch are two tensors), the copy and
 * the products stand in one block, and nothing between them says to others that the copy is done. Only a timeline would not show
 * copies from other ranks any more: kernels that record make them.
 */
import { attribute, walk, type Block, type KernelIR, type Node } from '../../../ir/node.ts'
import { opOf, origin, writtenRefs } from '../../../ir/ops/index.ts'
import type { RefType, ValueType } from '../../../ir/type.ts'
import { address, and, compare } from '../build.ts'
import type { Local, Machine } from '../code.ts'
import type { CpuFacts } from '../facts.ts'
import type { Lowering } from './context.ts'
import { innerRows, isInnerDot } from './dot/inner.ts'
import { panelColumns } from './dot/tiles.ts'
import { storedBytes } from './frame.ts'
import { isFull } from './lines.ts'
import { strideOf, type TileView } from './views.ts'

export function borrowedTiles(
  ir: KernelIR,
  { machine, packed = new Set(), record = false }: CpuFacts,
): ReadonlySet<Node> {
  const nodes = [...walk(ir.body)]
  const written = new Set(nodes.flatMap(writtenRefs).map((ref) => origin(ref).base))
  const fills = new Map<Node, Node[]>()
  for (const node of nodes)
    for (const ref of writtenRefs(node)) fills.set(ref, [...(fills.get(ref) ?? []), node])
  const isSource = (source: Node): boolean => {
    const { base, owner } = origin(source)
    const [column] = source.inputs.slice(-1)
    return (
      source.op === 'tile' &&
      base.op === 'param' &&
      !(record && owner) &&
      !written.has(base) &&
      !packed.has(attribute<string>(base, 'name')) &&
      column.op === 'const' &&
      attribute<number>(column, 'value') === 0
    )
  }
  const found = new Set<Node>()
  for (const block of blocksOf(ir.body))
    block.nodes.forEach((copy, at) => {
      const [source, tile] = copy.inputs
      if (copy.op !== 'copy' || copy.inputs.length !== 2 || tile.op !== 'shared') return
      if (fills.get(tile)!.length > 1 || !isSource(source)) return
      const users = usersOf(tile, nodes).filter((node) => node !== copy)
      const last = Math.max(...users.map((node) => block.nodes.indexOf(node)))
      const isRead = users.every(
        (node) => block.nodes.indexOf(node) > at && readsInPlace(node, tile, machine),
      )
      if (isRead && !block.nodes.slice(at, last).some(tellsOthers)) found.add(tile)
    })
  return found
}

function* blocksOf(block: Block): Generator<Block> {
  yield block
  for (const node of block.nodes) for (const inner of node.blocks) yield* blocksOf(inner)
}

/** Those of a tile, and of its transposed views. */
function usersOf(view: Node, nodes: readonly Node[]): Node[] {
  return nodes
    .filter((node) => node.inputs.includes(view))
    .flatMap((node) => (node.op === 'transpose' ? usersOf(node, nodes) : [node]))
}

/** Products of few rows, which read what is on their right in the order in which it lies, and widen it again for few of them. */
function readsInPlace(node: Node, tile: Node, machine: Machine): boolean {
  const [left, right] = node.inputs
  if (node.op !== 'dot' || left === tile || node.inputs[2] === tile) return false
  const [rows, columns] = (node.type as ValueType).shape
  if (right !== tile) {
    const { dtype } = tile.type as RefType
    const isCheap = ['f32', 'bf16', 'i8'].includes(dtype) || rows <= innerRows(machine, rows)
    return right.op === 'transpose' && right.inputs[0] === tile && isInnerDot(node, machine) && isCheap
  }
  return rows <= machine.rows && (columns % panelColumns(machine)) % machine.lanes === 0
}

function tellsOthers(node: Node): boolean {
  const { order, flow } = opOf(node)
  // Roles of one program order each other; what they tell other programs stands inside.
  const orders = order === 'attribute' ? node.attributes.order !== undefined : order !== 'none'
  return (orders && flow !== 'warps') || node.blocks.some((block) => block.nodes.some(tellsOthers))
}

/** What the copy does: it says where the tile lies, or fills the tile's own memory by `copy`. */
export function borrow(l: Lowering, from: TileView, to: TileView, copy: () => void): void {
  const { writer } = l
  const place = (to.base as { readonly local: Local }).local
  const bytes = to.columns * storedBytes(to.dtype)
  const isLikeTile = compare('eq', strideOf(l, from.rowStride), strideOf(l, bytes))
  const full = isFull(l, from.inside, to.rows, to.columns)
  writer.if(
    full ? and(full, isLikeTile) : isLikeTile,
    () => writer.set(place, from.base),
    () => {
      writer.set(place, address(l.ambient.frame, 0, 1, l.shared.declared.get(to.declaration!)!))
      copy()
    },
  )
}
