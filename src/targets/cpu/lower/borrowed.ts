/**
 * Finds shared tiles whose copy can be skipped ("borrowed" tiles): the matrix products then read the tensor in place.
 * The copy into a borrowed tile moves no data if the whole tile is inside the tensor and the tensor's rows have the
 * same layout as the shared tile's. A matrix product with few rows reads every element only once, so a copy would cost
 * as much as the product, and memory would be idle during the product.
 *
 * Skipping the copy into a borrowed tile does not change results. No program writes the tensor that contains a borrowed
 * tile, not even through another parameter, because a launch rejects a tensor that is passed twice and written. The
 * copy of a borrowed tile and the matrix products that read the tile are in one block, and no operation between the
 * copy and a product signals other programs. Skipped copies would be missing in a timeline, so kernels that record
 * events do not skip copies from other ranks.
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

/** The nodes that use a tile or one of its transposed views. */
function usersOf(view: Node, nodes: readonly Node[]): Node[] {
  return nodes
    .filter((node) => node.inputs.includes(view))
    .flatMap((node) => (node.op === 'transpose' ? usersOf(node, nodes) : [node]))
}

/**
 * True for matrix products with few rows that read the right operand in its stored order. If the right operand is
 * transposed and its dtype is expensive to widen, a matrix product qualifies only if it widens each element once.
 */
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
  // Synchronisation between roles stays within one program. Operations that synchronise with other programs are inside
  // the roles.
  const orders = order === 'attribute' ? node.attributes.order !== undefined : order !== 'none'
  return (orders && flow !== 'warps') || node.blocks.some((block) => block.nodes.some(tellsOthers))
}

/**
 * Lowers a copy into a borrowed tile: sets the tile's address to the tensor's, or calls `copy` to fill the tile's own
 * memory.
 */
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
