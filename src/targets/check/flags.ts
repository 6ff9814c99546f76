/** Implements flags in the checker: signals and waits for epochs, built on the histories of strong accesses. */
import { attribute, type Node } from '../../ir/node.ts'
import type { Order, Scope } from '../../ir/ops/index.ts'
import { accessOf, partyOf, type Memory, type WrongView } from './access.ts'
import { describe, type Agent } from './agent.ts'
import { historyOf, Location, type Message } from './atomics.ts'
import type { Accessor, Buffer } from './memory.ts'
import type { StrongAccess, StrongMemory } from './strong.ts'

export interface FlagSet {
  readonly name: string
  readonly shape: readonly number[]
  readonly arrivals: number
  readonly signaller?: 'host'
  readonly buffers: readonly Buffer[]
  /** The numbers of launches on each rank that have signalled this flag set, and that have waited for it. */
  readonly signalled: number[]
  readonly waited: number[]
}

/** One flag of a flag set, on one rank. */
export interface FlagView {
  readonly flags: FlagSet
  readonly rank: number
  readonly index: number
  readonly wrong?: WrongView
}

/** The condition of a wait: the value of the flag, the epoch, and the number of signals if fewer than all suffice. */
export interface Wanted {
  readonly epoch: number
  readonly value: number
  readonly count?: number
}

export class FlagMemory {
  readonly #memory: Memory
  readonly #strong: StrongMemory
  /**
   * The flags for which some wait stated a number of signals (`atLeast`), each with the latest wait that stated one.
   */
  readonly #counted = new Map<
    Location,
    { readonly flag: FlagView; readonly epoch: number; readonly by: Accessor }
  >()

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

  /**
   * Notes the memory order and the scope with which a flag is signalled. Signals of different order or scope publish
   * different accesses, so the behaviour depends on which signal a wait observes.
   */
  #noteKind({ buffer, i, order, scope }: StrongAccess): void {
    const { signals } = historyOf(buffer, i)
    signals.add(`${order} ${scope}`)
    if (signals.size > 1) this.#strong.sharePlace(mixedKey(buffer, i))
  }

  /**
   * True if a flag is signalled with different orders or scopes. If a flag is signalled with different orders or
   * scopes, the behaviour depends on which signal a wait observes, and when.
   */
  isMixed({ flags, rank, index }: FlagView): boolean {
    return this.#strong.isSharedPlace(mixedKey(flags.buffers[rank], index))
  }

  /**
   * Reports two signals of one flag that are sent in the wrong order, so that the older epoch overwrites the newer
   * epoch. An agent that waits for the overwritten epoch would wait forever.
   */
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
      `a signal of epoch ${first} overwrites epoch ${second} of ${describeFlag(flag)}: a flag with one arrival must have one signaller, or signallers that are ordered`,
      [
        { who: describe(writer.by), what: `signals epoch ${other.epoch}`, site: writer.node?.site },
        partyOf(by, `signals epoch ${epoch}`),
      ],
    )
  }

  /**
   * The value that a wait in this launch requires of the flag. The argument `count` is the number of the epoch's
   * signals for which the launch waits, or undefined for all signals.
   */
  wanted(agent: Agent, node: Node, { flags }: FlagView, count: number | undefined): Wanted {
    const epoch = Math.max(agent.launch.epochs.get(flags)!.wait - attribute<number>(node, 'lag'), 0)
    if (epoch === 0) return { epoch, value: 0 }
    return { epoch, value: (epoch - 1) * flags.arrivals + (count ?? flags.arrivals), count }
  }

  canWait(agent: Agent, flag: FlagView, { value: wanted }: Wanted): boolean {
    if (wanted <= 0) return true
    const location = flag.flags.buffers[flag.rank].locations.get(flag.index)
    if (!location) return false
    if (suffices(location.newest, wanted)) return true
    return location.messages.slice(location.floor(agent)).some((message) => suffices(message, wanted))
  }

  /**
   * Polls the flag without waiting and returns whether the epoch is reached. The poll may read any value of the flag
   * that the memory model permits the agent to observe. A poll that reads a value that is too small does not
   * synchronise with any signal.
   */
  reached(agent: Agent, node: Node, flag: FlagView, wanted: Wanted): boolean {
    if (wanted.value <= 0) return true
    const access = strongAccess(agent, node, flag)
    const { location, message } = this.#strong.choose(access)
    if (!suffices(message, wanted.value)) {
      this.#strong.glance(access, location, message)
      return false
    }
    this.#hear(access, location, message, flag, wanted)
    return true
  }

  wait(agent: Agent, node: Node, flag: FlagView, wanted: Wanted): void {
    if (wanted.value <= 0) return
    const buffer = flag.flags.buffers[flag.rank]
    const location = buffer.locations.get(flag.index)!
    const found = location.messages
      .slice(location.floor(agent))
      .filter((message) => suffices(message, wanted.value))
    // Among signals of one signaller with equal order and scope, the first sufficient signal publishes the fewest
    // accesses. A search therefore need not try signals after the first sufficient one.
    const isOpen = this.#strong.isShared(buffer, flag.index) || this.isMixed(flag)
    const message = isOpen ? found[found.length - 1 - this.#strong.pick(found.length)] : found[0]
    this.#hear(strongAccess(agent, node, flag), location, message, flag, wanted)
  }

  /** Reads a value of the flag that satisfies the wait, and thereby synchronises the agent with the signaller. */
  #hear(access: StrongAccess, location: Location, message: Message, flag: FlagView, wanted: Wanted): void {
    const { agent, node } = access
    this.#strong.read(access, location, message)
    this.#strong.noteClock(agent)
    this.#checkCount(agent, node, flag, wanted)
    if (flag.flags.arrivals > 1) this.#checkCounting(agent, node, flag, location, message, wanted)
    if (wanted.count === undefined) return
    const last = this.#counted.get(location)
    if (!last || last.epoch < wanted.epoch)
      this.#counted.set(location, { flag, epoch: wanted.epoch, by: accessOf(agent, node) })
  }

  /**
   * Reports a wait for more signals than an epoch has. A wait for more signals than an epoch has would count signals of
   * the next epoch.
   */
  #checkCount(agent: Agent, node: Node, flag: FlagView, { count, epoch }: Wanted): void {
    const { arrivals } = flag.flags
    if (count === undefined || count <= arrivals) return
    const by = accessOf(agent, node)
    this.#memory.say(
      'flag-reuse',
      by,
      `${describeFlag(flag)} is awaited with atLeast ${count}, but an epoch has ${arrivals} ${arrivals === 1 ? 'signal' : 'signals'}: the wait counts signals of a later epoch`,
      [partyOf(by, `waits for ${count} signals of epoch ${epoch}`)],
    )
  }

  /**
   * Reports a flag if a wait saw some signals of an epoch, but the other signals of that epoch were never sent. Later
   * waits would count signals of later epochs in place of the missing signals.
   */
  expectComplete(): void {
    for (const [location, { flag, epoch, by }] of this.#counted) {
      const wanted = epoch * flag.flags.arrivals
      if (suffices(location.newest, wanted)) continue
      this.#memory.say(
        'lost-signal',
        by,
        `${describeFlag(flag)} has ${location.newest.value} signals at the end of the run, but epoch ${epoch} is complete with ${wanted} (arrivals ${flag.flags.arrivals}): a signal was not sent, and later waits would count signals of later epochs in its place`,
        [partyOf(by, `waits for some signals of epoch ${epoch}`)],
      )
    }
    this.forgetParts()
  }

  forgetParts(): void {
    this.#counted.clear()
  }

  /** Reports a wait for an epoch that was satisfied by counting a signal of a later epoch. */
  #checkCounting(
    agent: Agent,
    node: Node,
    flag: FlagView,
    location: Location,
    message: Message,
    { epoch, value }: Wanted,
  ): void {
    const counted = location.messages.slice(1, location.messages.indexOf(message) + 1)
    const early = counted.filter((one) => one.epoch !== undefined && one.epoch > epoch)
    if (early.length === 0 || counted.length - early.length >= value) return
    const signal = Location.writer(early[0])
    const by = accessOf(agent, node)
    this.#memory.say(
      'flag-reuse',
      by,
      `${describeFlag(flag)} counts a signal of epoch ${early[0].epoch} for epoch ${epoch}: a signaller signalled the next epoch before this epoch was complete`,
      [
        {
          who: signal ? describe(signal.by) : 'an unknown agent',
          what: `signals epoch ${early[0].epoch}`,
          site: signal?.node?.site,
        },
        partyOf(by, `waits for epoch ${epoch}`),
      ],
    )
  }
}

const mixedKey = (buffer: Buffer, i: number): string => `${buffer.key}/${i} mixed`

/** Flag values wrap around at 32 bits, so the sign of the difference of two values decides which value is newer. */
const suffices = (message: Message, wanted: number): boolean => ((message.value - wanted) | 0) >= 0

export const describeFlag = ({ flags, rank, index }: FlagView): string => flags.buffers[rank].describe(index)

function strongAccess(agent: Agent, node: Node, { flags, rank, index }: FlagView): StrongAccess {
  const { order, scope } = node.attributes as { order: Order; scope: Scope }
  return { agent, node, buffer: flags.buffers[rank], i: index, order, scope }
}
