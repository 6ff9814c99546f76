/** Flags: signals and waits for epochs, on the histories of strong accesses. */
import { attribute, type Node } from '../../ir/node.ts'
import type { Order, Scope } from '../../ir/ops/index.ts'
import { accessOf, partyOf, type Memory, type WrongView } from './access.ts'
import { describe, type Agent } from './agent.ts'
import { historyOf, Location, type Message } from './atomics.ts'
import type { Buffer } from './memory.ts'
import type { StrongAccess, StrongMemory } from './strong.ts'

export interface FlagSet {
  readonly name: string
  readonly shape: readonly number[]
  readonly arrivals: number
  readonly buffers: readonly Buffer[]
  /** Launches that have signalled, and waited, on each rank. */
  readonly signalled: number[]
  readonly waited: number[]
}

/** One flag of a set, on one rank. */
export interface FlagView {
  readonly flags: FlagSet
  readonly rank: number
  readonly index: number
  readonly wrong?: WrongView
}

export class FlagMemory {
  readonly #memory: Memory
  readonly #strong: StrongMemory

  constructor(memory: Memory, strong: StrongMemory) {
    this.#memory = memory
    this.#strong = strong
  }

  signal(agent: Agent, node: Node, flag: FlagView): void {
    const epoch = agent.launch.epochs.get(flag.flags)!.signal
    const access = { ...strongAccess(agent, node, flag), epoch }
    agent.noteEffect()
    this.#noteKind(access)
    if (flag.flags.arrivals === 1) {
      this.#strong.store(access, epoch >>> 0)
      this.#checkAdvance(agent, node, flag, epoch)
    } else this.#strong.modify(access, (old) => (old + 1) >>> 0)
  }

  /** A later signal with another order or scope may tell less than an earlier one. */
  #noteKind({ buffer, i, order, scope }: StrongAccess): void {
    const { signals } = historyOf(buffer, i)
    signals.add(`${order} ${scope}`)
    if (signals.size > 1) this.#strong.sharePlace(mixedKey(buffer, i))
  }

  /** Whether it makes a difference which of the signals a wait hears, and so when it does. */
  isMixed({ flags, rank, index }: FlagView): boolean {
    return this.#strong.isSharedPlace(mixedKey(flags.buffers[rank], index))
  }

  /** Of several signallers a late one must not take back a later epoch: whoever waits for that would wait forever. */
  #checkAdvance(agent: Agent, node: Node, flag: FlagView, epoch: number): void {
    const { messages } = flag.flags.buffers[flag.rank].locations.get(flag.index)!
    const at = messages.findLastIndex(
      (message) => Location.writer(message)?.by === agent && message.epoch === epoch,
    )
    const later = messages.slice(0, at).find((message) => (message.epoch ?? 0) > epoch)
    const earlier = messages
      .slice(at + 1)
      .find((message) => message.epoch !== undefined && message.epoch < epoch)
    const other = later ?? earlier
    const writer = other && Location.writer(other)
    if (!other || !writer) return
    const by = accessOf(agent, node)
    const [first, second] = [Math.min(epoch, other.epoch!), Math.max(epoch, other.epoch!)]
    this.#memory.say(
      'flag-reuse',
      by,
      `a signal of epoch ${first} takes back epoch ${second} of ${describeFlag(flag)}: a flag of one arrival has one signaller, or signallers that are ordered`,
      [
        { who: describe(writer.by), what: `signals epoch ${other.epoch}`, site: writer.node?.site },
        partyOf(by, `signals epoch ${epoch}`),
      ],
    )
  }

  /** The epoch a wait of this launch wants. */
  wantedEpoch(agent: Agent, node: Node, { flags }: FlagView): number {
    return Math.max(agent.launch.epochs.get(flags)!.wait - attribute<number>(node, 'lag'), 0)
  }

  canWait(agent: Agent, node: Node, flag: FlagView): boolean {
    const wanted = this.wantedEpoch(agent, node, flag) * flag.flags.arrivals
    if (wanted === 0) return true
    const location = flag.flags.buffers[flag.rank].locations.get(flag.index)
    if (!location) return false
    if (suffices(location.newest, wanted)) return true
    return location.messages.slice(location.floor(agent)).some((message) => suffices(message, wanted))
  }

  /** A look returns any state of the flag that the agent may still see. One that does not suffice tells it nothing. */
  reached(agent: Agent, node: Node, flag: FlagView): boolean {
    const epoch = this.wantedEpoch(agent, node, flag)
    const wanted = epoch * flag.flags.arrivals
    if (wanted === 0) return true
    const access = strongAccess(agent, node, flag)
    const { location, message } = this.#strong.choose(access)
    if (!suffices(message, wanted)) {
      this.#strong.glance(access, location, message)
      return false
    }
    this.#hear(access, location, message, flag, epoch)
    return true
  }

  wait(agent: Agent, node: Node, flag: FlagView): void {
    const epoch = this.wantedEpoch(agent, node, flag)
    const wanted = epoch * flag.flags.arrivals
    if (wanted === 0) return
    const buffer = flag.flags.buffers[flag.rank]
    const location = buffer.locations.get(flag.index)!
    const found = location.messages
      .slice(location.floor(agent))
      .filter((message) => suffices(message, wanted))
    // Of one signaller's signals of one kind the first that suffices tells least: a search need not try the others.
    const isOpen = this.#strong.isShared(buffer, flag.index) || this.isMixed(flag)
    const message = isOpen ? found[found.length - 1 - this.#strong.pick(found.length)] : found[0]
    this.#hear(strongAccess(agent, node, flag), location, message, flag, epoch)
  }

  /** The agent knows now what the signaller did before this state of the flag. */
  #hear(access: StrongAccess, location: Location, message: Message, flag: FlagView, epoch: number): void {
    const { agent, node } = access
    this.#strong.read(access, location, message)
    this.#strong.noteClock(agent)
    if (flag.flags.arrivals > 1) this.#checkCounting(agent, node, flag, location, message, epoch)
  }

  /** A wait for epoch e must not have counted a signal of a later epoch. */
  #checkCounting(
    agent: Agent,
    node: Node,
    flag: FlagView,
    location: Location,
    message: Message,
    epoch: number,
  ): void {
    const counted = location.messages.slice(1, location.messages.indexOf(message) + 1)
    const early = counted.filter((one) => one.epoch !== undefined && one.epoch > epoch)
    if (early.length === 0 || counted.length - early.length >= epoch * flag.flags.arrivals) return
    const signal = Location.writer(early[0])
    const by = accessOf(agent, node)
    this.#memory.say(
      'flag-reuse',
      by,
      `${describeFlag(flag)} counts a signal of epoch ${early[0].epoch} for epoch ${epoch}: a signaller ran ahead before this epoch was complete`,
      [
        {
          who: signal ? describe(signal.by) : 'somebody',
          what: `signals epoch ${early[0].epoch}`,
          site: signal?.node?.site,
        },
        partyOf(by, `waits for epoch ${epoch}`),
      ],
    )
  }
}

const mixedKey = (buffer: Buffer, i: number): string => `${buffer.key}/${i} mixed`

/** Counters wrap; what counts is the difference. */
const suffices = (message: Message, wanted: number): boolean => ((message.value - wanted) | 0) >= 0

export const describeFlag = ({ flags, rank, index }: FlagView): string => flags.buffers[rank].describe(index)

function strongAccess(agent: Agent, node: Node, { flags, rank, index }: FlagView): StrongAccess {
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  return { agent, node, buffer: flags.buffers[rank], i: index, order, scope }
}
