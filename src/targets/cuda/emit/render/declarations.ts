/**
 * Declares variables for the addresses of shared tiles and barriers. The variable of a shared tile is named after the
 * tensor that fills the tile.
 */
import { walk, type Node } from '../../../../ir/node.ts'
import { completesAt, copyOf, origin, paramName } from '../../../../ir/ops/index.ts'
import { code, integer, scaled, sum, word } from '../code.ts'
import type { Emission } from '../emission.ts'
import { tileRoot } from '../tiles.ts'

import type { Renderer } from './renderer.ts'

export const shared: Renderer = (node, emission) => {
  const source = filledFrom(node, emission)
  const name = emission.names.take(source ? `${source}_tile` : 'tile')
  const { at } = emission.plans.shared.tiles.get(node)!
  emission.addresses.set(node, name)
  emission.out.line(code`const u32 ${name} = ${sum(word('shared'), integer(at))};`, node.site)
}

function filledFrom(tile: Node, emission: Emission): string | undefined {
  for (const node of walk(emission.plans.ir.body)) {
    const copied = copyOf(node)
    if (!copied || tileRoot(copied.target) !== tile) continue
    const { base } = origin(copied.source)
    if (base.op === 'param') return paramName(base)
  }
  return undefined
}

export const barriers: Renderer = (node, emission) => {
  const isCopied = [...walk(emission.plans.ir.body)].some((one) => completesAt(one) === node)
  const { ring } = node.attributes
  const name = emission.names.take(isCopied ? 'full' : ring === 'empty' ? 'empty' : 'finished')
  const { at } = emission.plans.shared.barriers.get(node)!
  emission.addresses.set(node, name)
  emission.out.line(code`const u32 ${name} = ${sum(word('shared'), integer(at))};`, node.site)
}

/**
 * Renders the address of a picked barrier. For a picked tensor or tile, nothing is emitted, because the nodes that use
 * it render its address.
 */
export const pick: Renderer = (node, emission) => {
  const [of, index] = node.inputs
  if (of.type.kind !== 'barriers') return
  emission.setScalar(node, sum(word(emission.addresses.get(of)!), scaled(emission.scalar(index), 8)))
}
