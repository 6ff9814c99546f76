/**
 * Finds candidates for fusion, which are sets of kernels whose work one fused kernel could do. The candidates are
 * sorted by the largest possible saving. There are three kinds of candidates: a collective between the compute that
 * feeds it and the compute that uses it (chains.ts), runs of small kernels (runs.ts), and kernels that pass data to
 * each other through memory (handovers.ts). Equal chains of operators count as one candidate across steps and ranks.
 *
 * The saving in a tax is part of the time that the ledger counts as that tax. Each saving is an upper bound, since a
 * fused kernel still moves the data and takes at least as long as its slowest step. No nanosecond counts twice within
 * one candidate, or in two candidates of the same kind.
 */
import { union } from '../timeline/intervals.ts'
import type { Timeline } from '../timeline/timeline.ts'
import { chainsOf, type Members, membersOf } from './chains.ts'
import type { Collectives } from './collectiveTable.ts'
import { handoversOf } from './handovers.ts'
import { Labels } from './labels.ts'
import { idleTime, type Partition } from './ledger.ts'
import type { Locality } from './locality.ts'
import { Measured } from './measured.ts'
import type { RecognisedOperation, Recogniser } from './recognition.ts'
import { runsOf } from './runs.ts'

/** The time saved in each tax, in nanoseconds. */
export interface Savings {
  /** The idle time inside the chain that the ledger counts as launch tax. */
  readonly launch: number
  /** The exposed waiting and transfer time, or null if wait and transfer cannot be separated. */
  readonly wait: number | null
  readonly transfer: number | null
  /** Exposed communication that cannot be split into wait and transfer. */
  readonly communication: number
  /** The upper end of the estimated locality tax, or null if shapes or the device are unknown. */
  readonly locality: number | null
}

export interface Candidate {
  readonly kind: 'compute-collective-compute' | 'small-kernels' | 'producer-consumer'
  /**
   * The operators of the chain in order. A kernel without an operator appears under its own name. The list of operators
   * ends in `…` if the chain is a repetition of one or two labels.
   */
  readonly chain: readonly string[]
  /** The number of occurrences of the chain on all ranks together. */
  readonly count: number
  /** The indices, in the timeline, of the ranks on which the chain occurs. */
  readonly ranks: readonly number[]
  /** The sum of the savings, in nanoseconds. */
  readonly saves: number
  readonly savings: Savings
  readonly localityBytes: number | null
  /**
   * The operation of Arke that can replace the chain, with the shapes of the costliest occurrence and the number of
   * other shapes with which the chain occurs.
   */
  readonly operation: (RecognisedOperation & { readonly otherShapes: number }) | null
  /** The costliest occurrence of the chain: the index of its rank in the timeline, and its time on that rank. */
  readonly example: { readonly rank: number; readonly from: number; readonly to: number }
}

/** One occurrence of a chain on one rank. */
export interface Occurrence {
  /** The ids of the labels in the chain. */
  readonly chain: readonly number[]
  readonly from: number
  readonly to: number
  readonly savings: Savings
  readonly localityBytes: number | null
  readonly operation: RecognisedOperation | null
}

const MOST = 50

/** The number of occurrences after which the generator yields, so that callers can do other work. */
const ofAPiece = 256

/** Collects the candidates rank by rank. */
export class Candidates {
  private readonly timeline: Timeline
  private readonly partitions: readonly Partition[]
  private readonly recognisers: readonly Recogniser[]
  private readonly labels: Labels
  private readonly members: readonly Members[]
  private readonly groups: Group[] = []
  /**
   * The candidates, keyed first by kind and operation, and then by chain. Equal chains are represented by the same
   * array, so the array itself is the key.
   */
  private readonly known = new Map<string, Map<readonly number[], Group>>()

  constructor(
    timeline: Timeline,
    collectives: Collectives,
    partitions: readonly Partition[],
    recognisers: readonly Recogniser[],
  ) {
    this.recognisers = recognisers
    this.timeline = timeline
    this.partitions = partitions
    this.labels = new Labels(timeline.names)
    this.members = membersOf(timeline, collectives)
  }

  /**
   * Adds the candidates of a rank, given by its index in the timeline. Ranks must be added in the order of the
   * timeline. The generator yields after every `ofAPiece` occurrences, so that callers can do other work.
   */
  *addRank(index: number, locality: Locality | null): Generator<void, void> {
    const partition = this.partitions[index]
    if (!(partition.from < partition.to)) return
    const { ranks, names } = this.timeline
    // The set of launch tax has as many intervals as there are kernels, so it is built once for all three kinds of
    // candidates.
    const { dispatch, gap } = idleTime(partition)
    const launch = new Measured(union(dispatch, gap))
    const all = [ranks[index], partition, launch, locality, this.labels] as const
    yield* this.addAll(
      'compute-collective-compute',
      index,
      chainsOf(...all, names, this.members[index], this.recognisers),
    )
    yield* this.addAll('small-kernels', index, runsOf(...all))
    yield* this.addAll('producer-consumer', index, handoversOf(...all))
  }

  /** The candidates, sorted by saving, with the largest first. */
  list(): Candidate[] {
    return this.groups
      .filter(({ saves }) => saves > 0)
      .sort((a, b) => b.saves - a.saves || b.count - a.count)
      .slice(0, MOST)
      .map((group) => group.candidate(this.labels))
  }

  private *addAll(
    kind: Candidate['kind'],
    rank: number,
    occurrences: Iterable<Occurrence>,
  ): Generator<void, void> {
    let count = 0
    for (const one of occurrences) {
      this.add(kind, rank, one)
      if (++count % ofAPiece === 0) yield
    }
  }

  private add(kind: Candidate['kind'], rank: number, occurrence: Occurrence): void {
    const { operation, chain } = occurrence
    const key = operation ? `${kind} ${operation.name}` : kind
    let byChain = this.known.get(key)
    if (!byChain) this.known.set(key, (byChain = new Map<readonly number[], Group>()))
    let group = byChain.get(chain)
    if (!group) {
      byChain.set(chain, (group = new Group(kind, occurrence)))
      this.groups.push(group)
    }
    group.add(rank, occurrence)
  }
}

export const sumOf = ({ launch, wait, transfer, communication, locality }: Savings): number =>
  launch + (wait ?? 0) + (transfer ?? 0) + communication + (locality ?? 0)

const plus = (a: number | null, b: number | null): number | null => (a === null ? b : a + (b ?? 0))

class Group {
  saves = 0
  count = 0
  private readonly kind: Candidate['kind']
  private readonly ranks: number[] = []
  /** The distinct shapes for which an operation was recognised. */
  private readonly shapes = new Set<string>()
  private savings: Savings = { launch: 0, wait: null, transfer: null, communication: 0, locality: null }
  private bytes: number | null = null
  private costliest: Occurrence
  private most = -1
  private rankOfCostliest = 0

  constructor(kind: Candidate['kind'], first: Occurrence) {
    this.kind = kind
    this.costliest = first
  }

  /** Adds an occurrence of the chain. Occurrences must be added in the order of their ranks. */
  add(rank: number, occurrence: Occurrence): void {
    const { savings, localityBytes, operation } = occurrence
    const saves = sumOf(savings)
    this.saves += saves
    this.count++
    if (this.ranks[this.ranks.length - 1] !== rank) this.ranks.push(rank)
    if (operation) this.shapes.add(operation.shapes)
    this.savings = {
      launch: this.savings.launch + savings.launch,
      wait: plus(this.savings.wait, savings.wait),
      transfer: plus(this.savings.transfer, savings.transfer),
      communication: this.savings.communication + savings.communication,
      locality: plus(this.savings.locality, savings.locality),
    }
    this.bytes = plus(this.bytes, localityBytes)
    if (saves > this.most) {
      this.most = saves
      this.costliest = occurrence
      this.rankOfCostliest = rank
    }
  }

  candidate(labels: Labels): Candidate {
    const { chain, from, to, operation } = this.costliest
    return {
      kind: this.kind,
      chain: chain.map((label) => labels.text(label)),
      count: this.count,
      ranks: this.ranks,
      saves: this.saves,
      savings: this.savings,
      localityBytes: this.bytes,
      operation: operation && { ...operation, otherShapes: this.shapes.size - 1 },
      example: { rank: this.rankOfCostliest, from, to },
    }
  }
}
