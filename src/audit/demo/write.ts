/**
 * Writes a laid-out rank in the format of PyTorch's profiler, in one of several versions of the schema. The text is
 * produced in chunks, so a file can be larger than memory. Times are decimal text made from integers, so nothing is
 * rounded.
 */
import type { Laid, LaidCollective, LaidEvent } from './laid.ts'
import { type CollectiveKind, ofRank, type PerRank } from './workload.ts'

/**
 * The versions of the trace schema that can be written. Schema `2021` has capitalised categories and integer
 * microseconds since 1970. Schema `2023` has times with fractions of microseconds. Schema `2026` has times relative to
 * `baseTimeNanoseconds`, a `distributedInfo` field, and metadata on collective kernels. Schema `rocm` has HIP calls,
 * kernels without external id, and 0 as its default stream.
 */
export const schemas = ['2021', '2023', '2026', 'rocm'] as const
export type Schema = (typeof schemas)[number]

export interface WriteOptions {
  schema?: Schema
  /** The number of nanoseconds by which a rank's clock is ahead. */
  clockOffset?: PerRank
  /** The drift of a rank's clock as a fraction: 1e-6 means one microsecond per second. */
  clockDrift?: PerRank
  /**
   * True if collective kernels carry their process group and sequence number; by default, this is so only in schema
   * `2026`.
   */
  metadata?: boolean
  /** True if the trace has a host annotation for each step. */
  steps?: boolean
  /** The number of Python function events around each operator. */
  python?: number
  /** How often the job is written to the trace; the repetitions follow one after the other. */
  repeat?: number
}

/** The start time of the traces, in nanoseconds since 1970. */
const EPOCH = 1_700_000_000_000_000_000n

const isRelative = (schema: Schema): boolean => schema === '2026' || schema === 'rocm'

/** The value of `ts` in the trace that corresponds to time 0 of the layout, in nanoseconds. */
const firstTime = (schema: Schema): bigint => (isRelative(schema) ? 4_458_676_000_000_000n : EPOCH)

/** The time on the machine's clock that corresponds to time 0 of the layout, in nanoseconds. */
export const originOf = (schema: Schema): bigint => firstTime(schema) + (isRelative(schema) ? EPOCH : 0n)

/** Generates the text of one rank's trace, in chunks. */
export function* kinetoText(laid: Laid, rank: number, options: WriteOptions = {}): Generator<string> {
  const { schema = '2026', steps = true, repeat = 1 } = options
  const { events } = laid.ranks[rank]
  const writer = new EventWriter(laid, rank, schema, options)
  yield header(laid, rank, schema)
  let comma = ''
  for (let i = 0; i < repeat; i++) {
    let piece = ''
    for (const event of events) {
      if (event.role === 'step' && !steps) continue
      piece += comma + writer.text(event, i)
      comma = ',\n'
      if (piece.length > 1 << 18) {
        yield piece
        piece = ''
      }
    }
    yield piece
  }
  yield footer(schema, rank)
}

export const kinetoTextOf = (laid: Laid, rank: number, options: WriteOptions = {}): string =>
  [...kinetoText(laid, rank, options)].join('')

function header(laid: Laid, rank: number, schema: Schema): string {
  const device =
    schema === 'rocm'
      ? '{ "id": 0, "name": "AMD Instinct MI300X", "totalGlobalMem": 206141652992, "numSms": 304 }'
      : '{ "id": 0, "name": "NVIDIA H100 80GB HBM3", "totalGlobalMem": 85018279936, "computeMajor": 9, "computeMinor": 0, "numSms": 132 }'
  if (schema === '2021') return '{\n  "schemaVersion": 1,\n  "traceEvents": [\n'
  if (schema === '2023')
    return `{\n  "schemaVersion": 1,\n  "deviceProperties": [${device}],\n  "traceEvents": [\n`
  const groups = laid.job.groups.map(
    ({ name, description, ranks }) =>
      `{"pg_name": "${name}", "pg_desc": "${description}", "backend_config": "cuda:nccl", "pg_size": ${ranks.length}, "ranks": [${ranks.join(', ')}]}`,
  )
  const info = `{"backend": "nccl", "rank": ${rank}, "world_size": ${laid.job.ranks}, "pg_count": ${groups.length}, "pg_config": [${groups.join(', ')}]}`
  return `{\n  "schemaVersion": 1,\n  "deviceProperties": [${device}],\n  "distributedInfo": ${info},\n  "record_shapes": 1,\n  "traceEvents": [\n`
}

const footer = (schema: Schema, rank: number): string =>
  `\n  ],\n  "traceName": "rank${rank}.json",\n  "displayTimeUnit": "ms"` +
  (isRelative(schema) ? `,\n  "baseTimeNanoseconds": ${EPOCH}\n}\n` : '\n}\n')

const categories = {
  '2021': {
    kernel: 'Kernel',
    copy: 'Memcpy',
    fill: 'Memset',
    wait: 'cuda_sync',
    call: 'Runtime',
    operator: 'Operator',
    step: 'Operator',
  },
  later: {
    kernel: 'kernel',
    copy: 'gpu_memcpy',
    fill: 'gpu_memset',
    wait: 'cuda_sync',
    call: 'cuda_runtime',
    operator: 'cpu_op',
    step: 'user_annotation',
  },
} as const

/** The name of the runtime call for each role, on CUDA and on ROCm. */
const calls: Partial<Record<LaidEvent['role'], readonly [string, string]>> = {
  launch: ['cudaLaunchKernel', 'hipExtModuleLaunchKernel'],
  copyCall: ['cudaMemcpyAsync', 'hipMemcpyAsync'],
  fillCall: ['cudaMemsetAsync', 'hipMemsetAsync'],
  graphLaunch: ['cudaGraphLaunch', 'hipGraphLaunch'],
}

const spellings: Readonly<
  Record<CollectiveKind, readonly [kernel: string, metadata: string, annotation: string]>
> = {
  allReduce: ['AllReduce', 'allreduce', 'all_reduce'],
  allGather: ['AllGather', '_allgather_base', '_all_gather_base'],
  reduceScatter: ['ReduceScatter', '_reduce_scatter_base', '_reduce_scatter_base'],
  allToAll: ['SendRecv', 'all_to_all', 'all_to_all'],
  broadcast: ['Broadcast', 'broadcast', 'broadcast'],
}

function collectiveKernel(kind: CollectiveKind, schema: Schema): string {
  const [kernel] = spellings[kind]
  const reduces = kind === 'allReduce' || kind === 'reduceScatter'
  switch (schema) {
    case '2021':
      return `ncclKernel_${kernel}_RING_LL_Sum_half(ncclWorkElem)`
    case '2023':
      return `ncclKernel_${kernel}_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)`
    case '2026':
      return `ncclDevKernel_${kernel}${reduces ? '_Sum_bf16' : ''}_RING_LL(ncclDevKernelArgsStorage<4096ul>)`
    case 'rocm':
      return 'ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)'
    default:
      return schema satisfies never
  }
}

/**
 * Formats a time as decimal microseconds: `nanoseconds` plus `after` whole microseconds. The two arguments are below
 * 2^53.
 */
export function microseconds(nanoseconds: number, after = 0, decimals = true): string {
  const whole = Math.floor(nanoseconds / 1000)
  const rest = nanoseconds - whole * 1000
  if (rest === 0) return String(after + whole)
  if (!decimals) throw new Error(`${nanoseconds} ns are not a whole number of microseconds`)
  if (after + whole < 0) return `-${microseconds(-nanoseconds, -after)}`
  return `${after + whole}.${rest < 10 ? '00' : rest < 100 ? '0' : ''}${rest}`
}

class EventWriter {
  /** The start time of the trace, in microseconds. */
  private readonly base: number
  private readonly offset: number
  private readonly drift: number
  private readonly process: number
  private readonly metadata: boolean
  private readonly laid: Laid
  private readonly rank: number
  private readonly schema: Schema
  private readonly python: number
  /**
   * The time between the starts of two repetitions, in nanoseconds. Each repetition of the job uses higher ids than the
   * previous repetition.
   */
  private readonly period: number
  private readonly ids: number
  private readonly collectives: number

  constructor(laid: Laid, rank: number, schema: Schema, options: WriteOptions) {
    this.laid = laid
    this.rank = rank
    this.schema = schema
    this.base = Number(firstTime(schema) / 1000n)
    this.offset = ofRank(options.clockOffset ?? 0, rank)
    this.drift = ofRank(options.clockDrift ?? 0, rank)
    this.process = 4000 + rank
    this.metadata = options.metadata ?? schema === '2026'
    this.python = options.python ?? 0
    this.period = Math.ceil(Math.max(...laid.ranks.map(({ end }) => end)) / 1e6) * 1e6 + 1e6
    this.ids = Math.max(...laid.ranks.map(({ events }) => events.length)) + 1
    this.collectives = laid.collectives.length
  }

  /** The JSON text of an event in the given repetition of the job. */
  text(event: LaidEvent, repetition: number): string {
    const { schema } = this
    const later = repetition * this.period
    const ids = repetition * this.ids
    const start = this.clock(event.start + later)
    const duration = this.clock(event.start + event.duration + later) - start
    const decimals = schema !== '2021'
    const times = `"ts": ${microseconds(start, this.base, decimals)}, "dur": ${microseconds(duration, 0, decimals)}`
    const names = schema === '2021' ? categories['2021'] : categories.later
    const call = calls[event.role]
    const correlation = (event.correlation ?? 0) + ids
    const externalId =
      event.externalId === undefined
        ? ''
        : `"${schema === '2021' ? 'external id' : 'External id'}": ${event.externalId + ids}, `
    const thread = `"pid": ${this.process}, "tid": ${this.process + event.track}`
    switch (event.role) {
      case 'kernel':
      case 'copy':
      case 'fill':
      case 'wait': {
        const stream = this.stream(event.track)
        const { collective, bytes } = event
        const name =
          collective === undefined
            ? event.name
            : collectiveKernel(this.laid.collectives[collective].work.collective, schema)
        const args =
          (schema === 'rocm' ? '' : externalId) +
          `"device": ${schema === 'rocm' ? this.rank : 0}, "context": 1, "stream": ${stream}, "correlation": ${correlation}` +
          (bytes === undefined ? '' : `, "bytes": ${bytes}, "memory bandwidth (GB/s)": 1268.4387096774194`) +
          (event.role === 'kernel' ? ', "grid": [512, 1, 1], "block": [256, 1, 1]' : '') +
          (collective === undefined || !this.metadata
            ? ''
            : this.describe(this.laid.collectives[collective], repetition))
        const track = `"pid": 0, "tid": ${schema === '2021' ? `"stream ${stream}"` : stream}`
        return line(names[event.role], name, track, times, args)
      }
      case 'launch':
      case 'copyCall':
      case 'fillCall':
      case 'graphLaunch':
      case 'call': {
        let name = call ? call[schema === 'rocm' ? 1 : 0] : event.name
        if (schema === 'rocm') name = name.replace(/^cuda/, 'hip')
        return line(
          names.call,
          name,
          thread,
          times,
          `${externalId}"cbid": 211, "correlation": ${correlation}`,
        )
      }
      case 'operator': {
        const { shapes, types } = event.operator ?? {}
        const args =
          `${externalId}"Record function id": 0` +
          (shapes
            ? `, "Input Dims": ${JSON.stringify(shapes)}, "Input type": ${JSON.stringify(types ?? shapes.map(() => ''))}`
            : '')
        return this.calls(thread, times) + line(names.operator, event.name, thread, times, args)
      }
      case 'annotation':
        return line('user_annotation', event.name, thread, times, `"Record function id": 0`)
      case 'frame':
        return line('python_function', event.name, thread, times, '"Python id": 1')
      case 'step': {
        const name = event.name.replace(/\d+$/, (digits) =>
          String(Number(digits) + repetition * this.laid.job.steps.length),
        )
        return line(names.step, name, thread, times, `${externalId}"Record function id": 0`)
      }
      default:
        return event.role satisfies never
    }
  }

  private calls(thread: string, times: string): string {
    let text = ''
    for (let i = 0; i < this.python; i++)
      text +=
        line(
          'python_function',
          `torch/nn/modules/module.py(${1500 + i}): _call_impl`,
          thread,
          times,
          `"Python parent id": ${i}, "Python id": ${i + 1}`,
        ) + ',\n'
    return text
  }

  private clock(time: number): number {
    return time + this.offset + Math.round(time * this.drift)
  }

  /** The stream number in the trace. The default stream is 7 in CUDA traces and 0 in ROCm traces. */
  private stream(stream: number): number {
    if (this.schema === 'rocm') return stream
    return stream === 0 ? 7 : 16 + 4 * stream
  }

  private describe({ work, group, sequence }: LaidCollective, repetition: number): string {
    const [, metadata] = spellings[work.collective]
    return (
      `, "Collective name": "${metadata}", "In msg nelems": ${work.elementsIn ?? 4096}, "Out msg nelems": ${work.elementsOut ?? 4096}, ` +
      `"Group size": ${group.ranks.length}, "dtype": "BFloat16", "In split size": "[]", "Out split size": "[]", ` +
      `"Process Group Name": "${group.name}", "Process Group Description": "${group.description}", ` +
      `"Process Group Ranks": "[${group.ranks.join(', ')}]", "comms id": "0x${(0x5ee0 + 16 * Number(group.name)).toString(16)}", "Seq": ${sequence + repetition * this.collectives}`
    )
  }
}

const line = (category: string, name: string, track: string, times: string, args: string): string =>
  `  {\n    "ph": "X", "cat": "${category}", "name": ${JSON.stringify(name)}, ${track},\n    ${times},\n    "args": {\n      ${args}\n    }\n  }`
