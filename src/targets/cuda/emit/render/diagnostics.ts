/**
 * Renders assertions. All threads of a group evaluate the condition of an assertion, and one thread reports a failure.
 */
import { attribute } from '../../../../ir/node.ts'
import { code } from '../code.ts'
import { lib } from '../library.ts'
import type { Renderer } from './renderer.ts'

export const assert: Renderer = (node, emission) => {
  const number = emission.assertion(node.site, attribute<string>(node, 'message'))
  const holds = emission.scalar(node.inputs[0])
  emission.byLeader(
    code`if (!(${holds})) ${lib.assertion_failed}(${emission.params.control}, ${number});`,
    node.site,
  )
}
