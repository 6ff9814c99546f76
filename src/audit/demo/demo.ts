/**
 * Generates the traces of `arke audit --demo`: three steps of a tensor-parallel transformer on 8 ranks, as a newcomer
 * would record them. Rank 5 is the straggler: in one layer its attention kernel is slow and its host dispatches kernels
 * with a delay. The clock of rank 3 is 3 ms ahead. `demoTruth` is the result that an audit must find.
 */
import type { Laid } from './laid.ts'
import { layOut } from './layout.ts'
import { truthOf, type Truth } from './truth.ts'
import { collective, copy, dependency, dispatch, gap, type Job, kernel, type PerRank } from './workload.ts'
import type { Operator, Phase } from './workload.ts'
import { kinetoTextOf, type WriteOptions } from './write.ts'

export const RANKS = 8
/** The straggler rank of the demo, and the layer in which it is slow. */
export const STRAGGLER = 5
const SLOW_LAYER = 2
/** The rank whose clock is ahead, and the offset of its clock in nanoseconds. */
export const AHEAD = 3
export const CLOCK_OFFSET = 3_000_000

export interface DemoOptions {
  seed?: number
  steps?: number
  layers?: number
  /** The unit of time in nanoseconds: all times of the demo are multiples of it. */
  unit?: number
  write?: WriteOptions
}

export interface DemoTrace {
  readonly rank: number
  /** The file name. */
  readonly name: string
  readonly text: string
}

export function demoTraces(options: DemoOptions = {}): DemoTrace[] {
  return tracesOf(layOut(demoJob(options)), options.write)
}

/** The result that a correct audit of the traces from `demoTraces(options)` finds. */
export const demoTruth = (options: DemoOptions = {}): Truth => truthOf(layOut(demoJob(options)))

export function tracesOf(laid: Laid, write: WriteOptions = {}): DemoTrace[] {
  const clockOffset = laid.ranks.map(({ rank }) => (rank === AHEAD ? CLOCK_OFFSET : 0))
  return laid.ranks.map(({ rank }) => ({
    rank,
    name: `rank${rank}.json`,
    text: kinetoTextOf(laid, rank, { clockOffset, ...write }),
  }))
}

const [TOKENS, HIDDEN, QKV, HEADS, FFN, VOCABULARY] = [4096, 8192, 1280, 1024, 3584, 16_032]
const bf16 = 'c10::BFloat16'
const gemm =
  'sm90_xmma_gemm_bf16bf16_bf16f32_f32_tn_n_tilesize128x128x64_warpgroupsize1x1x1_execute_segment_k_off_kernel__5x_cublas'
const elementwise = (functor: string): string =>
  `void at::native::vectorized_elementwise_kernel<4, at::native::${functor}, std::array<char*, 3ul> >(int, at::native::${functor}, std::array<char*, 3ul>)`
const norm =
  'void at::native::(anonymous namespace)::vectorized_layer_norm_kernel<c10::BFloat16, float, true>(int, float, c10::BFloat16 const*)'
const attention =
  'void flash::flash_fwd_kernel<Flash_fwd_kernel_traits<128, 128, 64, 4, false, false, cutlass::bfloat16_t>, false, true>(flash::Flash_fwd_params)'

const operator = (name: string, ...shapes: number[][]): Operator => ({
  name,
  shapes,
  types: shapes.map(() => bf16),
})
const mm = (k: number, n: number): Operator => operator('aten::mm', [TOKENS, k], [k, n])

export function demoJob({ seed = 7, steps = 3, layers = 4, unit = 1 }: DemoOptions = {}): Job {
  const draw = random(seed)
  /** Draws a random duration of about `time` for each rank. The straggler's duration is longer by `extra`. */
  const about = (time: number, extra = 0): PerRank =>
    Array.from(
      { length: RANKS },
      (_, rank) => Math.round((time * (1 + 0.02 * draw())) / unit) * unit + (rank === STRAGGLER ? extra : 0),
    )
  const pointwise = (name: string, functor: string, columns: number, time: number): Phase[] => [
    gap(about(1200)),
    kernel(elementwise(functor), about(time), {
      operator: operator(name, [TOKENS, columns], [TOKENS, columns]),
    }),
  ]
  /** Several small kernels in a row, such as the kernels of a router or a sampler. */
  const statistics = (): Phase[] =>
    ['exp', 'sum', 'div', 'mul', 'to', 'add'].flatMap((name) =>
      pointwise(`aten::${name}`, `${name}_kernel_cuda(at::TensorIteratorBase&)::{lambda(float)#1}`, 64, 3400),
    )
  const gathered = (): Phase[] => [
    dependency(about(1500)),
    collective('allGather', 0, 148_000, {
      stream: 1,
      elementsIn: (TOKENS / RANKS) * HIDDEN,
      elementsOut: TOKENS * HIDDEN,
      operator: operator('c10d::_allgather_base_', [TOKENS, HIDDEN], [TOKENS / RANKS, HIDDEN]),
    }),
    dependency(about(1500)),
  ]
  /**
   * Each rank holds the columns of its own attention heads. The gathered columns of all ranks are the first operand of
   * the matrix product.
   */
  const gatheredHeads = (): Phase[] => [
    dependency(about(1500)),
    collective('allGather', 0, 146_000, {
      stream: 1,
      elementsIn: TOKENS * HEADS,
      elementsOut: TOKENS * HIDDEN,
      operator: operator('c10d::_allgather_base_', [RANKS * TOKENS, HEADS], [TOKENS, HEADS]),
    }),
    dependency(about(1500)),
  ]
  /** An all-to-all changes the sharding from some columns of all tokens to all columns of some tokens. */
  const exchanged = (): Phase[] => [
    dependency(about(1500)),
    collective('allToAll', 0, 31_000, {
      stream: 1,
      elementsIn: TOKENS * HEADS,
      elementsOut: TOKENS * HEADS,
      operator: operator('c10d::alltoall_base_', [TOKENS / RANKS, HIDDEN], [TOKENS, HEADS]),
    }),
    dependency(about(1500)),
  ]
  const scattered = (): Phase[] => [
    dependency(about(1500)),
    collective('reduceScatter', 0, 152_000, {
      stream: 1,
      elementsIn: TOKENS * HIDDEN,
      elementsOut: (TOKENS / RANKS) * HIDDEN,
      operator: operator('c10d::_reduce_scatter_base_', [TOKENS / RANKS, HIDDEN], [TOKENS, HIDDEN]),
    }),
    dependency(about(1500)),
  ]
  /**
   * The operands of the layer normalisation are the rows, the list of normalised extents, weights, bias and epsilon.
   */
  const layerNorm: Operator = {
    name: 'aten::native_layer_norm',
    shapes: [[TOKENS / RANKS, HIDDEN], [], [HIDDEN], [HIDDEN], []],
    types: [bf16, 'ScalarList', bf16, bf16, 'Scalar'],
  }
  const normed = (): Phase => kernel(norm, about(9000), { operator: layerNorm })
  const layer = (index: number): Phase[] => {
    const slow = index === SLOW_LAYER
    return [
      normed(),
      ...gathered(),
      kernel(gemm, about(131_000), { operator: mm(HIDDEN, QKV) }),
      ...pointwise('aten::mul', 'BinaryFunctor<c10::BFloat16, MulFunctor<float> >', QKV, 10_400),
      ...pointwise('aten::add', 'CUDAFunctor_add<c10::BFloat16>', QKV, 10_600),
      dispatch(about(9000, slow ? 160_000 : 0)),
      kernel(attention, about(236_000, slow ? 410_000 : 0), {
        operator: operator('aten::_flash_attention_forward', [1, TOKENS, 8, 128], [1, TOKENS, 1, 128]),
      }),
      ...gatheredHeads(),
      kernel(gemm, about(104_000), { operator: mm(HIDDEN, HEADS) }),
      ...exchanged(),
      normed(),
      ...gathered(),
      kernel(gemm, about(368_000), { operator: mm(HIDDEN, FFN) }),
      ...pointwise('aten::silu', 'silu_kernel(at::TensorIteratorBase&)::{lambda(float)#1}', FFN, 19_800),
      ...pointwise('aten::mul', 'BinaryFunctor<c10::BFloat16, MulFunctor<float> >', FFN, 28_100),
      ...statistics(),
      gap(about(1100)),
      kernel(gemm, about(352_000), { operator: mm(FFN, HIDDEN) }),
      ...scattered(),
    ]
  }
  const step = (): Phase[] => [
    {
      phase: 'idle',
      host: [
        ['absent', about(26_000)],
        ['call', about(4000)],
        ['operator', about(18_000)],
      ],
    },
    copy('Memcpy HtoD (Pinned -> Device)', about(14_000), {
      bytes: TOKENS * 8,
      operator: { name: 'aten::copy_', shapes: [[TOKENS], [TOKENS]], types: ['long int', 'long int'] },
    }),
    gap(about(1400)),
    kernel(elementwise('embedding_kernel<c10::BFloat16>'), about(44_000), {
      operator: operator('aten::embedding', [128_256, HIDDEN], [TOKENS]),
    }),
    ...Array.from({ length: layers }, (_, index) => layer(index)).flat(),
    normed(),
    ...gathered(),
    // The output projection of the model hides part of an all-reduce of statistics.
    {
      phase: 'together',
      works: [
        { kind: 'kernel', name: gemm, duration: about(1_640_000), operator: mm(HIDDEN, VOCABULARY) },
        {
          kind: 'collective',
          collective: 'allReduce',
          group: 0,
          transfer: 348_000,
          stream: 1,
          offset: about(1_420_000),
          elementsIn: TOKENS * HIDDEN,
          elementsOut: TOKENS * HIDDEN,
          operator: operator('c10d::allreduce_', [TOKENS, HIDDEN]),
        },
      ],
    },
    {
      phase: 'idle',
      host: [
        ['item', about(31_000)],
        ['operator', about(12_000)],
      ],
    },
    kernel(elementwise('AUnaryFunctor<float, MulFunctor<float> >'), about(82_000), {
      operator: operator('aten::mul', [TOKENS, VOCABULARY]),
    }),
  ]
  return {
    ranks: RANKS,
    unit,
    groups: [
      { name: '0', description: 'default_pg', ranks: Array.from({ length: RANKS }, (_, rank) => rank) },
    ],
    steps: Array.from({ length: steps }, step),
    firstStep: 11,
  }
}

/** A pseudo-random generator of numbers from 0 (included) to 1 (excluded). The same seed gives the same numbers. */
function random(seed: number): () => number {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}
