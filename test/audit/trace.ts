/**
 * Generates traces in the format of PyTorch's profiler, from a seed. Times are drawn in nanoseconds and written as
 * decimal text without floating point, so the expected times are known exactly.
 */

export function random(seed: number): (below: number) => number {
  let state = seed >>> 0
  return (below) => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return Math.floor((((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32) * below)
  }
}

/** Formats nanoseconds as decimal microseconds. */
export function microseconds(nanoseconds: bigint): string {
  const size = nanoseconds < 0n ? -nanoseconds : nanoseconds
  const fraction = String(size % 1000n).padStart(3, '0')
  return `${nanoseconds < 0n ? '-' : ''}${size / 1000n}${fraction === '000' ? '' : `.${fraction}`}`
}

export interface MadeEvent {
  readonly category: 'kernel' | 'gpu_memcpy' | 'cuda_runtime' | 'cpu_op' | 'python_function'
  readonly name: string
  readonly start: bigint
  readonly duration: bigint
  readonly correlation?: number
  readonly externalId?: number
}

export interface TraceShape {
  seed?: number
  /** The number of kernels. Each kernel has an operator, a launch, and Python function events around it. */
  kernels?: number
  python?: number
  compact?: boolean
  rank?: number
  start?: bigint
}

const kernels = [
  'void at::native::vectorized_elementwise_kernel<4, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul> >(int, at::native::BinaryFunctor<float, float, float, at::native::binary_internal::MulFunctor<float> >, std::array<char*, 3ul>)',
  'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas',
  'void cutlass::Kernel2<cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8>(cutlass_80_wmma_tensorop_bf16_s161616gemm_bf16_16x16_128x2_tn_align8::Params)',
  'ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)',
]
const operators = ['aten::mm', 'aten::add', 'aten::native_layer_norm', 'c10d::allreduce_', 'odd "name" \\ é']

export function makeTrace(shape: TraceShape = {}): { text: string; events: MadeEvent[] } {
  const { seed = 1, kernels: count = 100, python = 3, compact = false, rank = 0 } = shape
  const draw = random(seed)
  let now = shape.start ?? 4_458_676_416_431_397n
  let device = now
  const events: MadeEvent[] = []
  const written: string[] = []
  const write = (event: MadeEvent, process: number, thread: number, args: string[]): void => {
    events.push(event)
    const fields = [
      `"ph": "X", "cat": "${event.category}", "name": ${JSON.stringify(event.name)}, "pid": ${process}, "tid": ${thread}`,
      `"ts": ${microseconds(event.start)}, "dur": ${microseconds(event.duration)}`,
      `"args": {\n      ${args.join(', ')}\n    }`,
    ]
    written.push(`  {\n    ${fields.join(',\n    ')}\n  }`)
  }
  for (let i = 0; i < count; i++) {
    const correlation = 1000 + i
    const externalId = 1 + i
    const operatorSpan = BigInt(5000 + draw(20_000))
    for (let j = 0; j < python; j++)
      write(
        {
          category: 'python_function',
          name: `torch/nn/modules/module.py(${1500 + draw(300)}): _call_impl`,
          start: now,
          duration: operatorSpan + BigInt(python - j),
        },
        7,
        7,
        [`"Python parent id": ${i * 3 + j}, "Python id": ${i * 3 + j + 1}, "Ev Idx": ${i * 5 + j}`],
      )
    const operator = operators[draw(operators.length)]
    write({ category: 'cpu_op', name: operator, start: now, duration: operatorSpan, externalId }, 7, 7, [
      `"External id": ${externalId},"Record function id": 0, "Input Dims": [[${draw(4096)}, 1024], [1024, 1024], []]`,
      `"Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"], "Ev Idx": ${i}`,
    ])
    const copy = draw(8) === 0
    const call = now + BigInt(1000 + draw(1000))
    write(
      {
        category: 'cuda_runtime',
        name: copy ? 'cudaMemcpyAsync' : 'cudaLaunchKernel',
        start: call,
        duration: BigInt(2000 + draw(2000)),
        correlation,
        externalId,
      },
      7,
      7,
      [`"External id": ${externalId}, "cbid": 211, "correlation": ${correlation}`],
    )
    const enqueued = call + 3000n
    device = (device > enqueued ? device : enqueued) + BigInt(draw(1500))
    const duration = BigInt(1000 + draw(30_000))
    const name = copy ? 'Memcpy HtoD (Pinned -> Device)' : kernels[draw(kernels.length)]
    const args = [
      `"External id": ${externalId}, "queued": 0, "device": 0, "context": 1, "stream": 7, "correlation": ${correlation}`,
      '"registers per thread": 40, "shared memory": 400, "blocks per SM": 4.740741, "warps per SM": 75.851852',
      '"grid": [512, 1, 1], "block": [512, 1, 1], "est. achieved occupancy %": 75',
    ]
    if (name.startsWith('nccl'))
      args.push(
        `"Collective name": "allreduce", "In msg nelems": 4096, "Out msg nelems": 4096, "Group size": 2, "dtype": "BFloat16"`,
        `"Process Group Name": "0", "Process Group Description": "default_pg", "Process Group Ranks": "[0, 1]", "Seq": ${i}`,
      )
    const category = copy ? 'gpu_memcpy' : 'kernel'
    write({ category, name, start: device, duration, correlation, externalId }, 0, 7, args)
    written.push(
      `  {\n    "ph": "f", "id": ${correlation}, "pid": 0, "tid": 7, "ts": ${microseconds(device)}, "cat": "ac2g", "name": "ac2g", "bp": "e"\n  }`,
    )
    device += duration
    now += operatorSpan + BigInt(draw(3000))
  }
  const text =
    `{\n  "schemaVersion": 1,\n  "deviceProperties": [{ "id": 0, "name": "NVIDIA H100", "numSms": 132 }],\n` +
    `  "distributedInfo": {"backend": "nccl", "rank": ${rank}, "world_size": 2},\n  "metadata": {"nested": [{"ph": {}}]},\n` +
    `  "traceEvents": [\n${written.join(',\n')}\n  ],\n  "traceName": "trace.json",\n  "displayTimeUnit": "ms",\n` +
    `  "baseTimeNanoseconds": 1711964646000000000\n}\n`
  return { text: compact ? text.replace(/\n */g, '') : text, events }
}
