/** Renders flags between programs and ranks, barriers between roles, and fences. */
import { strideOf } from '../../../../ir/clusters.ts'
import { attribute, type Node } from '../../../../ir/node.ts'
import { origin, type Order, type Scope } from '../../../../ir/ops/index.ts'
import type { FlagsType } from '../../../../ir/type.ts'
import { fenceText } from '../accesses.ts'
import { code, group, integer, joined, sum, word, type Code } from '../code.ts'
import type { Emission } from '../emission.ts'
import { flagPlaceOf } from '../views.ts'
import { onRank } from './places.ts'
import type { Renderer } from './renderer.ts'
import { lib } from '../library.ts'

export const meet: Renderer = (node, emission) =>
  node.attributes.of === 'warpgroup'
    ? emission.out.line(code`${lib.group_barrier}(${emission.warpgroupBarrier()}, 128);`, node.site)
    : node.attributes.joins === true
      ? emission.out.reach(node.site)
      : emission.meet(node.site)

export const fenceAsync: Renderer = (node, { out }) =>
  out.line(
    node.attributes.space === 'shared' ? code`${lib.fence_async_shared}();` : code`${lib.fence_async}();`,
    node.site,
  )

/**
 * Renders a wait for asynchronous copies. For TMA stores, the wait ends when the stores are complete, so that a later
 * release covers them, or, if only the shared memory is reused, when TMA has read it. For cp.async, the wait ends when
 * the copies of each thread are complete.
 */
export const drain: Renderer = (node, emission) => {
  const { attributes, site } = node
  const { out, group, recorder } = emission
  if (attributes.by === 'threads') {
    const wait = (): void => out.line(code`${lib.fetches_arrived}();`, site)
    return recorder ? recorder.fetched(node, wait) : wait()
  }
  const wait = attributes.of === 'reads' ? lib.tma_store_wait_read : lib.tma_store_wait_done
  const { pending = 0 } = attributes as { pending?: number }
  const why = pending > 0 ? '  // TMA has read the previous box in this staging buffer' : ''
  out.line(code`${group.solo ? '' : 'if (thread % 128 == 0) '}${wait}<${pending}>();${why}`, site)
}

interface FlagText {
  readonly name: string
  readonly pointer: Code
  /** The index of the flag if the flag is on this rank and its set has one axis, otherwise undefined. */
  readonly index: Code | undefined
  /** The rank that owns the flag. Wait records and event logs name the rank that owns the flag. */
  readonly owner: Code
  readonly arrivals: number
}

function flagOf(node: Node, emission: Emission): FlagText {
  const { base, owner, indices } = flagPlaceOf(node)
  const name = emission.paramName(base)
  const flags = emission.params.flags(name)
  const pointer = owner ? onRank(flags, owner, emission) : flags
  const offset = indices.reduce<Code>(
    (total, index, axis) =>
      axis === 0
        ? emission.scalar(index)
        : code`(${total} * ${emission.params.dim(name, axis)} + ${emission.scalar(index)})`,
    integer(0),
  )
  const { arrivals } = base.type as FlagsType
  return {
    name,
    pointer: sum(pointer, offset),
    index: !owner && indices.length === 1 ? offset : undefined,
    owner: owner ? emission.scalar(owner) : emission.params.rank,
    arrivals,
  }
}

export const epoch: Renderer = (node, emission) => {
  const { base } = origin(node.inputs[0])
  emission.setScalar(
    node,
    emission.epoch(emission.paramName(base), attribute<'signal' | 'wait'>(node, 'side')),
  )
}

export const signal: Renderer = (node, emission) => {
  const flag = flagOf(node.inputs[0], emission)
  const value = emission.epoch(flag.name, 'signal')
  emission.byLeader(
    flag.arrivals === 1
      ? code`${lib.flag_store}(${flag.pointer}, ${value});`
      : code`${lib.flag_add}(${flag.pointer}, 1);`,
    node.site,
  )
}

/** Returns the text of the value that the flag must reach in this launch. */
function wantedOf(node: Node, flag: FlagText, emission: Emission): Code {
  const lag = attribute<number>(node, 'lag')
  const epochText = emission.epoch(flag.name, 'wait')
  const count = node.inputs[1] as Node | undefined
  if (count) {
    const before = code`(${epochText} - ${lag + 1})`
    return code`${flag.arrivals === 1 ? before : code`${before} * ${flag.arrivals}`} + (u32)${emission.scalar(count)}`
  }
  const wanted = lag === 0 ? epochText : code`(${epochText} - ${lag})`
  return flag.arrivals === 1 ? wanted : code`${wanted} * ${flag.arrivals}`
}

/** One thread reads the flag, and all threads of the group use the result of this thread. */
export const reached: Renderer = (node, emission) => {
  const flag = flagOf(node.inputs[0], emission)
  const name = emission.names.take('is_reached')
  const look = code`${lib.flag_reached}(${lib.flag_load}(${flag.pointer}), ${wantedOf(node, flag, emission)})`
  emission.fromLeader(node, 'u32', name, code`(u32)${look}`)
  emission.setScalar(node, group(code`${name} != 0`))
}

export const wait: Renderer = (node, emission) => {
  const flag = flagOf(node.inputs[0], emission)
  const value = wantedOf(node, flag, emission)
  const site = emission.waitSite(node)
  const pointer = emission.flagPointer ?? flag.pointer
  emission.byLeader(
    emission.recorder?.flagWait(node, flag.name, pointer, value, site, flag.owner) ??
      code`${lib.flag_wait}(${pointer}, ${value}, ${emission.params.control}, ${site}, ${flag.owner});`,
    node.site,
  )
}

export const once: Renderer = (node, emission) => {
  const { out } = emission
  const [body] = node.blocks
  const { inputs } = body.nodes.find(({ op }) => op === 'wait')!
  const flag = flagOf(inputs[0], emission)
  if (node.attributes.remembers === 'set') return onceOfSet(node, flag, emission)
  const awaited = emission.remember(
    'awaited',
    (name) => code`const u32* ${name} = 0;  // the last flag that was waited for`,
  )
  const name = emission.names.take(`${flag.name}_flag`)
  out.line(code`const u32* ${name} = ${flag.pointer};`, node.site)
  out.block(code`if (${name} != ${awaited})`, () => {
    emission.flagPointer = word(name)
    emission.block(body)
    emission.flagPointer = undefined
    out.line(code`${awaited} = ${name};`)
  })
}

/**
 * Renders a wait for a flag of a set with one axis. The wait is skipped if the program has already waited for the flag.
 * A bit mask remembers which of the first 32 flags of the set have been waited for. A flag set with one axis typically
 * has one flag per rank.
 */
function onceOfSet({ blocks: [body], site }: Node, { name, index }: FlagText, emission: Emission): void {
  const { out } = emission
  const awaited = emission.remember(
    'awaited',
    (of) => code`u32 ${of} = 0;  // a bit for each of the first 32 flags that was waited for`,
  )
  const at = emission.names.take(`${name}_index`)
  out.line(code`const u32 ${at} = (u32)${index!};`, site)
  out.block(code`if (${at} >= 32 || !(${awaited} >> ${at} & 1))`, () => {
    emission.block(body)
    out.line(code`if (${at} < 32) ${awaited} |= 1u << ${at};`)
  })
}

export const fence: Renderer = (node, { out }) =>
  out.line(fenceText(attribute<Order>(node, 'order'), attribute<Scope>(node, 'scope')), node.site)

export const barrier: Renderer = (node, emission) => {
  const { group, plans } = emission
  if (node.attributes.joins === true) return emission.out.reach(node.site)
  const isWhole = group === plans.roles.whole
  emission.out.line(
    isWhole ? '__syncthreads();' : code`${lib.group_barrier}(0, ${group.together});`,
    node.site,
  )
}

/**
 * The name of the variable with the rank of the program in its cluster. Only kernels with multicast copies declare the
 * variable `place`.
 */
export const PLACE = 'place'

/**
 * Renders a barrier of all programs of the cluster. The first barrier of the cluster also declares the variable with
 * the rank of the program in its cluster.
 */
export const clusterMeet: Renderer = (node, { out, plans }) => {
  out.line(code`${lib.cluster_meet}();`)
  const isFirst = plans.ir.body.nodes.find(({ op }) => op === node.op) === node
  if (isFirst) out.line(code`const u32 ${PLACE} = ${lib.place_in_cluster}();`)
}

/**
 * Returns the statement by which one thread arrives at an mbarrier, and, for multicast copies, at the same mbarrier of
 * other programs of the cluster.
 */
export function arrivalText({ attributes }: Node, address: Code): Code {
  const own = code`${lib.barrier_arrive}(${address});`
  const axes = (attributes.multicast ?? []) as readonly number[]
  if (axes.length === 0) return own
  const cluster = attributes.cluster as readonly number[]
  const others = axes.map(
    (axis) =>
      code` for (u32 step = 1; step < ${cluster[axis]}; ++step) ${lib.barrier_arrive_at}(${address}, ${lib.neighbour}(${PLACE}, step, ${strideOf(cluster, axis)}, ${cluster[axis]}));`,
  )
  return code`{ ${own}${joined(others, '')} }`
}

export const barrierArrive: Renderer = (node, emission) => {
  const { out, group, plans } = emission
  const [picked, holder] = node.inputs as readonly [Node, Node?]
  const address = emission.scalar(picked)
  if (holder) return out.line(code`${emission.held.get(holder)!} = ${address};`, node.site)
  const arrival = arrivalText(node, address)
  if (group.solo) return out.line(arrival, node.site)
  if (plans.arrivers.get(picked.inputs[0]) === 1) return emission.byLeader(arrival, node.site)
  out.line('__syncwarp();', node.site)
  out.line(code`if (thread % 32 == 0) ${arrival}`, node.site)
}

/**
 * Declares the variable of a held (postponed) arrival. The variable contains the address of the mbarrier, or 0 if no
 * arrival is held.
 */
export const held: Renderer = (node, { out, names, held }) => {
  const name = names.take('to_hand_back')
  out.line(code`u32 ${name} = 0;`)
  held.set(node, name)
}

export const arriveHeld: Renderer = (node, { out, held }) => {
  const name = held.get(node.inputs[0])!
  out.line(code`if (thread % 32 == 0 && ${name} != 0) ${arrivalText(node, word(name))}`, node.site)
}

export const barrierWait: Renderer = (node, emission) => {
  const { out, params, plans } = emission
  const [picked, phase] = node.inputs
  const isOfCluster = picked.inputs[0].attributes.cluster !== undefined
  const awaited = isOfCluster ? lib.cluster_barrier_await : lib.barrier_await
  const arrived = code`${awaited}(${emission.scalar(picked)}, ${emission.scalar(phase)} & 1, ${params.control})`
  if (picked.inputs[0].attributes.ring === undefined) {
    const told = code`${lib.tell_wait}(${params.control}, ${emission.waitSite(node)}, 0xffffffff, 0, 0);`
    return out.line(code`if (!${arrived}${emission.group.solo ? '' : ' && thread == 0'}) ${told}`, node.site)
  }
  // A wait for a ring slot hangs only because the other role hangs, so this wait is not reported. A single thread
  // can leave its loop when the launch is aborted. Threads of a group must not leave a loop at different times.
  const [inner] = plans.uses.around(node)
  const leaves = emission.group.solo && inner.op === 'for'
  if (leaves) return out.line(code`if (!${arrived}) break;`, node.site)
  const told = emission.recorder?.slotWait(emission.scalar(picked), code`${emission.scalar(phase)} & 1`)
  out.line(code`${told ?? arrived};`, node.site)
}
