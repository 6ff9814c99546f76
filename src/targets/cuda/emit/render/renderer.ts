/** What renders an op: it writes statements, or makes text that later statements use. */
import type { Node } from '../../../../ir/node.ts'
import type { Emission } from '../emission.ts'

export type Renderer = (node: Node, emission: Emission) => void

/** Nothing to write: whoever uses the node looks at it. */
export const silent: Renderer = () => undefined
