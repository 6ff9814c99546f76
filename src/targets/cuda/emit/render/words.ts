/** Renders stores and loads of flag-in-data words, whose low two bits hold the epoch. See ../words.ts. */
import { walk, type Node } from '../../../../ir/node.ts'
import { opOf, paramName } from '../../../../ir/ops/index.ts'
import { isFragment } from '../assign.ts'
import { wordOrder } from '../words.ts'
import { stopped } from './control.ts'
import { placeOf } from './places.ts'
import type { Renderer } from './renderer.ts'

/**
 * Flag-in-data words replace a signal or wait. Only the epoch of the flag set is still advanced, as a signal or
 * wait would.
 */
export const advance: Renderer = (node, emission) => {
  const [flags] = node.inputs.map(paramName)
  const { advances } = opOf(node)
  if (advances === 'none') return
  emission.epoch(flags, advances)
  emission[advances === 'signal' ? 'signals' : 'waits'].add(flags)
}

/**
 * Executes its block repeatedly until no word is missing. Each thread retries on its own. If the block contains an
 * operation that threads execute together, all threads of the group retry together.
 */
export const until: Renderer = (node, emission) => {
  const { out, group, params, plans } = emission
  const number = ++emission.labels
  const [tries, missing] = ['tries', 'missing'].map((name) => emission.names.take(`${name}_${number}`))
  const [body] = node.blocks
  const [flags] = [...walk(body)].filter(({ op }) => op === 'words.take').map(({ inputs }) => inputs[1])
  const awaited = [...walk(plans.ir.body)].find(
    ({ op, inputs }) => op === 'advance.wait' && inputs[0] === flags,
  )
  const [site, epoch] = [emission.waitSite(awaited!.site), emission.epoch(paramName(flags), 'wait')]
  out.line(`u32 ${tries} = 0;`, node.site)
  out.line(`again_${number}:`)
  out.line(`u32 ${missing} = 0;`)
  emission.missing = missing
  emission.block(body)
  emission.missing = undefined
  const isAlone = !plans.loops.together.has(node)
  const isMissing = `(${missing} & 3) != 0`
  const any = isAlone ? isMissing : `group_any(${group.barrier}, ${group.threads}, ${isMissing})`
  const isStopped = isAlone ? `abort_raised(${params.control})` : stopped(emission)
  const told = `tell_wait(${params.control}, ${site}, ${params.rank}, ${epoch} - 1, ${epoch});`
  out.block(`if (${any})`, () => {
    out.line(`if (++${tries} % 256 != 0 || !${isStopped}) goto again_${number};`)
    if (isAlone) out.line(told)
    else emission.byLeader(told)
  })
  const nameOf = (value: Node): string =>
    isFragment(value) ? emission.inArray(value) : emission.scalar(value)
  emission.results.set(node, body.results.map(nameOf))
}

export const post: Renderer = (node, emission) => {
  const [ref, flags, value] = node.inputs
  const { out, plans } = emission
  const layout = plans.layouts.of(value)
  const place = placeOf(ref, emission)
  const array = emission.inArray(value)
  const epoch = emission.epoch(paramName(flags), 'signal')
  const turned = wordOrder(layout, emission.group)
  const at = (turned?.order ?? layout).place('i')
  out.line('#pragma unroll')
  if (turned) {
    const registers = [0, 1, 2, 3].map((n) => `${array}[${turned.register(`(i + ${n})`)}]`)
    return out.line(
      `for (u32 i = 0; i < ${turned.order.count}; i += 4) post_words(${place.address(at, 'i')}, ${epoch}, ${registers.join(', ')});`,
      node.site,
    )
  }
  const guard = [layout.isFirst, layout.exists('i'), place.inside(at)].filter((one) => one !== undefined)
  out.line(
    `for (u32 i = 0; i < ${layout.count}; ++i) ${guard.length > 0 ? `if (${guard.join(' && ')}) ` : ''}post_word(${place.address(at, 'i')}, ${epoch}, ${array}[i]);`,
    node.site,
  )
}

export const take: Renderer = (node, emission) => {
  const [ref, flags] = node.inputs
  const { out, plans, missing } = emission
  const layout = plans.layouts.of(node)
  const place = placeOf(ref, emission)
  const name = emission.declareFragment(node, 'taken')
  const epoch = emission.epoch(paramName(flags), 'wait')
  const turned = wordOrder(layout, emission.group)
  const at = (turned?.order ?? layout).place('i')
  if (turned) {
    if (turned.order.count !== layout.count) out.unrolled(layout.count, `${name}[i] = 0;`, node.site)
    const registers = [0, 1, 2, 3].map((n) => `${name}[${turned.register(`(i + ${n})`)}]`)
    out.line('#pragma unroll')
    return out.line(
      `for (u32 i = 0; i < ${turned.order.count}; i += 4) take_words(${place.address(at, 'i')}, ${epoch}, ${missing}, ${registers.join(', ')});`,
      node.site,
    )
  }
  const guard = [layout.exists('i'), place.inside(at)].filter((one) => one !== undefined).join(' && ')
  if (guard) out.unrolled(layout.count, `${name}[i] = 0;`, node.site)
  out.line('#pragma unroll')
  out.line(
    `for (u32 i = 0; i < ${layout.count}; ++i) ${guard ? `if (${guard}) ` : ''}take_word(${place.address(at, 'i')}, ${epoch}, ${missing}, ${name}[i]);`,
    node.site,
  )
}
