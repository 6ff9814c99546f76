/**
 * Finds runs of small kernels on one rank: at least three kernels or fills that follow each other on a stream, each
 * shorter than 10 microseconds. Ten microseconds is about twice the cost of a launch, so launching such a kernel costs
 * as much as its computation. A run of small kernels ends at any other device work, at a wait for the host or for
 * another stream, and at an interval with more than a millisecond of launch tax, since in such an interval the host did
 * more than launch the next kernel. Time in which the host is absent does not end a run.
 *
 * Kernels are labelled by their operator. The kernels of an operator with three or more kernels are labelled by their
 * own names. A sequence that repeats within a run, such as the layers of a model, is one chain, and each repetition is
 * an occurrence of the chain. The time between two occurrences of a chain is not counted as saved. Fusing a chain saves
 * the launch tax and the locality tax between its kernels. Idle time that several streams have in common counts only
 * for the first stream.
 */
import { Column, float64, int32 } from '../timeline/columns.ts'
import { difference, union, unionOf } from '../timeline/intervals.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline, type Track } from '../timeline/timeline.ts'
import type { Occurrence } from './candidates.ts'
import { FAR } from './chains.ts'
import type { Labels } from './labels.ts'
import { idleTime, type Partition } from './ledger.ts'
import { type Locality, nanoseconds } from './locality.ts'
import { Measured } from './measured.ts'
import { repetitions } from './repetitions.ts'
import { StreamColumn } from './streamColumn.ts'

export const SMALL = 10_000
const FEWEST = 3
/** The largest number of kernels in one chain. A fused kernel for a longer chain is not realistic. */
const LONGEST = 128

/**
 * One occurrence of a chain of kernels within a run of small kernels. Positions are indices into the stream's kernels.
 */
interface Piece {
  readonly from: number
  readonly to: number
  readonly chain: readonly number[]
}

export function* runsOf(
  rank: RankTimeline,
  partition: Partition,
  launching: Measured,
  locality: Locality | null,
  labels: Labels,
): Generator<Occurrence> {
  const { start, duration } = rank.events
  const { hostBlocked, dependency } = idleTime(partition)
  const barred = new Measured(union(hostBlocked, dependency))
  const pieceOf = locality && new StreamColumn(rank)
  /**
   * For each occurrence of a chain in a run: its labels, its first and last kernel, and its savings. The number of
   * occurrences may be the number of steps times the number of layers.
   */
  const chains: (readonly number[])[] = []
  const first = new Column(int32)
  const last = new Column(int32)
  const launches = new Column(float64)
  const bytes = new Column(float64)
  const perCall = kernelsPerCall(rank)
  const label = (event: number): number => {
    const call = rank.events.operator[event]
    return call !== NONE && perCall[call] >= FEWEST
      ? labels.ofKernelItself(rank.events, event)
      : labels.of(rank, event)
  }
  const again = labels.intern('…')
  let launch = launching
  const saved = new Column(float64)
  for (const track of rank.tracks) {
    if (track.role !== 'stream') continue
    const { kernels, runs } = findRuns(
      rank,
      track,
      partition,
      (from, to) => barred.within(from, to) > 0 || launching.within(from, to) > FAR,
    )
    if (runs.length === 0) continue
    // Time that was already counted as saved on another stream is not counted again.
    if (saved.length > 0) launch = new Measured(difference(launch.intervals, unionOf(saved.all())))
    const labelled = new Int32Array(kernels.length)
    for (let run = 0; run < runs.length; run += 2) {
      const [from, to] = [runs[run], runs[run + 1]]
      for (let i = from; i < to; i++) labelled[i] = label(kernels[i])
      for (const piece of split(labelled.subarray(from, to), again, labels)) {
        launches.push(measure(rank, kernels, from + piece.from, from + piece.to, launch, saved))
        if (pieceOf)
          for (let i = from + piece.from; i < from + piece.to; i++) pieceOf.set(kernels[i], chains.length)
        chains.push(piece.chain)
        first.push(kernels[from + piece.from])
        last.push(kernels[from + piece.to - 1])
        bytes.push(0)
      }
    }
  }
  saved.clear()
  if (locality && pieceOf)
    for (let i = 0; i < locality.bytes.length; i++) {
      const piece = pieceOf.get(locality.consumer[i])
      if (piece !== NONE && piece === pieceOf.get(locality.producer[i]))
        bytes.set(piece, bytes.get(piece) + locality.bytes[i])
    }
  for (let piece = 0; piece < chains.length; piece++) {
    const end = last.get(piece)
    yield {
      chain: chains[piece],
      from: start[first.get(piece)],
      to: start[end] + duration[end],
      savings: {
        launch: launches.get(piece),
        wait: null,
        transfer: null,
        communication: 0,
        locality: locality?.memory ? nanoseconds(bytes.get(piece), locality.memory) : null,
      },
      localityBytes: locality && bytes.get(piece),
      operation: null,
    }
  }
}

/** For each event: the number of kernels of its operator, up to 255. */
function kernelsPerCall({ events: { length, kind, operator } }: RankTimeline): Uint8Array {
  const counts = new Uint8Array(length)
  for (let event = 0; event < length; event++) {
    const call = operator[event]
    if (kind[event] === Kind.kernel && call !== NONE && counts[call] < 255) counts[call]++
  }
  return counts
}

/** The small kernels of a stream, and the runs of small kernels as pairs of start and end. */
function findRuns(
  { events }: RankTimeline,
  { from, to }: Track,
  window: Partition,
  apart: (from: number, to: number) => boolean,
): { kernels: Int32Array; runs: Int32Array } {
  const { start, duration, kind } = events
  const kernels = new Int32Array(to - from)
  const runs = new Column(int32)
  let length = 0
  let begin = 0
  let busyUntil = -Infinity
  const close = (): void => {
    if (length - begin >= FEWEST) {
      runs.push(begin)
      runs.push(length)
    } else length = begin
    begin = length
  }
  for (let event = from; event < to; event++) {
    if (!isDeviceWork(kind[event])) continue
    const inside = start[event] >= window.from && start[event] + duration[event] <= window.to
    const small = duration[event] < SMALL && (kind[event] === Kind.kernel || kind[event] === Kind.memset)
    if (!small || !inside || (length > begin && apart(busyUntil, start[event]))) close()
    if (small && inside) kernels[length++] = event
    busyUntil = Math.max(busyUntil, start[event] + duration[event])
  }
  close()
  return { kernels, runs: runs.all() }
}

/**
 * Splits a run into chains: each repetition of a sequence is a chain, and the kernels between two repetitions are a
 * chain.
 */
function split(run: Int32Array, again: number, labels: Labels): Piece[] {
  const pieces: Piece[] = []
  const piece = (from: number, to: number, kernels: number): void => {
    if (to - from < FEWEST) return
    const own = run.subarray(from, from + kernels)
    const chain = labels.chain(to - from > kernels ? [...own, again] : own)
    pieces.push({ from, to, chain })
  }
  const alone = (from: number, to: number): void => {
    for (let at = from; at < to; at += LONGEST)
      piece(at, Math.min(to, at + LONGEST), Math.min(to - at, LONGEST))
  }
  let done = 0
  for (const { from, period, times } of repetitions(run, LONGEST, FEWEST)) {
    alone(done, from)
    done = from + period * times
    // If the repeated sequence has only one or two kernels, the whole repetition becomes one chain, since a single
    // occurrence is too short to be a run.
    if (period < FEWEST) piece(from, done, period)
    else for (let at = from; at < done; at += period) piece(at, at + period, period)
  }
  alone(done, run.length)
  return pieces
}

/** The launch tax between consecutive kernels. Adds the intervals of launch tax that were counted to `saved`. */
function measure(
  { events }: RankTimeline,
  kernels: Int32Array,
  first: number,
  stop: number,
  launch: Measured,
  saved: Column<Float64Array>,
): number {
  const { start, duration } = events
  let sum = 0
  let busyUntil = start[kernels[first]] + duration[kernels[first]]
  for (let i = first + 1; i < stop; i++) {
    const next = start[kernels[i]]
    const idle = launch.within(busyUntil, next)
    if (idle > 0) {
      sum += idle
      saved.push(busyUntil)
      saved.push(next)
    }
    busyUntil = Math.max(busyUntil, next + duration[kernels[i]])
  }
  return sum
}
