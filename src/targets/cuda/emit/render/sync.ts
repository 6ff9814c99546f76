/** Flags between programs and ranks, barriers between roles, fences. */
import { attribute, type Node } from '../../../../ir/node.ts'
import type { Order, Scope } from '../../../../ir/ops/index.ts'
import type { FlagsType } from '../../../../ir/type.ts'
import { fenceText } from '../device.ts'
import type { Emission } from '../emission.ts'
import { onRank, sum } from './places.ts'
import type { Renderer } from './renderer.ts'

/** All that the group did is done, and one of its threads may say so to others. */
export function release(node: Node, emission: Emission): void {
  if (emission.isApart) return
  emission.drain()
  emission.meet(node.site)
}

/** What one thread of the group has learned holds for all of them, and for the copies they start. */
export function acquire(node: Node, emission: Emission): void {
  if (emission.isApart) return
  if (isOfCopies(node, emission)) emission.out.line('fence_async();', node.site)
  emission.meet(node.site)
}

/** Whether copies by the engine may come after a node: of its own role, or of one that is told to go on. */
function isOfCopies(node: Node, { plans }: Emission): boolean {
  if (!plans.usesCopyEngine && plans.stores.size === 0) return false
  for (const later of plans.uses.after(node))
    if (['copy.async', 'barrier.arrive', 'barrier', 'roles'].includes(later.op) || plans.stores.has(later))
      return true
  return false
}

interface FlagText {
  readonly name: string
  readonly pointer: string
  /** Of a flag of this rank's, in a set with one axis. */
  readonly index: string | undefined
  /** The rank whose flag it is, for the record of a wait. */
  readonly owner: string
  readonly arrivals: number
}

function flagOf(node: Node, emission: Emission): FlagText {
  let base = node
  let owner: Node | undefined
  let indices: readonly Node[] = []
  while (base.op === 'on' || base.op === 'at') {
    if (base.op === 'on') owner ??= base.inputs[1]
    else indices = base.inputs.slice(1)
    base = base.inputs[0]
  }
  const name = emission.paramName(base)
  const flags = emission.params.flags(name)
  const local = !owner || owner.op === 'rank'
  const pointer = local ? flags : onRank(flags, owner!, emission)
  const offset = indices.reduce(
    (total, index, axis) =>
      axis === 0
        ? emission.scalar(index)
        : `(${total} * ${emission.params.dim(name, axis)} + ${emission.scalar(index)})`,
    '0',
  )
  const { arrivals } = base.type as FlagsType
  return {
    name,
    pointer: sum(pointer, offset),
    index: local && indices.length === 1 ? offset : undefined,
    owner: local ? emission.params.rank : emission.scalar(owner!),
    arrivals,
  }
}

export const epoch: Renderer = (node, emission) => {
  let base = node.inputs[0]
  while (base.op === 'on' || base.op === 'at') base = base.inputs[0]
  emission.setScalar(
    node,
    emission.epoch(emission.paramName(base), attribute<'signal' | 'wait'>(node, 'side')),
  )
}

export const signal: Renderer = (node, emission) => {
  const flag = flagOf(node.inputs[0], emission)
  const value = emission.epoch(flag.name, 'signal')
  emission.signals.add(flag.name)
  if (attribute<Order>(node, 'order') === 'release') release(node, emission)
  emission.byLeader(
    flag.arrivals === 1 ? `flag_store(${flag.pointer}, ${value});` : `flag_add(${flag.pointer}, 1);`,
    node.site,
  )
}

/** What the flag's word must have come to for this launch. */
function wantedOf(node: Node, flag: FlagText, emission: Emission): string {
  const lag = attribute<number>(node, 'lag')
  const epochText = emission.epoch(flag.name, 'wait')
  const wanted = lag === 0 ? epochText : `(${epochText} - ${lag})`
  return flag.arrivals === 1 ? wanted : `${wanted} * ${flag.arrivals}`
}

/** One thread looks, and all of the group go the way it saw. */
export const reached: Renderer = (node, emission) => {
  const flag = flagOf(node.inputs[0], emission)
  const name = emission.names.take('is_reached')
  const look = `flag_reached(flag_load(${flag.pointer}), ${wantedOf(node, flag, emission)})`
  emission.fromLeader('u32', name, `(u32)${look}`, node.site)
  if (isOfCopies(node, emission) && attribute<Order>(node, 'order') === 'acquire') acquire(node, emission)
  emission.setScalar(node, `(${name} != 0)`)
}

/**
 * Inside a loop a wait for the flag that was waited for last is over: flags only advance, and a launch waits for one epoch.
 * The threads do not meet then, so that what was pending before stays so.
 */
export const wait: Renderer = (node, emission) => {
  const { out } = emission
  const flag = flagOf(node.inputs[0], emission)
  emission.waits.add(flag.name)
  const value = wantedOf(node, flag, emission)
  const site = emission.waitSite(node.site)
  const block = (pointer: string): void => {
    emission.byLeader(
      emission.recorder?.flagWait(node, flag.name, pointer, value, site, flag.owner) ??
        `flag_wait(${pointer}, ${value}, ${emission.params.control}, ${site}, ${flag.owner});`,
      node.site,
    )
    acquire(node, emission)
  }
  const isRepeated = [...emission.plans.uses.around(node)].some((one) =>
    ['for', 'while', 'persistent'].includes(one.op),
  )
  if (!isRepeated || emission.isApart) return block(flag.pointer)
  if (flag.index !== undefined) return waitOnce(flag, node, emission, block)
  const awaited = emission.remember(
    'awaited',
    (name) => `const u32* ${name} = 0;  // the flag waited for last`,
  )
  const name = emission.names.take(`${flag.name}_flag`)
  out.line(`const u32* ${name} = ${flag.pointer};`, node.site)
  const before = emission.hazards.snapshot()
  out.block(`if (${name} != ${awaited})`, () => {
    block(name)
    out.line(`${awaited} = ${name};`)
  })
  emission.hazards.restore(before, emission.hazards.snapshot())
}

/** Of a set with one axis, those that were waited for are remembered: as a rule there is one for each rank. */
function waitOnce(
  { name, pointer, index }: FlagText,
  { site }: Node,
  emission: Emission,
  block: (pointer: string) => void,
): void {
  const { out, hazards } = emission
  const awaited = emission.remember('awaited', (of) => `u32 ${of} = 0;  // which of the first 32 flags were`)
  const at = emission.names.take(`${name}_index`)
  out.line(`const u32 ${at} = (u32)${index};`, site)
  const before = hazards.snapshot()
  out.block(`if (${at} >= 32 || !(${awaited} >> ${at} & 1))`, () => {
    block(pointer)
    out.line(`if (${at} < 32) ${awaited} |= 1u << ${at};`)
  })
  hazards.restore(before, hazards.snapshot())
}

export const fence: Renderer = (node, emission) => {
  emission.drain()
  emission.meet(node.site)
  emission.out.line(fenceText(attribute<Order>(node, 'order'), attribute<Scope>(node, 'scope')), node.site)
  if (emission.plans.usesCopyEngine) emission.out.line('fence_async();')
  emission.meet()
}

export const barrier: Renderer = (node, emission) => {
  const { group, plans } = emission
  emission.drain()
  emission.hazards.meet()
  const isWhole = group === plans.roles.whole
  emission.out.line(isWhole ? '__syncthreads();' : `group_barrier(0, ${group.together});`, node.site)
}

export const barrierArrive: Renderer = (node, emission) => {
  const { out, group, plans } = emission
  const [picked] = node.inputs
  const address = emission.scalar(picked)
  const deferred = emission.deferred.get(node)
  if (deferred) return out.line(`${deferred} = ${address};`, node.site)
  if (emission.hazards.hasSharedWrites) out.line('fence_async_shared();', node.site)
  if (group.solo) return out.line(`barrier_arrive(${address});`, node.site)
  if (plans.arrivers.get(picked.inputs[0]) === 1) {
    emission.meet(node.site)
    return emission.byLeader(`barrier_arrive(${address});`, node.site)
  }
  out.line('__syncwarp();', node.site)
  out.line(`if (thread % 32 == 0) barrier_arrive(${address});`, node.site)
}

export const barrierWait: Renderer = (node, emission) => {
  const { out, params, plans } = emission
  emission.hazards.handedBack()
  const [picked, phase] = node.inputs
  const arrived = `barrier_await(${emission.scalar(picked)}, ${emission.scalar(phase)} & 1, ${params.control})`
  if (picked.inputs[0].attributes.ring === undefined) {
    const told = `tell_wait(${params.control}, ${emission.waitSite(node.site)}, 0xffffffff, 0, 0);`
    return out.line(`if (!${arrived}${emission.group.solo ? '' : ' && thread == 0'}) ${told}`, node.site)
  }
  // A ring is stuck because its other role is. A thread alone can leave its loop; threads that work together stay together.
  const [inner] = plans.uses.around(node)
  const leaves = emission.group.solo && inner.op === 'for'
  if (leaves) return out.line(`if (!${arrived}) break;`, node.site)
  const told = emission.recorder?.slotWait(emission.scalar(picked), `${emission.scalar(phase)} & 1`)
  out.line(`${told ?? arrived};`, node.site)
}
