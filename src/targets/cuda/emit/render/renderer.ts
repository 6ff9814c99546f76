/** The type of functions that render an op. A renderer writes statements, or sets text that later statements use. */
import type { Node } from '../../../../ir/node.ts'
import type { Emission } from '../emission.ts'

export type Renderer = (node: Node, emission: Emission) => void

/** Renders nothing. The renderers of the users of the node read the node themselves. */
export const silent: Renderer = () => undefined
