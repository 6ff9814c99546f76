/**
 * Finds the operation of Arke that can replace a chain. The code of the audit contains no knowledge of operations, so
 * each operation provides a recogniser. A recogniser receives the computations of the chain's kernels and returns the
 * options of its operation, or null if the shapes or types do not fit. If several operations recognise a chain, the
 * operation that replaces the most kernels is used.
 */
import { NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { RankTraffic } from './rankTraffic.ts'
import type { Tensor, Traffic } from './shapes.ts'

/** A chain that consists of a kernel, a collective and a second kernel, as far as the trace describes it. */
export interface FoundChain {
  readonly before: Traffic | null
  readonly collective: {
    /** The kind of collective, spelled as in `Communication.collective`. */
    readonly kind: string
    /** The number of ranks in the collective; null if the trace does not state it. */
    readonly ranks: number | null
    readonly sends: readonly Tensor[]
    readonly brings: readonly Tensor[]
    /**
     * The shapes that the data sent by a rank may have, since a trace states no shape of a message. The possible shapes
     * are those of the communication's operands and of the tensors that the kernel before the communication wrote.
     */
    readonly slices: readonly (readonly number[])[]
  }
  readonly after: Traffic | null
}

/** The options of an operation that replaces a chain, with their names on the command line. */
export interface Recognised {
  readonly shape: Readonly<Record<string, number>>
  readonly dtype: string
  readonly layout?: Readonly<Record<string, string>>
  readonly ranks: number | null
  /** The kernels of the chain that the operation replaces. */
  readonly replaces: readonly ('before' | 'collective' | 'after')[]
}

export interface Recogniser {
  /** The name of the operation. */
  readonly name: string
  readonly recognise: (chain: FoundChain) => Recognised | null
}

/** The recognised operation in the form in which a fusion candidate stores it. */
export interface RecognisedOperation {
  readonly name: string
  readonly shapes: string
  /** The command that benchmarks the operation. */
  readonly command: string
}

/**
 * Recognises the operation that can replace a kernel, a collective and a second kernel, which are given as events of
 * the rank.
 */
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
  const layout = Object.entries(found.layout ?? {}).map(([name, value]) => `${name} ${value}`)
  const ranks = found.ranks === null ? '' : ` over ${found.ranks} ranks`
  return [...extentsOf(found), found.dtype, ...layout].join(', ') + ranks
}

/** The largest number of ranks that `arke bench` accepts. */
const mostRanks = 64

/** Formats the command as src/cli/benchOptions.ts parses it. */
function benchCommand(name: string, found: Recognised): string {
  const { dtype, layout = {}, ranks } = found
  const command = `arke bench ${name.replace(/[A-Z]/g, (letter) => `-${letter.toLowerCase()}`)}`
  const layouts = Object.entries(layout)
    .map(([name, value]) => ` --layout ${name}=${value}`)
    .join('')
  const world = ranks === null || ranks > mostRanks ? '' : ` --ranks ${ranks}`
  return `${command} --shape ${extentsOf(found).join(',')} --dtype ${dtype}${layouts}${world}`
}
