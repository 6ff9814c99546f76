/** Lowers flags, barriers and fences, and the abort after a fault. */
import { attribute, walk, type Node } from '../../../ir/node.ts'
import { opOf, origin, type Order } from '../../../ir/ops/index.ts'
import { eventKind, waitKind, type Fault } from '../abi.ts'
import {
  add,
  address,
  binary,
  compare,
  i32,
  mul,
  select,
  sub,
  unary,
  use,
  type Operand,
  type Writer,
} from '../build.ts'
import type { Expression, Local, MemoryOrder } from '../code.ts'
import { flagsOf, type Lowering } from './context.ts'
import { header } from './frame.ts'
import { faultNumber } from './runtime.ts'
import { scalar } from './scalars.ts'
import { view, type BarriersView, type FlagsView } from './views.ts'

export const orderOf = (node: Node): MemoryOrder => (node.attributes.order as Order | undefined) ?? 'relaxed'

/** Aborts the world because the kernel performed an operation without a defined result. */
export function raise(l: Lowering, fault: Fault, node: Node): void {
  const { memory, slot } = l.ambient
  l.call(l.shared.runtime.raiseFault, memory, slot, i32(faultNumber(fault)), i32(l.shared.sites.number(node)))
  l.stop()
}

/** Returns from the function if the called runtime function returned -1 after an abort. */
export function leaveIfStopped(l: Lowering, stopped: Expression): void {
  l.writer.if(compare('ne', stopped, i32(0)), () => l.stop())
}

export function signal(l: Lowering, node: Node): void {
  const flag = view(l, node.inputs[0]) as FlagsView
  const { arrivals } = flagsOf(node.inputs[0])
  const epoch = l.epoch(flag.param, 'signalled')
  // The store of the signal must precede the read of the sleeper count in the sequentially consistent order, which
  // sleepers also use.
  const wake = (): void => void l.call(l.shared.runtime.wakeSleepers, l.ambient.memory, flag.base)
  if (arrivals === 1) {
    l.writer.atomicStore(flag.base, epoch, 'seqCst')
    wake()
    return
  }
  const before = l.writer.atomic('add', flag.base, i32(1), 'seqCst')
  if (isCounted(l, flag.param)) return wake()
  // Most waits are for a complete epoch, so only the last arrival of an epoch wakes sleepers. A wait for some of an
  // epoch's signals in another kernel polls instead (`waitCount`). The difference of two flag words stays small, even
  // after the words have wrapped around.
  const beyond = sub(add(before, i32(1)), mul(epoch, i32(arrivals)))
  l.writer.if(unary('eqz', binary('rem', beyond, i32(arrivals))), wake)
}

/** The number of signals that a wait requires, or undefined for all signals of an epoch. */
const countOf = (node: Node): Node | undefined => node.inputs[1]

/** True if the kernel waits for some of an epoch's signals of this flag set (`atLeast`). */
function isCounted(l: Lowering, param: Node): boolean {
  const { body } = l.shared.ir
  return [...walk(body)].some(
    (node) => opOf(node).advances === 'wait' && countOf(node) && origin(node.inputs[0]).base === param,
  )
}

/**
 * The value that the flag must reach in this launch. If the wait has a lag, the value is 0 while there is no earlier
 * epoch to wait for.
 */
function wantedOf(l: Lowering, node: Node, flag: FlagsView): Local {
  const { writer } = l
  const { arrivals } = flagsOf(node.inputs[0])
  const lag = attribute<number>(node, 'lag')
  const epoch = l.epoch(flag.param, 'waited')
  const late = lag === 0 ? epoch : writer.let('epoch', sub(epoch, i32(lag)))
  const count = countOf(node)
  if (count) {
    const part = add(mul(sub(late, i32(1)), i32(arrivals)), scalar(l, count))
    return writer.let('wanted', lag === 0 ? part : select(compare('gt', late, i32(0)), part, i32(0)))
  }
  return writer.let(
    'wanted',
    mul(lag === 0 ? epoch : select(compare('gt', late, i32(0)), late, i32(0)), i32(arrivals)),
  )
}

/** Flag words wrap around, so the sign of the difference shows whether the flag has yet to reach the wanted value. */
const isBefore = (seen: Local, wanted: Local): Expression => compare('lt', sub(seen, wanted), i32(0))

export function reached(l: Lowering, node: Node): void {
  const { writer } = l
  const flag = view(l, node.inputs[0]) as FlagsView
  const wanted = wantedOf(l, node, flag)
  const isHere = writer.let('reached', i32(1))
  const look = (): void => {
    const seen = writer.atomicLoad('seen', 'i32', flag.base, 'acquire')
    writer.set(isHere, unary('eqz', isBefore(seen, wanted)))
  }
  if (attribute<number>(node, 'lag') === 0) look()
  else writer.if(compare('ne', wanted, i32(0)), look)
  l.scalars.set(node, use(isHere))
}

export function wait(l: Lowering, node: Node): void {
  const { writer, ambient, shared } = l
  const flag = view(l, node.inputs[0]) as FlagsView
  const wanted = wantedOf(l, node, flag)
  const block = (): void => {
    const seen = writer.atomicLoad('seen', 'i32', flag.base, 'acquire')
    const isEarly = (): Expression => isBefore(seen, wanted)
    if (shared.options.record) lookAgain(writer, seen, flag.base, isEarly)
    writer.if(isEarly(), () => {
      const owner = flag.owner ?? l.rank
      const site = i32(shared.sites.number(node))
      const param = i32(l.paramIndex(flag.param))
      recorded(l, eventKind.wait, node, owner, param, () => {
        const stopped = l.call(
          countOf(node) ? shared.runtime.waitCount : shared.runtime.waitFlag,
          ambient.memory,
          flag.base,
          wanted,
          ambient.slot,
          site,
          param,
          owner,
          flag.index,
        )
        leaveIfStopped(l, use(stopped!))
      })
    })
  }
  if (attribute<number>(node, 'lag') === 0) block()
  else writer.if(compare('ne', wanted, i32(0)), block)
}

/**
 * The number of polls before a wait is recorded. The polls before a wait is recorded take a few tenths of a
 * microsecond, about as long as recording an event.
 */
export const looks = 256

/**
 * Polls the flag a few times before the recording of the wait starts. A very short wait is not recorded, because
 * reading the clock would dominate its duration.
 */
function lookAgain(writer: Writer, seen: Local, flag: Operand, isEarly: () => Expression): void {
  writer.if(isEarly(), () => {
    writer.for('look', 0, looks, 1, () => {
      writer.set(seen, writer.atomicLoad('again', 'i32', flag, 'acquire'))
      writer.if(unary('eqz', isEarly()), () => writer.break())
    })
  })
}

/** Runs `body`, and logs its start and its end if the world records events. */
export function recorded(
  l: Lowering,
  kind: number,
  node: Node,
  who: Expression,
  what: Expression,
  body: () => void,
): void {
  if (!l.shared.options.record) return body()
  const start = l.writer.let('start', { kind: 'now', type: 'f64' })
  body()
  const end = l.writer.let('end', { kind: 'now', type: 'f64' })
  const site = i32(l.shared.sites.number(node))
  l.call(l.shared.runtime.recordEvent, l.ambient.slot, i32(kind), site, start, end, who, what)
}

export function fence(l: Lowering, node: Node): void {
  l.writer.emit({ kind: 'fence', order: orderOf(node) })
}

/** Synchronises all roles of the program. In a program without roles, nothing needs to be synchronised. */
export function barrier(l: Lowering, node: Node): void {
  if (l.roles === 1) return
  const { writer, ambient, shared } = l
  const word = writer.let('meeting', address(ambient.frame, 0, 1, header.meeting))
  const before = writer.atomic('add', word, i32(1), 'seqCst')
  l.call(shared.runtime.wakeSleepers, ambient.memory, word)
  // The arrival count of the roles is never reset. A barrier is complete when the arrival count reaches the next
  // multiple of the number of roles.
  const meeting = add(
    mul({ kind: 'binary', type: 'i32', name: 'divU', a: use(before), b: i32(l.roles) }, i32(l.roles)),
    i32(l.roles),
  )
  const site = i32(shared.sites.number(node))
  const stopped = l.call(
    shared.runtime.waitWord,
    ambient.memory,
    word,
    meeting,
    ambient.slot,
    site,
    i32(waitKind.barrier),
  )
  leaveIfStopped(l, use(stopped!))
}

export function arrive(l: Lowering, node: Node): void {
  const { base } = view(l, node.inputs[0]) as BarriersView
  l.writer.emit({ kind: 'atomic', name: 'add', at: base, value: i32(1), order: 'seqCst' })
  l.call(l.shared.runtime.wakeSleepers, l.ambient.memory, base)
}

export function waitPhase(l: Lowering, node: Node): void {
  const { ambient, shared } = l
  const { base, arrivals } = view(l, node.inputs[0]) as BarriersView
  const phase = scalar(l, node.inputs[1])
  const site = i32(shared.sites.number(node))
  const stopped = l.call(
    shared.runtime.waitBarrier,
    ambient.memory,
    base,
    i32(arrivals),
    phase,
    ambient.slot,
    site,
  )
  leaveIfStopped(l, use(stopped!))
}
