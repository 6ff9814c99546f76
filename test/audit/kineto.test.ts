/**
 * PyTorch traces are read into the timeline: kinds, links, ranks and warnings, in the schema variants of several years.
 */
import { gzipSync } from 'node:zlib'
import { describe, expect, it } from 'vitest'
import { collectiveOf, communicationLibrary } from '../../src/audit/communication.ts'
import { hostCallKind } from '../../src/audit/hostCalls.ts'
import { rankFromName, readKineto, readKinetoFile } from '../../src/audit/kineto.ts'
import { TimelineBuilder } from '../../src/timeline/builder.ts'
import { activity, total } from '../../src/timeline/intervals.ts'
import { eventsOf, Kind, NONE, sequenceOf, streams } from '../../src/timeline/timeline.ts'
import { makeTrace } from './trace.ts'

type Json = Record<string, unknown>
const read = (events: Json[], more: Json = {}, name = 'rank0.json') =>
  readKinetoFile(Buffer.from(JSON.stringify({ traceEvents: events, ...more })), { name })
const event = (
  cat: string,
  name: string,
  ts: number,
  dur: number,
  args: Json = {},
  more: Json = {},
): Json => ({
  ph: 'X',
  cat,
  name,
  pid: 1,
  tid: 1,
  ts,
  dur,
  args,
  ...more,
})
const classes = ({ warnings }: { warnings: readonly { class: string }[] }): string[] =>
  warnings.map((one) => one.class)

describe('a generated trace', () => {
  const { text, events } = makeTrace({ seed: 3, kernels: 200, rank: 5 })

  it('is read completely, compressed or not', async () => {
    for (const bytes of [Buffer.from(text), gzipSync(text)]) {
      const file = await readKinetoFile(bytes)
      expect(file.warnings.map((one) => one.class)).toEqual(['stacks'])
      expect(file.bytes).toBe(Buffer.byteLength(text))
      const { ranks, names } = file.timeline
      expect(ranks.map(({ rank }) => rank)).toEqual([5])
      const [{ events: found, base, communications, ...rank }] = ranks
      const device = events.filter(({ category }) => category === 'kernel' || category === 'gpu_memcpy')
      const [stream] = streams({ ...rank, events: found, base, communications })
      expect([stream.owner, stream.id]).toEqual([0, 7])

      const seen = [...eventsOf(stream)]
      expect(seen.map((i) => names[found.name[i]])).toEqual(device.map(({ name }) => name))
      expect(seen.map((i) => base + BigInt(found.start[i]))).toEqual(
        device.map(({ start }) => 1711964646000000000n + start),
      )
      const byCorrelation = new Map(
        events.filter(({ category }) => category === 'cuda_runtime').map((one) => [one.correlation, one]),
      )
      const byExternalId = new Map(
        events.filter(({ category }) => category === 'cpu_op').map((one) => [one.externalId, one]),
      )
      seen.forEach((i, position) => {
        const { correlation, externalId, name } = device[position]
        const absolute = (one: number): bigint => base + BigInt(found.start[one]) - 1711964646000000000n
        expect(absolute(found.launch[i])).toBe(byCorrelation.get(correlation)?.start)
        expect(absolute(found.operator[i])).toBe(byExternalId.get(externalId)?.start)
        expect(found.operator[found.launch[i]]).toBe(found.operator[i])
        expect(found.kind[i]).toBe(
          name.startsWith('nccl')
            ? Kind.communication
            : name.startsWith('Memcpy')
              ? Kind.memcpy
              : Kind.kernel,
        )
        if (found.kind[i] !== Kind.communication) return
        expect(sequenceOf(found, i)).toBe(position)
        expect(communications[found.communication[i]]).toMatchObject({
          collective: 'allReduce',
          library: 'nccl',
          group: '0',
          groupRanks: [0, 1],
          groupSize: 2,
          dtype: 'BFloat16',
          elementsIn: 4096,
        })
      })
      expect(total(activity({ ...rank, events: found, base, communications }))).toBe(
        Number(device.reduce((sum, { duration }) => sum + duration, 0n)),
      )
    }
  })
})

describe('variants', () => {
  it('2021: capitalised categories, whole microseconds, steps among the operators', async () => {
    const file = await read([
      event('Operator', 'ProfilerStep#3', 1682725898000000, 900),
      event('Operator', 'aten::mm', 1682725898000010, 50, { 'External id': 7 }),
      event('Runtime', 'cudaLaunchKernel', 1682725898000020, 5, { correlation: 11, 'external id': 7 }),
      event('Kernel', 'gemm', 1682725898000100, 30, {
        correlation: 11,
        device: 0,
        stream: 7,
        'external id': 7,
      }),
      event('Memset', 'Memset (Device)', 1682725898000140, 1, { correlation: 12, device: 0, stream: 7 }),
    ])
    const [{ events, base }] = file.timeline.ranks
    expect(base).toBe(1682725898000000000n)
    expect([...events.kind].sort((a, b) => a - b)).toEqual([
      Kind.kernel,
      Kind.memset,
      Kind.launch,
      Kind.operator,
      Kind.step,
    ])
    const kernel = events.kind.indexOf(Kind.kernel)
    expect(events.kind[events.launch[kernel]]).toBe(Kind.launch)
    expect(events.kind[events.operator[kernel]]).toBe(Kind.operator)
    expect(classes(file)).toEqual(['correlation'])
  })

  it('ROCm: the operator through the runtime event, the default stream 0', async () => {
    const file = await read([
      event('cpu_op', 'aten::mm', 0, 50, { 'External id': 7 }),
      event('cuda_runtime', 'hipExtModuleLaunchKernel', 10, 5, {
        'External id': 7,
        correlation: 3,
        stream: '0x0',
      }),
      event('kernel', 'Cijk_Ailk', 30, 5, { device: 2, stream: 0, correlation: 3 }),
    ])
    const [rank] = file.timeline.ranks
    const kernel = rank.events.kind.indexOf(Kind.kernel)
    expect(streams(rank)[0]).toMatchObject({ owner: 2, id: 0 })
    expect(rank.events.kind[rank.events.operator[kernel]]).toBe(Kind.operator)
  })

  it('external ids that are correlation ids lead to the operator that was running', async () => {
    const file = await read([
      event('cpu_op', 'wrong by chance', 500, 5, { 'External id': 3 }),
      event('cpu_op', 'outer', 0, 100, { 'External id': 70 }),
      event('cpu_op', 'inner', 5, 20, { 'External id': 71 }),
      event('cuda_runtime', 'cudaLaunchKernel', 10, 5, { 'External id': 3, correlation: 3 }),
      event('cuda_runtime', 'cudaLaunchKernel', 40, 5, { 'External id': 4, correlation: 4 }),
      event('kernel', 'a', 30, 5, { device: 0, stream: 7, correlation: 3, 'External id': 3 }),
      event('kernel', 'b', 60, 5, { device: 0, stream: 7, correlation: 4, 'External id': 4 }),
    ])
    const { ranks, names } = file.timeline
    const [{ events }] = ranks
    const operators = [...eventsOf(streams(ranks[0])[0])].map((i) => names[events.name[events.operator[i]]])
    expect(operators).toEqual(['inner', 'outer'])
  })

  it('one graph launch has many kernels; correlation 0 has no launch', async () => {
    const file = await read([
      event('cuda_runtime', 'cudaGraphLaunch', 10, 5, { correlation: 3 }),
      event('cuda_runtime', 'cudaEventQuery', 12, 5, { correlation: 0 }),
      ...[20, 30, 40].map((ts) => event('kernel', 'k', ts, 5, { device: 0, stream: 7, correlation: 3 })),
      event('kernel', 'alone', 50, 5, { device: 0, stream: 7, correlation: 0 }),
    ])
    const [{ events, tracks }] = file.timeline.ranks
    const [stream] = tracks.filter(({ role }) => role === 'stream')
    const launches = [...events.launch.subarray(stream.from, stream.to)]
    expect(new Set(launches.slice(0, 3)).size).toBe(1)
    expect(events.kind[launches[0]]).toBe(Kind.launch)
    expect(launches[3]).toBe(NONE)
  })

  it('a device or a stream with an impossible number', async () => {
    for (const strange of ['1e999', '0.5', '1e300']) {
      const kernel = event('kernel', 'gemm', 10, 5, { device: 'DEVICE', stream: 'DEVICE', correlation: 1 })
      const text = JSON.stringify({ traceEvents: [kernel] }).replaceAll('"DEVICE"', strange)
      const { timeline } = await readKinetoFile(Buffer.from(text), { name: 'trace.json' })
      for (const { rank, tracks } of timeline.ranks)
        for (const number of [rank, ...tracks.flatMap(({ owner, id }) => [owner, id])])
          expect(Number.isSafeInteger(number), `${strange} became ${number}`).toBe(true)
    }
  })

  it('device annotations and waits do not count as work', async () => {
    const file = await read([
      event('gpu_user_annotation', 'ProfilerStep#1', 0, 100, {}, { pid: 0, tid: 7 }),
      event('cuda_sync', 'Stream Wait Event', 5, 50, { device: 0, stream: 7 }),
      event('kernel', 'k', 60, 5, { device: 0, stream: 7, correlation: 0 }),
    ])
    expect([...activity(file.timeline.ranks[0])]).toEqual([60_000, 65_000])
    expect(file.timeline.ranks[0].deviceSpan).toEqual([60_000, 65_000])
  })
})

describe('operands', () => {
  const operators = (...args: Json[]) =>
    read(args.map((one, i) => event('cpu_op', 'aten::add', 10 * i, 5, { 'External id': i, ...one })))
  const shapes = async (...args: Json[]) => {
    const { timeline } = await operators(...args)
    const { events, operands } = timeline.ranks[0]
    return [...events.operands].map((record) => (record === NONE ? null : operands[record]))
  }

  it('are the extents and types that the trace writes; strides are ignored', async () => {
    const call = {
      'Input Dims': [[4096, 1024], [], [1024]],
      'Input type': ['c10::BFloat16', 'Scalar', 'float'],
      'Input Strides': [[1024, 1], [], [1]],
    }
    expect(await shapes(call, {})).toEqual([{ shapes: call['Input Dims'], types: call['Input type'] }, null])
    expect(await shapes({ 'Input dims': [[2]], 'Input type': ['float'] })).toEqual([
      { shapes: [[2]], types: ['float'] },
    ])
  })

  it('of a list are its tensors, each with the type of the list', async () => {
    const call = {
      'Input Dims': [[[4, 8], [2], [[3]]], [], [5]],
      'Input type': ['TensorList', 'Scalar', 'int'],
    }
    expect(await shapes(call)).toEqual([
      {
        shapes: [[4, 8], [2], [3], [], [5]],
        types: ['TensorList', 'TensorList', 'TensorList', 'Scalar', 'int'],
      },
    ])
  })

  it('of calls with equal operands share one record', async () => {
    const call = { 'Input Dims': [[4]], 'Input type': ['float'] }
    const other = { 'Input Dims': [[4]], 'Input type': ['int'] }
    const { timeline } = await operators(call, other, call, { 'Input Dims': [[4]] })
    const { events, operands } = timeline.ranks[0]
    expect([...events.operands]).toEqual([0, 1, 0, 2])
    expect(operands).toEqual([
      { shapes: [[4]], types: ['float'] },
      { shapes: [[4]], types: ['int'] },
      { shapes: [[4]], types: [''] },
    ])
  })

  it('that are malformed are left out', async () => {
    const types = ['float']
    const malformed = [[4], [[-1]], [[1.5]], [['4']], 'none', 7, { a: 1 }, [[4, [2]]], null]
    const calls = malformed.map((dims) => ({ 'Input Dims': dims, 'Input type': types }))
    expect(await shapes(...calls, { 'Input Dims': [[4]], 'Input type': 'float' })).toEqual([
      ...malformed.map(() => null),
      null,
    ])
    expect(await shapes({ 'Input Dims': [[4], [5]], 'Input type': [3] })).toEqual([
      { shapes: [[4], [5]], types: ['', ''] },
    ])
  })

  it('are bounded: past the limit they are left out, and a warning says so', async () => {
    const calls = Array.from({ length: 70_000 }, (_, i) => ({
      'Input Dims': [[i, 3]],
      'Input type': ['float'],
    }))
    const file = await operators(...calls, calls[5])
    const [{ operands, events }] = file.timeline.ranks
    expect(operands).toHaveLength(2 ** 16)
    expect(events.operands[70_000]).toBe(5)
    expect(events.operands[69_999]).toBe(NONE)
    expect(file.warnings).toMatchObject([{ class: 'too-large', count: 70_000 - 2 ** 16 }])
  })

  it('do not displace names, however long the operands are', async () => {
    const list = Array.from({ length: 1000 }, (_, i) => [i, 4096])
    const calls = Array.from({ length: 1000 }, (_, i) => ({
      'Input Dims': [[...list, [i]]],
      'Input type': ['TensorList'],
    }))
    const file = await operators(...calls)
    const named = file.timeline.ranks[0].events.name.every(
      (name) => file.timeline.names[name] === 'aten::add',
    )
    expect(named).toBe(true)
    expect(classes(file)).toEqual(['too-large'])
    expect(file.timeline.ranks[0].operands.length).toBeGreaterThan(100)
  })
})

describe('warnings', () => {
  const kernel = (name: string, ts: number, dur: number, correlation: number): Json =>
    event('kernel', name, ts, dur, { device: 0, stream: 7, correlation })
  const launch = (ts: number, correlation: number): Json =>
    event('cuda_runtime', 'cudaLaunchKernel', ts, 1, { correlation })

  it.each<[string, Json[]]>([
    ['negative-duration', [launch(0, 1), kernel('a', 5, -3, 1)]],
    ['time', [launch(0, 1), { ...kernel('a', 5, 3, 1), ts: 'soon' }]],
    ['time', [launch(0, 1), { ...kernel('a', 5, 3, 1), dur: undefined }]],
    ['correlation', [kernel('a', 5, 3, 1)]],
    ['duplicate-correlation', [launch(0, 1), launch(2, 1), kernel('a', 5, 3, 1)]],
    ['duplicate-event', [launch(0, 1), kernel('a', 5, 3, 1), kernel('a', 5, 3, 1)]],
    ['overlap', [launch(0, 1), launch(1, 2), kernel('a', 5, 3, 1), kernel('b', 6, 3, 2)]],
    ['before-launch', [launch(10, 1), kernel('a', 5, 3, 1)]],
    ['no-events', []],
  ])('%s', async (kind, events) => {
    expect(classes(await read(events))).toEqual([kind])
  })

  it('the same rank twice, and a trace without a rank number', async () => {
    const builder = new TimelineBuilder()
    const bytes = Buffer.from(JSON.stringify({ traceEvents: [launch(0, 1)] }))
    expect(classes(await readKineto(bytes, builder, { name: 'trace.json' }))).toEqual(['rank'])
    expect(classes(await readKineto(bytes, builder, { name: 'rank-0.json' }))).toEqual(['duplicate-rank'])
    expect((await readKineto(bytes, builder, { rank: 9 })).ranks.map(({ rank }) => rank)).toEqual([9])
    expect(builder.freeze().ranks.map(({ rank }) => rank)).toEqual([0, 9])
  })

  it('two documents are two ranks', async () => {
    const texts = [makeTrace({ rank: 2, kernels: 3 }).text, makeTrace({ rank: 1, kernels: 4 }).text]
    const file = await readKinetoFile(Buffer.from(texts.join('\n')))
    expect(classes(file)).toEqual(['documents', 'stacks'])
    expect(file.timeline.ranks.map(({ rank, events }) => [rank, events.length])).toEqual([
      [1, 12],
      [2, 9],
    ])
  })
})

describe('names', () => {
  it.each([
    ['traces/rank7.json.gz', 7],
    ['rank_12_trace.json', 12],
    ['a100-rank0of2-nccl.json.gz', 0],
    ['3of8.json', 3],
    ['worker5.pt.trace.json', 5],
    ['rank1/trace.json', undefined],
    ['h100-qwen1.5-0.5b.json', undefined],
  ])('of the file %s', (name, rank) => {
    expect(rankFromName(name)).toBe(rank)
  })

  it.each([
    ['ncclKernel_AllReduce_RING_LL_Sum_float(ncclDevComm*, unsigned long, ncclWork*)', 'nccl', 'allReduce'],
    [
      'ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
      'nccl',
      'reduceScatter',
    ],
    ['ncclDevKernel_Generic(ncclDevKernelArgsStorage<4096ul>)', 'nccl', null],
    ['void deep_ep::internode_ll::dispatch<false, 3, 7168>(void*)', 'deep_ep', 'dispatch'],
    ['nvshmemi_barrier_on_stream', 'nvshmem', 'barrier'],
    ['iris_all_gather_kernel', 'iris', 'allGather'],
    ['void vllm::cross_device_reduce_1stage<__nv_bfloat16, 8>(vllm::RankData*)', 'vllm', 'allReduce'],
    ['void at::native::reduce_kernel<512, 1>(float)', null, 'reduce'],
    ['sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n', null, null],
  ])('of the kernel %s', (kernel, library, collective) => {
    expect(communicationLibrary(kernel)).toBe(library)
    expect(collectiveOf(kernel)).toBe(collective)
  })

  it.each<[string, Kind]>([
    ['cudaLaunchKernel', Kind.launch],
    ['cudaLaunchKernelExC', Kind.launch],
    ['cudaLaunchCooperativeKernel', Kind.launch],
    ['cuLaunchKernelEx', Kind.launch],
    ['cudaGraphLaunch', Kind.launch],
    ['hipExtModuleLaunchKernel', Kind.launch],
    ['hipExtLaunchKernel', Kind.launch],
    ['cudaMemcpyAsync', Kind.launch],
    ['hipMemsetAsync', Kind.launch],
    ['cudaMemcpy', Kind.synchronize],
    ['hipMemcpyWithStream', Kind.synchronize],
    ['cudaStreamSynchronize', Kind.synchronize],
    ['hipDeviceSynchronize', Kind.synchronize],
    ['cudaEventQuery', Kind.runtime],
    ['cudaStreamWaitEvent', Kind.runtime],
    ['cudaFuncSetAttribute', Kind.runtime],
  ])('of the call %s', (call, kind) => {
    expect(hostCallKind(call)).toBe(kind)
  })
})
