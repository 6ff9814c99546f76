/**
 * Which operation of Arke does what a chain does. The audit knows no operations: each brings a recogniser, which gets the chain's
 * kernels as what they compute and gives the options of its operation, or null where shapes or types do not fit. Where several
 * recognise a chain, the one that does most of it counts.
 */
import { NONE, type Operands, type RankTimeline } from '../timeline/timeline.ts'
import { communicationTraffic, type Tensor, type Traffic, trafficOf } from './shapes.ts'

/** A kernel, a collective and a kernel, as far as the trace tells. */
export interface FoundChain {
  readonly before: Traffic | null
  readonly collective: {
    /** As `Communication.collective`. */
    readonly kind: string
    /** How many meet in it, where the trace tells. */
    readonly ranks: number | null
    readonly sends: readonly Tensor[]
    readonly brings: readonly Tensor[]
    /** Extents of what a rank sends, which the message itself does not have: of what it was called with, and of what was written before. */
    readonly slices: readonly (readonly number[])[]
  }
  readonly after: Traffic | null
}

/** The options of an operation that does what a chain does, by their names on the command line. */
export interface Recognised {
  readonly shape: Readonly<Record<string, number>>
  readonly dtype: string
  readonly shard?: string
  readonly ranks: number | null
  /** Which kernels of the chain it does. */
  readonly replaces: readonly ('before' | 'collective' | 'after')[]
}

export interface Recogniser {
  /** Of the operation. */
  readonly name: string
  readonly recognise: (chain: FoundChain) => Recognised | null
}

/** What a candidate says of an operation. */
export interface RecognisedOperation {
  readonly name: string
  readonly shapes: string
  /** How to try it. */
  readonly command: string
}

/** In one rank. Chains come again and again, so what was found is remembered. */
export class Recognition {
  private readonly rank: RankTimeline
  private readonly names: readonly string[]
  private readonly recognisers: readonly Recogniser[]
  private readonly known = new Map<string, RecognisedOperation | null>()

  constructor(rank: RankTimeline, names: readonly string[], recognisers: readonly Recogniser[]) {
    this.rank = rank
    this.names = names
    this.recognisers = recognisers
  }

  /** Events of the rank: a kernel, a collective of this kind, a kernel. */
  of(before: number, kind: string | null, collective: number, after: number): RecognisedOperation | null {
    if (kind === null || this.recognisers.length === 0) return null
    const { communication } = this.rank.events
    const key = [kind, communication[collective], ...[before, collective, after].flatMap(this.callOf)].join(
      ' ',
    )
    let found = this.known.get(key)
    if (found === undefined)
      this.known.set(key, (found = this.recognise(this.chain(before, kind, collective, after))))
    return found
  }

  private recognise(chain: FoundChain): RecognisedOperation | null {
    let best: RecognisedOperation | null = null
    let most = 0
    for (const { name, recognise } of this.recognisers) {
      const found = recognise(chain)
      if (!found || found.replaces.length <= most) continue
      most = found.replaces.length
      best = { name, shapes: shapesText(found), command: benchCommand(name, found) }
    }
    return best
  }

  private chain(before: number, kind: string, collective: number, after: number): FoundChain {
    const written = this.traffic(before)
    const called = this.operandsOf(collective)
    const communication = this.communication(collective)
    const message = (communication && communicationTraffic(communication)) ?? this.traffic(collective)
    return {
      before: written,
      collective: {
        kind,
        ranks: communication?.groupSize ?? null,
        sends: message?.reads ?? [],
        brings: message?.writes ?? [],
        slices: [...(called?.shapes ?? []), ...(written?.writes ?? []).map(({ shape }) => shape)],
      },
      after: this.traffic(after),
    }
  }

  /** The name and the operands of an event's operator, as numbers. */
  private readonly callOf = (event: number): readonly [number, number] => {
    const { operator, operands, name } = this.rank.events
    const call = operator[event]
    return call === NONE ? [NONE, NONE] : [name[call], operands[call]]
  }

  private operandsOf(event: number): Operands | null {
    const [, operands] = this.callOf(event)
    return operands === NONE ? null : this.rank.operands[operands]
  }

  private traffic(event: number): Traffic | null {
    const operands = this.operandsOf(event)
    return operands && trafficOf(this.names[this.callOf(event)[0]], operands)
  }

  private communication(event: number) {
    const { events, communications } = this.rank
    return events.communication[event] === NONE ? null : communications[events.communication[event]]
  }
}

const shapesText = ({ shape, dtype, shard, ranks }: Recognised): string =>
  [
    ...Object.entries(shape).map(([name, extent]) => `${name}=${extent}`),
    dtype,
    ...(shard === undefined ? [] : [`sharded along ${shard}`]),
  ].join(', ') + (ranks === null ? '' : ` over ${ranks} ranks`)

/** More than a bench has. */
const mostRanks = 64

/** What `arke bench` takes. */
function benchCommand(name: string, { shape, dtype, shard, ranks }: Recognised): string {
  const extents = Object.entries(shape).map(([name, extent]) => `${name}=${extent}`)
  return [
    `arke bench ${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`,
    `--shape ${extents.join(',')}`,
    `--dtype ${dtype}`,
    ...(shard === undefined ? [] : [`--shard ${shard}`]),
    ...(ranks === null || ranks > mostRanks ? [] : [`--ranks ${ranks}`]),
  ].join(' ')
}
