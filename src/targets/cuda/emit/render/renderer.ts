/** The type of functions that render an op. A renderer writes statements, or sets text that later statements use. */
import type { Node } from '../../../../ir/node.ts'
import type { Emission } from '../emission.ts'

export type Renderer = (node: Node, emission: Emission) => void

/** Renders nothing. A node without code of its own is read by the renderers of the nodes that use it. */
export const silent: Renderer = () => undefined
