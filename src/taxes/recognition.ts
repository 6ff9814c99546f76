/**
 * Which operation of Arke does what a chain does. The audit knows no operations: each brings a recogniser, which gets the chain's
 * kernels as what they compute and gives the options of its operation, or null where shapes or types do not fit. Where several
 * recognise a chain, the one that does most of it counts.
 */
import { NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { RankTraffic } from './rankTraffic.ts'
import type { Tensor, Traffic } from './shapes.ts'

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

/** Of a kernel, a collective of this kind and a kernel, which are events of the rank. */
export function recognised(
  recognisers: readonly Recogniser[],
  { events, operands, communications }: RankTimeline,
  traffic: RankTraffic,
  [before, collective, after]: readonly [number, number, number],
  kind: string | null,
): RecognisedOperation | null {
  if (kind === null || recognisers.length === 0) return null
  const [written, message] = [traffic.of(before), traffic.of(collective)]
  const { communication, operator, operands: operandsOf } = events
  const call = operator[collective]
  const called = call === NONE || operandsOf[call] === NONE ? [] : operands[operandsOf[call]].shapes
  const chain: FoundChain = {
    before: written,
    collective: {
      kind,
      ranks: communication[collective] === NONE ? null : communications[communication[collective]].groupSize,
      sends: message?.reads ?? [],
      brings: message?.writes ?? [],
      slices: [...called, ...(written?.writes ?? []).map(({ shape }) => shape)],
    },
    after: traffic.of(after),
  }
  let best: RecognisedOperation | null = null
  let most = 0
  for (const { name, recognise } of recognisers) {
    const found = recognise(chain)
    if (!found || found.replaces.length <= most) continue
    most = found.replaces.length
    best = { name, shapes: shapesText(found), command: benchCommand(name, found) }
  }
  return best
}

const extentsOf = ({ shape }: Recognised): string[] =>
  Object.entries(shape).map(([name, extent]) => `${name}=${extent}`)

function shapesText(found: Recognised): string {
  const shard = found.shard === undefined ? [] : [`sharded along ${found.shard}`]
  const ranks = found.ranks === null ? '' : ` over ${found.ranks} ranks`
  return [...extentsOf(found), found.dtype, ...shard].join(', ') + ranks
}

/** That a bench takes. */
const mostRanks = 64

/** As src/cli/benchOptions.ts reads it. */
function benchCommand(name: string, found: Recognised): string {
  const { dtype, shard, ranks } = found
  const command = `arke bench ${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
  const sharded = shard === undefined ? '' : ` --shard ${shard}`
  const world = ranks === null || ranks > mostRanks ? '' : ` --ranks ${ranks}`
  return `${command} --shape ${extentsOf(found).join(',')} --dtype ${dtype}${sharded}${world}`
}
