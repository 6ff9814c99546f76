/**
 * Which shared tiles are kept widened, in panels: those that only copies of whole tiles of global memory fill and that only products
 * read, all of them as the same operand. Then converting and rearranging is part of the copy, which touches every element anyway,
 * and a product reads memory in order. All others stay as they were declared.
 */
import { walk, type KernelIR, type Node } from '../../../ir/node.ts'
import type { RefType } from '../../../ir/type.ts'
import type { Machine } from '../code.ts'
import { isInnerDot } from './dot/inner.ts'
import { panelColumns, rowsLayout, type TileLayout } from './dot/tiles.ts'

export { panelBytes } from './dot/tiles.ts'

/** What one use of a tile makes of it. */
type Use = 'filled' | 'left' | 'right' | 'transposed right' | 'inner' | 'other'

/** `borrowed`: tiles that are read where their source lies, and as it lies. */
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

  /** What becomes of a tile or of its transposed view. */
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
        // Rearranged once for many rows, it serves few as well.
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
      // One panel, which is the tile by rows; what is f32 by rows already needs nothing.
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
