/**
 * Reads exports of Nsight Systems (`nsys export --type sqlite`) into the timeline. One file holds all processes and
 * GPUs of a machine, and each GPU becomes a rank. The tables and columns of an export depend on the version of Nsight
 * Systems and on the recorded activities, so any table or column may be absent. Times are nanoseconds since the start
 * of the recording.
 *
 * Device work is linked to its launch by process and correlation id. NVTX ranges become annotations, with two
 * exceptions: ranges that PyTorch's `emit_nvtx` writes (`aten::mm, op_id = 12`) become operators, and numbered steps
 * become steps. An Nsight Systems export does not contain the process group of a collective.
 */
import { RankBuilder, TimelineBuilder } from '../timeline/builder.ts'
import { isInReach, Kind, type RankTimeline } from '../timeline/timeline.ts'
import { Warnings } from '../timeline/warnings.ts'
import { describeKernel } from './communication.ts'
import { hostCallKind } from './hostCalls.ts'
import { IntegerMap } from './integerMap.ts'
import { linkRunningOperators } from './operators.ts'
import { rangeOf } from './ranges.ts'
import { splitByDevice } from './split.ts'
import { SqliteDatabase } from './sqlite/database.ts'
import type { SqlValue } from './sqlite/record.ts'
import { numberDevices, type TraceFile, type TraceFileOptions } from './traceFile.ts'

const KERNEL = 'CUPTI_ACTIVITY_KIND_KERNEL'
const GRAPH = 'CUPTI_ACTIVITY_KIND_GRAPH_TRACE'
const MEMCPY = 'CUPTI_ACTIVITY_KIND_MEMCPY'
const MEMSET = 'CUPTI_ACTIVITY_KIND_MEMSET'
const RUNTIME = 'CUPTI_ACTIVITY_KIND_RUNTIME'
const SYNCHRONIZATION = 'CUPTI_ACTIVITY_KIND_SYNCHRONIZATION'
const NVTX = 'NVTX_EVENTS'

const STREAM_WAIT_EVENT = 2
const copyNames = ['', 'HtoD', 'DtoH', 'HtoA', 'AtoH', 'AtoA', 'AtoD', 'DtoA', 'DtoD', 'HtoH', 'PtoP']

export async function readNsys(path: string, options: TraceFileOptions = {}): Promise<TraceFile> {
  const warnings = new Warnings()
  const builder = new TimelineBuilder()
  let bytes = 0
  let timelines: RankTimeline[] = []
  try {
    const database = new SqliteDatabase(path, warnings)
    bytes = database.size
    try {
      const reader = new NsysReader(database, builder, warnings, options.communication)
      const progress = (part: number): void => options.onProgress?.(Math.floor(bytes * part))
      timelines = await reader.read(progress)
    } finally {
      database.close()
    }
  } catch (error) {
    warnings.add('unreadable', () => (error as Error).message)
  }
  if (timelines.length === 0)
    warnings.add(
      'format',
      () => 'the database has no table of CUDA activity, so it is not an export of Nsight Systems',
    )
  options.onProgress?.(bytes)
  const { names } = builder.freeze()
  const ranks = numberDevices(timelines, options.name ?? path, options.rank)
  return { format: 'nsys', bytes, names, ranks, warnings: warnings.list() }
}

class NsysReader {
  private readonly database: SqliteDatabase
  private readonly timeline: TimelineBuilder
  private readonly warnings: Warnings
  private readonly rank = new RankBuilder()
  /** Host calls, keyed by process and correlation id. */
  private readonly calls = new IntegerMap()
  private readonly processes = new Map<number, number>()
  private readonly texts = new Map<number, string>()
  /** Interned names, keyed by string id. */
  private readonly names = new Map<number, number>()
  private readonly callKinds = new Map<number, Kind>()
  /** For each process and each device number in that process: the GPU's number on the machine. */
  private readonly gpus = new Map<string, number>()
  private readonly gpuNames = new Map<number, string>()
  /** The device of each context, keyed by process and context. */
  private readonly contexts = new Map<string, number>()
  private readonly operandRecords = new Map<string, number>()
  private readonly byProcess: boolean
  /** Kernels whose names match this regular expression also count as communication. */
  private readonly named: RegExp | null
  private origin = NaN
  private missing = 0

  constructor(
    database: SqliteDatabase,
    timeline: TimelineBuilder,
    warnings: Warnings,
    communication: string | undefined,
  ) {
    this.named = communication === undefined ? null : new RegExp(communication)
    this.database = database
    this.timeline = timeline
    this.warnings = warnings
    this.byProcess = database.has(KERNEL, 'globalPid') && database.has(RUNTIME, 'globalTid')
  }

  async read(progress: (part: number) => void): Promise<RankTimeline[]> {
    const { database } = this
    if (![KERNEL, GRAPH, MEMCPY, MEMSET].some((table) => database.has(table))) return []
    // The reader yields to the event loop after each table, so that a progress bar can be drawn.
    const parts = [
      () => this.readDevices(),
      () => this.readCalls(),
      () => this.readKernels(),
      () => this.readGraphs(),
      () => this.readCopies(),
      () => this.readFills(),
      () => this.readWaits(),
      () => this.readRanges(),
    ]
    for (const [index, part] of parts.entries()) {
      part()
      progress((index + 1) / (parts.length + 1))
      await new Promise((resolve) => setImmediate(resolve))
    }
    if (this.missing > 0)
      this.warnings.add(
        'correlation',
        () => 'device work without the host call that enqueued it',
        this.missing,
      )
    const { rank } = this
    if (rank.length === 0) return []
    linkRunningOperators(rank, true)
    rank.base = this.base() + BigInt(this.origin)
    const split = splitByDevice(rank.freeze(0), this.warnings, { expected: true })
    return split.map((timeline) => {
      const owner = timeline.tracks.find(({ role }) => role === 'stream')?.owner ?? timeline.rank
      return { ...timeline, rank: Math.max(owner, 0), device: this.gpuNames.get(owner) ?? null }
    })
  }

  /** Time 0 of the events in nanoseconds since 1970, or 0 if the file does not state it. */
  private base(): bigint {
    let base = 0n
    this.database.rows('TARGET_INFO_SESSION_START_TIME', ['utcEpochNs'], ([epoch]) => {
      if (typeof epoch === 'bigint' || Number.isSafeInteger(epoch)) base = BigInt(epoch as bigint | number)
    })
    this.database.rows('ANALYSIS_DETAILS', ['startTime'], ([start]) => {
      if (base > 0n && Number.isSafeInteger(start)) base -= BigInt(start as number)
    })
    return base
  }

  private readDevices(): void {
    this.database.rows('TARGET_INFO_CUDA_DEVICE', ['pid', 'cudaId', 'gpuId'], ([process, device, gpu]) => {
      if (typeof process === 'number' && typeof device === 'number' && typeof gpu === 'number')
        this.gpus.set(`${process} ${device}`, gpu)
    })
    this.database.rows('TARGET_INFO_GPU', ['id', 'name'], ([id, name]) => {
      if (typeof id === 'number' && typeof name === 'string') this.gpuNames.set(id, name)
    })
  }

  private readCalls(): void {
    const columns = ['start', 'end', 'globalTid', 'correlationId', 'nameId']
    this.database.rows(RUNTIME, columns, ([start, end, thread, correlation, nameId]) => {
      const id = typeof nameId === 'number' ? nameId : -1
      const name = this.name(id, (text) => text.replace(/(_pt(sz|ds))?(_v\d+)?$/, ''))
      const kind = this.callKinds.get(id) ?? hostCallKind(this.text(id))
      this.callKinds.set(id, kind)
      const event = this.add(kind, this.thread(thread), name, start, end)
      if (event < 0 || typeof correlation !== 'number' || !(correlation > 0)) return
      const key = this.key(thread, correlation)
      const known = this.calls.get(key)
      if (known < 0 || (this.rank.kind(known) !== Kind.launch && kind === Kind.launch))
        this.calls.set(key, event)
    })
  }

  private readKernels(): void {
    const columns = [
      'start',
      'end',
      'deviceId',
      'contextId',
      'streamId',
      'correlationId',
      'globalPid',
      'demangledName',
      'shortName',
    ]
    const described = new Map<number, number>()
    this.database.rows(KERNEL, columns, (row) => {
      const [start, end, device, context, stream, correlation, process, demangled, short] = row
      const id = typeof demangled === 'number' ? demangled : typeof short === 'number' ? short : -1
      let communication = described.get(id)
      if (communication === undefined) {
        const record = describeKernel(this.text(id), this.named)
        communication = record ? this.rank.communication(record) : -1
        described.set(id, communication)
      }
      const kind = communication < 0 ? Kind.kernel : Kind.communication
      const gpu = this.device(process, device)
      if (typeof context === 'number') this.contexts.set(`${process} ${context}`, gpu)
      const event = this.add(kind, this.stream(gpu, stream), this.name(id), start, end)
      if (event < 0) return
      this.link(event, process, correlation)
      if (communication >= 0) this.rank.setCommunication(event, communication, -1)
    })
  }

  /** Reads the launches of CUDA graphs that were recorded as a whole, without their kernels. */
  private readGraphs(): void {
    const columns = ['start', 'end', 'deviceId', 'streamId', 'correlationId', 'globalPid']
    const name = this.timeline.intern('CUDA graph')
    this.database.rows(GRAPH, columns, ([start, end, device, stream, correlation, process]) => {
      const track = this.stream(this.device(process, device), stream)
      const event = this.add(Kind.kernel, track, name, start, end)
      if (event >= 0) this.link(event, process, correlation)
    })
  }

  private readCopies(): void {
    const columns = [
      'start',
      'end',
      'deviceId',
      'streamId',
      'correlationId',
      'globalPid',
      'bytes',
      'copyKind',
    ]
    this.database.rows(MEMCPY, columns, ([start, end, device, stream, correlation, process, bytes, copy]) => {
      const name = this.timeline.intern(`Memcpy ${copyNames[Number(copy)] ?? ''}`.trim())
      const track = this.stream(this.device(process, device), stream)
      const event = this.add(Kind.memcpy, track, name, start, end)
      if (event < 0) return
      this.link(event, process, correlation)
      if (typeof bytes === 'number' && bytes > 0) this.rank.setBytes(event, bytes)
    })
  }

  private readFills(): void {
    const columns = ['start', 'end', 'deviceId', 'streamId', 'correlationId', 'globalPid', 'bytes']
    const name = this.timeline.intern('Memset')
    this.database.rows(MEMSET, columns, ([start, end, device, stream, correlation, process, bytes]) => {
      const track = this.stream(this.device(process, device), stream)
      const event = this.add(Kind.memset, track, name, start, end)
      if (event < 0) return
      this.link(event, process, correlation)
      if (typeof bytes === 'number' && bytes > 0) this.rank.setBytes(event, bytes)
    })
  }

  /**
   * Reads the waits of streams for CUDA events. Waits of the host need not be read, because they are host calls, which
   * `readCalls` reads. A CUDA context identifies its device.
   */
  private readWaits(): void {
    const columns = [
      'start',
      'end',
      'deviceId',
      'contextId',
      'streamId',
      'correlationId',
      'globalPid',
      'syncType',
    ]
    const name = this.timeline.intern('Stream Wait Event')
    this.database.rows(SYNCHRONIZATION, columns, (row) => {
      const [start, end, device, context, stream, correlation, process, type] = row
      if (type !== STREAM_WAIT_EVENT) return
      const gpu = this.contexts.get(`${process} ${context}`) ?? this.device(process, device)
      const event = this.add(Kind.wait, this.stream(gpu, stream), name, start, end)
      if (event >= 0) this.link(event, process, correlation)
    })
  }

  private readRanges(): void {
    const columns = ['start', 'end', 'text', 'textId', 'globalTid']
    this.database.rows(NVTX, columns, ([start, end, text, textId, thread]) => {
      // NVTX marks and domain names have no end time.
      if (end === null) return
      const called = typeof text === 'string' ? text : typeof textId === 'number' ? this.text(textId) : ''
      const { kind, name, shapes } = rangeOf(called)
      const event = this.add(kind, this.thread(thread), this.timeline.intern(name), start, end)
      if (event >= 0 && shapes) this.rank.setOperands(event, this.operands(shapes))
    })
  }

  private operands(shapes: readonly (readonly number[])[]): number {
    const key = JSON.stringify(shapes)
    let record = this.operandRecords.get(key)
    if (record === undefined) {
      record = this.rank.addOperands({ shapes, types: shapes.map(() => '') })
      this.operandRecords.set(key, record)
    }
    return record
  }

  /** Adds an event and returns its index. If the event is invalid, warns and returns -1. */
  private add(kind: Kind, track: number, name: number, start: SqlValue, end: SqlValue): number {
    if (typeof start !== 'number' || typeof end !== 'number') {
      this.warnings.add('time', () => 'a table row has no readable time; left out')
      return -1
    }
    if (Number.isNaN(this.origin)) this.origin = Math.trunc(start)
    if (end < start)
      this.warnings.add(
        'negative-duration',
        () => 'a row ends before it starts; its duration is treated as 0',
      )
    const from = Math.trunc(start) - this.origin
    const duration = Math.max(0, Math.trunc(end) - Math.trunc(start))
    if (!isInReach(from, duration)) {
      this.warnings.add('time', () => 'a table row is more than 26 days from the first event; left out')
      return -1
    }
    return this.rank.add(kind, track, name, from, duration)
  }

  private link(event: number, process: SqlValue, correlation: SqlValue): void {
    const known = typeof correlation === 'number' && correlation > 0
    const call = known ? this.calls.get(this.key(process, correlation)) : -1
    if (call >= 0) this.rank.linkLaunch(event, call)
    else if (this.rank.kind(event) !== Kind.wait) this.missing++
  }

  /**
   * Combines a process and a correlation id into one key. `id` is the global id of the process or of one of its
   * threads.
   */
  private key(id: SqlValue, correlation: number): number {
    if (!this.byProcess) return correlation
    const process = processOf(id)
    let index = this.processes.get(process)
    if (index === undefined) {
      index = this.processes.size
      this.processes.set(process, index)
    }
    return index * 2 ** 32 + correlation
  }

  private thread(id: SqlValue): number {
    return this.rank.track('thread', processOf(id), typeof id === 'number' ? id % 2 ** 24 : -1)
  }

  private stream(device: number, stream: SqlValue): number {
    return this.rank.track('stream', device, typeof stream === 'number' ? stream : -1)
  }

  /**
   * The GPU's number on the machine. In a process that sees only one GPU of the machine, the GPU has the number 0,
   * whatever its number on the machine.
   */
  private device(process: SqlValue, device: SqlValue): number {
    if (typeof device !== 'number') return 0
    return (this.gpus.size > 0 ? this.gpus.get(`${processOf(process)} ${device}`) : undefined) ?? device
  }

  private name(id: number, change: (text: string) => string = (text) => text): number {
    let name = this.names.get(id)
    if (name === undefined) {
      name = this.timeline.intern(change(this.text(id)))
      this.names.set(id, name)
    }
    return name
  }

  private text(id: number): string {
    let text = this.texts.get(id)
    if (text === undefined) {
      const value = id < 0 ? undefined : this.database.find('StringIds', id, ['value'])?.[0]
      text = typeof value === 'string' ? value : id < 0 ? '' : `name ${id}`
      this.texts.set(id, text)
    }
    return text
  }
}

/** The process id, which is in bits 24 to 47 of the global id of a process or thread. */
const processOf = (id: SqlValue): number => (typeof id === 'number' ? Math.floor(id / 2 ** 24) % 2 ** 24 : -1)
