/**
 * Determines who could signal a flag set, for messages about a wait that does not end. A world notes every kernel that
 * it launches on a stream of a rank; `couldSignal` combines the signals in those kernels with the launches that have
 * not ended.
 */
import type { KernelIR } from '../ir/node.ts'
import type { Site } from '../ir/site.ts'
import { rankNames } from '../timeline/ranges.ts'
import { usesOf } from './uses.ts'

/** A kernel that was launched on a stream of a rank. */
export interface Launched {
  readonly kernel: string
  readonly rank: number
  readonly stream: number
}

/**
 * A launch that has not ended. Launches of one stream and rank are listed in the order of the stream; the first launch
 * is running.
 */
export interface Pending extends Launched {
  /** The source line at which a program of the launch waits for a flag, if one waits. */
  readonly waitsAt?: string
}

/** A program that waits or computes, and what it waits for. */
interface Doing extends Launched {
  readonly site: string | undefined
  readonly flag?: object
}

/** Launches that have not ended, with the source lines at which their programs wait for flags. */
export const pendingOf = (launches: readonly Launched[], programs: readonly Doing[]): Pending[] =>
  launches.map(({ kernel, rank, stream }) => {
    const waiting = programs.find(
      (one) => one.flag && one.kernel === kernel && one.rank === rank && one.stream === stream,
    )
    return { kernel, rank, stream, waitsAt: waiting?.site }
  })

/**
 * A source line of a kernel that signals a certain flag set. The entry covers the ranks on which the launch of the
 * kernel is in the state that `what` describes.
 */
export interface PossibleSignal {
  readonly kernel: string
  /** The source line of the signal, if it is known. */
  readonly site: Site | undefined
  readonly ranks: readonly number[]
  /** The state of the launch that contains the signal, such as "has ended". */
  readonly what: string
}

/** The kernels that could signal a flag set. If the list `signals` is empty, no launched kernel signals the flags. */
export interface FlagSignals {
  readonly flag: string
  /** True if only the host signals the flags. */
  readonly byHost?: true
  readonly signals: readonly PossibleSignal[]
}

interface Noted {
  readonly launched: Launched
  readonly ir: KernelIR
  readonly param: string
}

/** Records which launches of a world signal each of its flag sets. Flag sets are distinguished by object identity. */
export class Signallers {
  readonly #launches = new WeakMap<object, Map<string, Noted>>()

  /** The argument `flags` holds the flag sets that the kernel was given, by parameter. */
  note({ kernel, rank, stream }: Launched, ir: KernelIR, flags: Readonly<Record<string, object>>): void {
    for (const param of usesOf(ir).signals) {
      const set = flags[param]
      let known = this.#launches.get(set)
      if (!known) this.#launches.set(set, (known = new Map()))
      known.set(`${kernel} ${param} ${rank} ${stream}`, { launched: { kernel, rank, stream }, ir, param })
    }
  }

  /** The argument `pending` lists all launches that have not ended. */
  couldSignal(
    flags: { readonly name: string; readonly signaller?: 'host' },
    pending: readonly Pending[],
  ): FlagSignals {
    if (flags.signaller === 'host') return { flag: flags.name, byHost: true, signals: [] }
    const byState = new Map<string, PossibleSignal & { readonly ranks: number[] }>()
    for (const { launched, ir, param } of this.#launches.get(flags)?.values() ?? []) {
      const { kernel, rank } = launched
      const what = stateOf(launched, pending)
      for (const site of usesOf(ir).signalSites.get(param)!) {
        const key = `${kernel} ${String(site)} ${what}`
        const same = byState.get(key)
        if (!same) byState.set(key, { kernel, site, ranks: [rank], what })
        else if (!same.ranks.includes(rank)) same.ranks.push(rank)
      }
    }
    return { flag: flags.name, signals: [...byState.values()] }
  }
}

function stateOf({ kernel, rank, stream }: Launched, pending: readonly Pending[]): string {
  const queue = pending.filter((one) => one.rank === rank && one.stream === stream)
  const at = queue.findIndex((one) => one.kernel === kernel)
  if (at < 0) return 'has ended'
  if (at > 0) return `has not started, because it follows ${queue[0].kernel} on its stream`
  return queue[0].waitsAt === undefined ? 'is running' : `waits itself at ${queue[0].waitsAt}`
}

/** One line of text for each signal, or one line that says that no launch signals the flags. */
export function signalLines({ flag, byHost, signals }: FlagSignals): string[] {
  if (byHost) return [`only the host signals ${flag}, with world.signal`]
  if (signals.length === 0) return [`no launched kernel signals ${flag}`]
  return signals.map(
    ({ kernel, site, ranks, what }) =>
      `${flag} is signalled at ${site?.toString() ?? '(unknown line)'} by ${kernel}; on ${rankNames(ranks)} it ${what}`,
  )
}
