/**
 * Chooses which shared tiles are stored as panels of widened elements. A shared tile qualifies if it is only filled by
 * copies of whole tiles of global memory, and only read by matrix products, always as the same operand. The copy, which
 * reads and writes every element anyway, then also converts and rearranges the elements, and the matrix products read
 * memory sequentially. Shared tiles that do not qualify keep their declared layout.
 */
import { walk, type KernelIR, type Node } from '../../../ir/node.ts'
import type { RefType } from '../../../ir/type.ts'
import type { Machine } from '../code.ts'
import { isInnerDot } from './dot/inner.ts'
import { panelColumns, rowsLayout, type TileLayout } from './dot/tiles.ts'

export { panelBytes } from './dot/tiles.ts'

/** The ways in which a node can use a shared tile. */
type Use = 'filled' | 'left' | 'right' | 'transposed right' | 'inner' | 'other'

/**
 * Chooses the layout of every shared tile. `borrowed` tiles may be read in place from a tensor, so they keep the
 * tensor's layout.
 */
export function assignLayouts(
  ir: KernelIR,
  machine: Machine,
  borrowed: ReadonlySet<Node>,
): ReadonlyMap<Node, TileLayout> {
  const nodes = [...walk(ir.body)]
  const users = new Map<Node, Node[]>()
  const yielded = new Set<Node>(ir.body.results)
  for (const node of nodes) {
    for (const input of new Set(node.inputs)) users.set(input, [...(users.get(input) ?? []), node])
    for (const block of node.blocks) for (const result of block.results) yielded.add(result)
  }

  /** The uses of a shared tile or of its transposed view. */
  function usesOf(view: Node, transposed: boolean): Use[] {
    if (yielded.has(view)) return ['other']
    return (users.get(view) ?? []).flatMap((user): Use[] => {
      const [first, second] = user.inputs
      if (user.op === 'transpose') return usesOf(user, !transposed)
      if (
        user.op === 'copy' &&
        user.inputs.length === 2 &&
        second === view &&
        first.op === 'tile' &&
        !transposed
      )
        return ['filled']
      if (user.op !== 'dot' || user.inputs[2] === view) return ['other']
      const right: Use = !transposed ? 'right' : isInnerDot(user, machine) ? 'inner' : 'transposed right'
      return [...(first === view ? ['left' as const] : []), ...(second === view ? [right] : [])]
    })
  }

  return new Map(
    nodes
      .filter((node) => node.op === 'shared')
      .map((tile) => {
        const uses = new Set(usesOf(tile, false))
        // If a matrix product with many rows needs the tile in panels, products with few rows read the same panels.
        if (uses.has('transposed right')) uses.delete('inner')
        const [use] = uses.delete('filled') && uses.size === 1 ? uses : []
        return [
          tile,
          borrowed.has(tile) ? rowsLayout : layoutFor(tile.type as RefType, use ?? 'other', machine),
        ]
      }),
  )
}

function layoutFor(type: RefType, use: Use, machine: Machine): TileLayout {
  if (type.shape.length !== 2) return rowsLayout
  switch (use) {
    case 'inner':
    case 'left':
      // A single panel as wide as the tile has the widened elements in row order. A tile declared as f32 needs no
      // panel, because its elements are already wide and in row order.
      return type.dtype === 'f32' ? rowsLayout : { kind: 'panels', axis: 1, width: type.shape[1] }
    case 'right':
      return { kind: 'panels', axis: 1, width: panelColumns(machine) }
    case 'transposed right':
      return { kind: 'panels', axis: 0, width: panelColumns(machine) }
    case 'filled':
    case 'other':
      return rowsLayout
    default:
      return use satisfies never
  }
}
