/** Renders stores and loads of flag-in-data words, whose low two bits hold the epoch. See ../words.ts. */
import { attribute, walk } from '../../../../ir/node.ts'
import { paramName } from '../../../../ir/ops/index.ts'
import { all, code, joined, REGISTER } from '../code.ts'
import { wordOrder } from '../words.ts'
import { stopped } from './control.ts'
import { placeOf } from './places.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'

/**
 * Renders nothing. An `advance` node stands for a signal or wait that flag-in-data words have replaced. The setup of
 * the kernel advances the epoch of the flag set (../start.ts).
 */
export const advance: Renderer = () => {}

/**
 * Renders an `until` loop, which executes its block repeatedly until no flag-in-data word is missing. By default, each
 * thread repeats the block of an `until` loop on its own. If the block contains an operation that threads execute
 * together, all threads of the group repeat the block together.
 */
export const until: Renderer = (node, emission) => {
  const { out, group, params } = emission
  const number = ++emission.labels
  const [tries, missing] = ['tries', 'missing'].map((name) => emission.names.take(`${name}_${number}`))
  const [body] = node.blocks
  const [flags] = [...walk(body)].filter(({ op }) => op === 'words.take').map(({ inputs }) => inputs[1])
  const [site, epoch] = [emission.waitSite(node), emission.epoch(paramName(flags), 'wait')]
  out.line(code`u32 ${tries} = 0;`, node.site)
  out.line(code`again_${number}:`)
  out.line(code`u32 ${missing} = 0;`)
  emission.missing = missing
  emission.block(body)
  emission.missing = undefined
  const isAlone = node.attributes.together !== true
  const isMissing = code`(${missing} & 3) != 0`
  const any = isAlone ? isMissing : code`${lib.group_any}(${group.barrier}, ${group.threads}, ${isMissing})`
  const isStopped = isAlone ? code`${lib.abort_raised}(${params.control})` : stopped(emission)
  const told = code`${lib.tell_wait}(${params.control}, ${site}, ${params.rank}, ${epoch} - 1, ${epoch});`
  out.block(code`if (${any})`, () => {
    out.line(
      code`if (++${tries} % ${attribute<number>(node, 'polls')} != 0 || !${isStopped}) goto again_${number};`,
    )
    if (isAlone) out.line(told)
    else emission.byLeader(told)
  })
  // The results of an `until` block are variables, because the block is a load or a loop.
  emission.results.set(
    node,
    body.results.map((value) => emission.variableOf(value)),
  )
}

export const post: Renderer = (node, emission) => {
  const [ref, flags, value] = node.inputs
  const { out, plans } = emission
  const layout = plans.layouts.of(value)
  const place = placeOf(ref, emission)
  const array = emission.inArray(value)
  const epoch = emission.epoch(paramName(flags), 'signal')
  const turned = wordOrder(layout, emission.group)
  const at = (turned?.order ?? layout).place(REGISTER)
  out.line('#pragma unroll')
  if (turned) {
    const registers = [0, 1, 2, 3].map((n) => code`${array}[${turned.register(code`(i + ${n})`)}]`)
    return out.line(
      code`for (u32 i = 0; i < ${turned.order.count}; i += 4) ${lib.post_words}(${place.address(at, REGISTER)}, ${epoch}, ${joined(registers, ', ')});`,
      node.site,
    )
  }
  const guard = all([layout.isFirst, layout.exists(REGISTER), place.inside(at)])
  out.line(
    code`for (u32 i = 0; i < ${layout.count}; ++i) ${guard ? code`if (${guard}) ` : ''}${lib.post_word}(${place.address(at, REGISTER)}, ${epoch}, ${array}[i]);`,
    node.site,
  )
}

export const take: Renderer = (node, emission) => {
  const [ref, flags] = node.inputs
  const { out, plans } = emission
  const missing = emission.missing!
  const layout = plans.layouts.of(node)
  const place = placeOf(ref, emission)
  const name = emission.declareFragment(node, 'taken')
  const epoch = emission.epoch(paramName(flags), 'wait')
  const turned = wordOrder(layout, emission.group)
  const at = (turned?.order ?? layout).place(REGISTER)
  if (turned) {
    if (turned.order.count !== layout.count) out.unrolled(layout.count, code`${name}[i] = 0;`, node.site)
    const registers = [0, 1, 2, 3].map((n) => code`${name}[${turned.register(code`(i + ${n})`)}]`)
    out.line('#pragma unroll')
    return out.line(
      code`for (u32 i = 0; i < ${turned.order.count}; i += 4) ${lib.take_words}(${place.address(at, REGISTER)}, ${epoch}, ${missing}, ${joined(registers, ', ')});`,
      node.site,
    )
  }
  const guard = all([layout.exists(REGISTER), place.inside(at)])
  if (guard) out.unrolled(layout.count, code`${name}[i] = 0;`, node.site)
  out.line('#pragma unroll')
  out.line(
    code`for (u32 i = 0; i < ${layout.count}; ++i) ${guard ? code`if (${guard}) ` : ''}${lib.take_word}(${place.address(at, REGISTER)}, ${epoch}, ${missing}, ${name}[i]);`,
    node.site,
  )
}
