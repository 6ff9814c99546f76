/**
 * Reads rocprofv3 JSON (`rocprofv3 --output-format json`) into the timeline. The document is `{ "rocprofiler-sdk-tool":
 * [process, ...] }`. A process has agents, kernel symbols, strings and one array of records per kind. Each GPU agent
 * becomes a rank. Records are parsed one at a time and stored in columns until all names are known. Times are
 * nanoseconds since the machine booted.
 *
 * A kernel dispatch is linked to the HIP call with the same correlation id. The track of a kernel dispatch is its HIP
 * stream, or else its queue.
 */
import { RankBuilder, TimelineBuilder } from '../timeline/builder.ts'
import { Column, float64 } from '../timeline/columns.ts'
import { calledEvent, isInReach, Kind, type RankTimeline } from '../timeline/timeline.ts'
import { Warnings } from '../timeline/warnings.ts'
import { describeKernel } from './communication.ts'
import { hostCallKind } from './hostCalls.ts'
import { IntegerMap } from './integerMap.ts'
import { ROCPROF_KEY } from './magic.ts'
import { readBytes } from './json/source.ts'
import { JsonWalker, type Visit } from './json/walker.ts'
import { linkRunningOperators } from './operators.ts'
import { rangeOf } from './ranges.ts'
import { splitByDevice } from './split.ts'
import { numberDevices, type TraceFile, type TraceFileOptions, type TraceInput } from './traceFile.ts'

/** The kinds of records that are read, named by their keys in the JSON document. */
const recordKinds = ['kernel_dispatch', 'memory_copy', 'hip_api', 'rccl_api', 'marker_api'] as const
type RecordKind = (typeof recordKinds)[number]
const isRecordKind = (key: string): key is RecordKind => (recordKinds as readonly string[]).includes(key)

/** Only the record fields that Arke reads are declared. Any field of a record may be absent. */
interface RocprofRecord {
  kind?: number
  operation?: number
  thread_id?: number
  correlation_id?: { internal?: number }
  start_timestamp?: number
  end_timestamp?: number
  dispatch_info?: { agent_id?: Handle; queue_id?: Handle; kernel_id?: number }
  stream_id?: Handle
  src_agent_id?: Handle
  dst_agent_id?: Handle
  bytes?: number
}
interface Handle {
  handle?: number
}
interface Agent {
  id?: Handle
  type?: number
  product_name?: string
  name?: string
  logical_node_type_id?: number
}
interface KernelSymbol {
  kernel_id?: number
  formatted_kernel_name?: string
  kernel_name?: string
}

const GPU_AGENT = 2

export async function readRocprof(source: TraceInput, options: TraceFileOptions = {}): Promise<TraceFile> {
  const warnings = new Warnings()
  const builder = new TimelineBuilder()
  const reader = new RocprofReader(builder, warnings, options.communication)
  const walker = new JsonWalker(reader, warnings)
  const bytes = await readBytes(source, (piece) => walker.push(piece), warnings, options)
  walker.end()
  const timelines = reader.finish()
  const { names } = builder.freeze()
  const name = options.name ?? (typeof source === 'string' ? source : '')
  return {
    format: 'rocprof',
    bytes,
    names,
    ranks: numberDevices(timelines, name, options.rank),
    warnings: warnings.list(),
  }
}

class RocprofReader {
  private readonly timeline: TimelineBuilder
  private readonly warnings: Warnings
  /** Kernels whose names match this regular expression also count as communication. */
  private readonly named: RegExp | null
  private readonly rank = new RankBuilder()
  private readonly deviceNames = new Map<number, string>()
  private process = new RocprofProcess()
  private processes = 0
  private readonly calls = new IntegerMap()
  private origin = NaN
  private missing = 0

  constructor(timeline: TimelineBuilder, warnings: Warnings, communication: string | undefined) {
    this.named = communication === undefined ? null : new RegExp(communication)
    this.timeline = timeline
    this.warnings = warnings
  }

  visit(path: readonly string[]): Visit {
    if (path.length <= 2) return path.length === 0 || path[0] === ROCPROF_KEY ? 'enter' : 'skip'
    const [, , part, key] = path
    if (path.length === 3)
      return part === 'metadata'
        ? 'take'
        : ['agents', 'kernel_symbols', 'strings', 'buffer_records', 'callback_records'].includes(part)
          ? 'enter'
          : 'skip'
    if (part === 'agents' || part === 'kernel_symbols') return 'take'
    if (part === 'strings') {
      if (key === 'buffer_records' || key === 'callback_records') return path.length === 4 ? 'enter' : 'take'
      return key === 'marker_api' ? (path.length === 4 ? 'enter' : 'take') : 'skip'
    }
    if (!isRecordKind(key)) return 'skip'
    return path.length === 4 ? 'enter' : 'take'
  }

  value(path: readonly string[], text: string): void {
    let value: unknown
    try {
      value = JSON.parse(text)
    } catch {
      this.warnings.add('garbage', () => `a value of ${path.slice(2).join('.')} is malformed; left out`)
      return
    }
    if (typeof value !== 'object' || value === null) return
    const [, , part, key] = path
    const { process } = this
    if (part === 'metadata') process.id = numberOr((value as { pid?: unknown }).pid, -1)
    else if (part === 'agents') process.agent(value as Agent)
    else if (part === 'kernel_symbols') process.symbol(value as KernelSymbol)
    else if (part === 'strings') process.text(key, value)
    else if (isRecordKind(key)) process.record(key, part, value as RocprofRecord)
  }

  leave(path: readonly string[]): void {
    if (path.length === 2) this.add()
  }

  finish(): RankTimeline[] {
    // If truncated input ends inside a process, the complete records of that process are added.
    this.add()
    const { rank } = this
    if (rank.length === 0) return []
    if (this.missing > 0)
      this.warnings.add(
        'correlation',
        () => 'device work without the host call that enqueued it (record with --hip-trace)',
        this.missing,
      )
    linkRunningOperators(rank, true)
    rank.base = BigInt(this.origin)
    return splitByDevice(rank.freeze(0), this.warnings, { expected: true }).map((timeline) => {
      const owner = timeline.tracks.find(({ role }) => role === 'stream')?.owner ?? timeline.rank
      return { ...timeline, rank: Math.max(owner, 0), device: this.deviceNames.get(owner) ?? null }
    })
  }

  /** Adds the events of the process whose records have been collected. */
  private add(): void {
    const { process, rank } = this
    this.process = new RocprofProcess()
    const offset = this.processes++ * 2 ** 44
    for (const { device, name } of process.agents.values())
      if (device >= 0 && name !== '') this.deviceNames.set(device, name)

    for (const key of ['hip_api', 'rccl_api', 'marker_api'] as const)
      process.records[key].each((row) => {
        const name = process.operation(row.source, row.kind, row.operation)
        const range = key === 'marker_api' ? rangeOf(process.markers.get(row.correlation) ?? '') : null
        if (range?.name === '') return
        const kind = key === 'hip_api' ? hostCallKind(name) : (range?.kind ?? Kind.operator)
        const track = rank.track('thread', process.id, row.thread)
        const event = this.event(kind, track, range?.name ?? name, row)
        if (event >= 0 && key === 'hip_api' && row.correlation > 0)
          this.calls.set(offset + row.correlation, event)
      })

    const described = new Map<string, number>()
    process.records.kernel_dispatch.each((row) => {
      const name = process.symbols.get(row.kernel) ?? `kernel ${row.kernel}`
      let communication = described.get(name)
      if (communication === undefined) {
        const record = describeKernel(name, this.named)
        communication = record ? rank.communication(record) : -1
        described.set(name, communication)
      }
      const track = rank.track('stream', process.device(row.agent), row.stream)
      const kind = communication >= 0 ? Kind.communication : blitKind(name)
      const event = this.event(kind, track, name, row)
      if (event < 0) return
      this.link(event, offset, row.correlation)
      if (communication >= 0) rank.setCommunication(event, communication, -1)
    })
    process.records.memory_copy.each((row) => {
      const to = process.device(row.agent)
      const track = rank.track('stream', to >= 0 ? to : process.device(row.otherAgent), row.stream)
      const event = this.event(
        Kind.memcpy,
        track,
        process.operation(row.source, row.kind, row.operation),
        row,
      )
      if (event < 0) return
      this.link(event, offset, row.correlation)
      if (row.bytes > 0) rank.setBytes(event, row.bytes)
    })
  }

  private link(event: number, offset: number, correlation: number): void {
    const call = correlation > 0 ? this.calls.get(offset + correlation) : -1
    if (call >= 0) this.rank.linkLaunch(event, call)
    else this.missing++
  }

  /** Adds an event and returns its index. If the event is invalid, warns and returns -1. */
  private event(kind: Kind, track: number, name: string, { start, end }: RecordRow): number {
    if (!Number.isSafeInteger(start) || !Number.isSafeInteger(end)) {
      this.warnings.add('time', () => `${calledEvent(name)} has no readable time; left out`)
      return -1
    }
    if (Number.isNaN(this.origin)) this.origin = start
    if (end < start)
      this.warnings.add(
        'negative-duration',
        () => `${calledEvent(name)} has a negative duration; treated as 0`,
      )
    const from = start - this.origin
    const duration = Math.max(0, end - start)
    if (!isInReach(from, duration)) {
      this.warnings.add(
        'time',
        () => `${calledEvent(name)} is more than 26 days from the first event; left out`,
      )
      return -1
    }
    return this.rank.add(kind, track, this.timeline.intern(name), from, duration)
  }
}

/**
 * Returns whether a kernel is a copy, a fill or an ordinary kernel. The HIP runtime implements copies and fills by
 * kernels of its own, named `__amd_rocclr_…`.
 */
const blitKind = (name: string): Kind =>
  !name.startsWith('__amd_rocclr_')
    ? Kind.kernel
    : name.includes('copy')
      ? Kind.memcpy
      : name.includes('fill')
        ? Kind.memset
        : Kind.kernel

const numberOr = (value: unknown, otherwise: number): number =>
  typeof value === 'number' ? value : otherwise

/** Collects the records of one process until all of them are read. */
class RocprofProcess {
  id = -1
  readonly agents = new Map<number, { device: number; name: string }>()
  readonly symbols = new Map<number, string>()
  readonly markers = new Map<number, string>()
  readonly records: Readonly<Record<RecordKind, RecordColumns>> = {
    kernel_dispatch: new RecordColumns(),
    memory_copy: new RecordColumns(),
    hip_api: new RecordColumns(),
    rccl_api: new RecordColumns(),
    marker_api: new RecordColumns(),
  }
  /**
   * The names of operations, keyed by the section that holds the records (`sources`), and indexed by the kind of
   * record.
   */
  private readonly operations: Record<string, { kind?: string; operations?: string[] }[]> = {}
  private gpus = 0

  agent({ id, type, name, product_name: product, logical_node_type_id: number }: Agent): void {
    if (typeof id?.handle !== 'number') return
    const device = type === GPU_AGENT ? numberOr(number, this.gpus++) : -1
    this.agents.set(id.handle, { device, name: product || name || '' })
  }

  /** The number of the agent's device, or -1 if the agent is not a GPU. */
  device(agent: number): number {
    return this.agents.get(agent)?.device ?? -1
  }

  symbol({ kernel_id: id, formatted_kernel_name: formatted, kernel_name: name }: KernelSymbol): void {
    if (typeof id === 'number') this.symbols.set(id, formatted || name || '')
  }

  text(key: string, value: object): void {
    if (key === 'marker_api') {
      const { key: correlation, value: text } = value as { key?: unknown; value?: unknown }
      if (typeof correlation === 'number' && typeof text === 'string') this.markers.set(correlation, text)
    } else (this.operations[key] ??= []).push(value)
  }

  operation(source: number, kind: number, operation: number): string {
    const kinds = this.operations[sources[source]] ?? []
    const operations = kinds[kind]?.operations
    const name = Array.isArray(operations) ? operations[operation] : undefined
    return typeof name === 'string' ? name : `operation ${kind}.${operation}`
  }

  record(key: RecordKind, source: string, record: RocprofRecord): void {
    this.records[key].push(sources.indexOf(source), record)
  }
}

const sources = ['buffer_records', 'callback_records']

/** One record. The same object is reused for each record. */
class RecordRow {
  source = 0
  kind = 0
  operation = 0
  thread = 0
  correlation = 0
  start = 0
  end = 0
  agent = 0
  otherAgent = 0
  stream = 0
  kernel = 0
  bytes = 0
}
const fields = Object.keys(new RecordRow()) as (keyof RecordRow)[]

class RecordColumns {
  private readonly columns = fields.map(() => new Column(float64))
  private readonly row = new RecordRow()

  push(source: number, record: RocprofRecord): void {
    const { row } = this
    const { dispatch_info: dispatch } = record
    row.source = source
    row.kind = numberOr(record.kind, -1)
    row.operation = numberOr(record.operation, -1)
    row.thread = numberOr(record.thread_id, -1)
    row.correlation = numberOr(record.correlation_id?.internal, 0)
    row.start = numberOr(record.start_timestamp, NaN)
    row.end = numberOr(record.end_timestamp, NaN)
    row.agent = numberOr(dispatch ? dispatch.agent_id?.handle : record.dst_agent_id?.handle, -1)
    row.otherAgent = numberOr(record.src_agent_id?.handle, -1)
    row.stream = numberOr(record.stream_id?.handle, numberOr(dispatch?.queue_id?.handle, -1))
    row.kernel = numberOr(dispatch?.kernel_id, -1)
    row.bytes = numberOr(record.bytes, 0)
    for (let i = 0; i < fields.length; i++) this.columns[i].push(row[fields[i]])
  }

  each(visit: (row: RecordRow) => void): void {
    const { row, columns } = this
    for (let at = 0; at < columns[0].length; at++) {
      for (let i = 0; i < fields.length; i++) row[fields[i]] = columns[i].get(at)
      visit(row)
    }
  }
}
