/**
 * Estimates the inter-kernel data locality tax of one rank: the bytes that one kernel writes to device memory and a
 * following kernel reads back, although a fused kernel would have kept them on chip. The estimate uses the shapes of
 * operators:
 *
 * - An operation is the kernels of one operator call that follow each other on a stream, or one communication. The
 *   reads and writes of an operation follow from the rule of its operator (shapes.ts), or from the message sizes of the
 *   communication. Copies to and from the host are not operations.
 * - An intermediate is a tensor that an operation writes and one of the next four operations of its stream reads. The
 *   written and the read tensor must have the same number of elements and the same type. For a communication on a
 *   separate stream, the four operations are operations of the compute stream that ended before the communication or
 *   that start after it. Two communications never share an intermediate. Two matrix products are assumed not to share
 *   an intermediate: queries, keys and values, or the two gradients of a layer, have a common operand and results of
 *   the same size.
 * - A written tensor counts only once, for its first reader. A read tensor counts only once, for its nearest writer. The
 *   bytes therefore never exceed the written bytes or the read bytes, and a tensor with several readers counts once.
 *
 * The estimate is too low for operators without a rule, for operators of several kernels (such as a split GEMM and its
 * reduction), for a matrix product that reads the result of another matrix product, and for CUDA graphs, whose kernels
 * have no operator of their own. The estimate is too high if a tensor is mistaken for another one of the same size and
 * type. The estimate covers `known` out of `operations` operations.
 *
 * Expressed as time, the tax is an interval inside busy time. The upper end of the interval is all bytes divided by the
 * memory bandwidth. The lower end counts only intermediates larger than the last-level cache, since smaller
 * intermediates may never have reached memory.
 */
import { Column, float64, int32, uint8 } from '../timeline/columns.ts'
import { rankNames } from '../timeline/ranges.ts'
import { isDeviceWork, Kind, NONE, type RankTimeline } from '../timeline/timeline.ts'
import type { Warnings } from '../timeline/warnings.ts'
import { lowerBound } from '../timeline/search.ts'
import { type DeviceMemory, deviceMemory } from './devices.ts'
import { RankTraffic } from './rankTraffic.ts'
import type { Tensor, Traffic } from './shapes.ts'

export interface LocalityOptions {
  /** The memory bandwidth in bytes per second; the default is the value in the device's datasheet. */
  readonly bandwidth?: number
}

/** The intermediate tensors of a rank, sorted by the start of their consumer. */
export interface Locality {
  /** The memory of the device, or null if the device is unknown. */
  readonly memory: DeviceMemory | null
  /** The indices of the producing and the consuming events among the rank's events. */
  readonly producer: Int32Array
  readonly consumer: Int32Array
  readonly bytes: Float64Array
  /** For each intermediate: 1 if its consumer is a matrix product or attention. */
  readonly intoProduct: Uint8Array
  /** The start times of the consumers. */
  readonly start: Float64Array
  /** The number of operations, and the number of operations whose traffic is known. */
  readonly operations: number
  readonly known: number
}

/**
 * The totals of the intermediate tensors whose consumer starts in the window. Times are in nanoseconds, or null for an
 * unknown device.
 */
export interface LocalityTime {
  readonly bytes: number
  readonly time: { readonly low: number; readonly high: number } | null
}

const REACH = 4
const NANOSECONDS = 1e9

/**
 * Returns the intermediate tensors that the kernels of a rank pass through memory. Returns null and warns if the trace
 * of the rank has no shapes.
 */
export function localityOf(
  rank: RankTimeline,
  names: readonly string[],
  warnings: Warnings,
  options: LocalityOptions = {},
): Locality | null {
  if (rank.operands.length === 0) {
    if (rank.deviceSpan)
      warnings.tally(
        'shapes',
        rank.rank,
        ({ ranks }) =>
          (ranks.length === 1
            ? `the trace of ${rankNames(ranks)} has no operand shapes, so its locality tax is unknown`
            : `the traces of ${rankNames(ranks)} have no operand shapes, so their locality tax is unknown`) +
          '; record with record_shapes=True',
        { count: 0 },
        'absent',
      )
    return null
  }
  const memory = memoryOf(rank, warnings, options)
  const found = new Matcher(rank, names)
  found.run()
  if (found.known * 2 < found.operations)
    warnings.tally(
      'shapes',
      rank.rank,
      ({ ranks, amount: unknown, of }) =>
        `${rankNames(ranks)}: the reads and writes of ${unknown} of ${of} operations are unknown ` +
        '(no operator, no shapes, or no rule for the operator); the locality tax excludes these operations',
      { count: 0, amount: found.operations - found.known, of: found.operations },
      'few',
    )
  return located(rank, memory, found)
}

export function localityIn(
  { memory, start, bytes: sizes }: Locality,
  from: number,
  to: number,
): LocalityTime {
  let [bytes, large] = [0, 0]
  for (let i = lowerBound(start, from); i < sizes.length && start[i] < to; i++) {
    bytes += sizes[i]
    if (memory && sizes[i] > memory.cache) large += sizes[i]
  }
  return { bytes, time: memory && { low: nanoseconds(large, memory), high: nanoseconds(bytes, memory) } }
}

/** The time that the memory takes to move the bytes, in nanoseconds. */
export const nanoseconds = (bytes: number, { bandwidth }: DeviceMemory): number =>
  Math.round((bytes / bandwidth) * NANOSECONDS)

function memoryOf(
  rank: RankTimeline,
  warnings: Warnings,
  { bandwidth }: LocalityOptions,
): DeviceMemory | null {
  const listed = rank.device === null ? null : deviceMemory(rank.device)
  if (bandwidth !== undefined && bandwidth > 0) return { bandwidth, cache: listed?.cache ?? 0 }
  if (!listed)
    warnings.tally(
      'device',
      rank.rank,
      ({ ranks }) =>
        (rank.device === null
          ? `the trace does not name the device of ${rankNames(ranks)}`
          : `the memory bandwidth of ${rank.device} (${rankNames(ranks)}) is unknown`) +
        ', so the locality tax is given in bytes only; state the bandwidth with --bandwidth',
      { count: 0 },
      rank.device ?? '',
    )
  return listed
}

function located(rank: RankTimeline, memory: DeviceMemory | null, found: Matcher): Locality {
  const { events } = rank
  const { operations, known } = found
  const consumer = found.consumers.all()
  const start = new Float64Array(consumer.length)
  for (let i = 0; i < start.length; i++) start[i] = events.start[consumer[i]]
  return {
    memory,
    producer: found.producers.all(),
    consumer,
    bytes: found.sizes.all(),
    intoProduct: found.intoProduct.all(),
    start,
    operations,
    known,
  }
}

/** The position in the events of one stream. */
interface Cursor {
  readonly owner: number
  readonly to: number
  /** The next event. */
  next: number
  /** The last operations of the stream, at most `REACH`, with the latest operation at the end. */
  readonly recent: Operation[]
}

interface Operation {
  readonly operator: number
  readonly communicates: boolean
  readonly start: number
  end: number
  /** The last kernel of the operation. The results of an operation are complete when its last kernel ends. */
  last: number
  readonly traffic: Traffic | null
  /**
   * A bit mask of the written tensors that have found a reader. The mask has enough bits, because an operator writes
   * only a few tensors.
   */
  taken: number
}

/** Walks over all streams in order of start time and pairs reads with the writes that precede them. */
class Matcher {
  readonly producers = new Column(int32)
  readonly consumers = new Column(int32)
  readonly sizes = new Column(float64)
  readonly intoProduct = new Column(uint8)
  operations = 0
  known = 0
  private readonly rank: RankTimeline
  private readonly cursors: Cursor[]
  private readonly traffic: RankTraffic

  constructor(rank: RankTimeline, names: readonly string[]) {
    this.rank = rank
    this.traffic = new RankTraffic(rank, names)
    this.cursors = rank.tracks
      .filter(({ role }) => role === 'stream')
      .map(({ owner, from, to }) => ({ owner, to, next: from, recent: [] }))
  }

  run(): void {
    const { start } = this.rank.events
    for (const cursor of this.cursors) this.skip(cursor)
    for (;;) {
      let first: Cursor | null = null
      for (const cursor of this.cursors)
        if (cursor.next < cursor.to && (first === null || start[cursor.next] < start[first.next]))
          first = cursor
      if (first === null) return
      this.take(first)
    }
  }

  /** Advances the cursor to the next device work. */
  private skip(cursor: Cursor): void {
    const { kind } = this.rank.events
    while (cursor.next < cursor.to && !isDeviceWork(kind[cursor.next])) cursor.next++
  }

  private take(cursor: Cursor): void {
    const { start, duration, kind, operator } = this.rank.events
    const event = cursor.next++
    this.skip(cursor)
    const end = start[event] + duration[event]
    const { recent } = cursor
    const previous = recent.length > 0 ? recent[recent.length - 1] : null
    const communicates = kind[event] === Kind.communication
    if (
      previous &&
      !communicates &&
      !previous.communicates &&
      operator[event] !== NONE &&
      previous.operator === operator[event]
    ) {
      previous.last = event
      previous.end = Math.max(previous.end, end)
      return
    }
    const traffic = this.traffic.of(event)
    const operation: Operation = {
      operator: operator[event],
      communicates,
      start: start[event],
      end,
      last: event,
      traffic,
      taken: 0,
    }
    this.operations++
    if (traffic) {
      this.known++
      this.match(event, operation, cursor, traffic.reads)
    }
    if (recent.length === REACH) recent.shift()
    recent.push(operation)
  }

  private match(event: number, reader: Operation, cursor: Cursor, reads: readonly Tensor[]): void {
    let free = (1 << Math.min(reads.length, 30)) - 1
    for (let i = cursor.recent.length - 1; i >= 0 && free !== 0; i--)
      free = this.pair(event, reader, reads, free, cursor.recent[i])
    if (free === 0) return
    const horizon = cursor.recent.length === REACH ? cursor.recent[0].start : -Infinity
    for (const other of this.cursors) {
      if (other === cursor || other.owner !== cursor.owner) continue
      for (let i = other.recent.length - 1; i >= 0 && free !== 0; i--) {
        const writer = other.recent[i]
        if (writer.communicates === reader.communicates || writer.end > reader.start) continue
        if (writer.communicates && writer.end <= horizon) continue
        free = this.pair(event, reader, reads, free, writer)
      }
    }
  }

  /**
   * Pairs tensors that `writer` wrote with reads of `reader` that are still unpaired. Returns the bit mask of the reads
   * that remain unpaired.
   */
  private pair(
    event: number,
    reader: Operation,
    reads: readonly Tensor[],
    free: number,
    writer: Operation,
  ): number {
    if (!writer.traffic || (writer.communicates && reader.communicates)) return free
    if (writer.traffic.product && reader.traffic?.product) return free
    const { writes } = writer.traffic
    for (let i = 0; i < writes.length; i++) {
      if ((writer.taken & (1 << i)) !== 0) continue
      for (let j = 0; j < reads.length; j++) {
        if ((free & (1 << j)) === 0) continue
        if (reads[j].elements !== writes[i].elements || reads[j].type !== writes[i].type) continue
        free &= ~(1 << j)
        writer.taken |= 1 << i
        this.producers.push(writer.last)
        this.consumers.push(event)
        this.sizes.push(writes[i].bytes)
        this.intoProduct.push(reader.traffic?.product || reader.traffic?.attention ? 1 : 0)
        break
      }
    }
    return free
  }
}
