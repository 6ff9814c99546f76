/** The cases (points) in which Flash Decode is tested and measured. The file ../points.ts defines a point. */
import { isCached } from '../../world/machine.ts'
import {
  powers,
  type Form,
  type GpuPoints,
  type LibraryPoints,
  type Points,
  type Setting,
} from '../points.ts'
import { drawing } from './drawn.ts'
import type { DecodeContents, FlashDecodeOptions, FlashDecodeShape, FlashDecodeVariant } from './index.ts'

const variants: readonly FlashDecodeVariant[] = [
  'bsp',
  'gather-kernel',
  'fine-grained',
  'fused-coarse',
  'fused',
]

/**
 * Together, the sets of options below cover every kernel: all variants, and the kernels that options select for `fused`.
 */
function forms({ machine }: Setting<FlashDecodeOptions>) {
  const { nearPeers } = machine.capabilities
  const plain = { owners: false, fetching: false, ...(nearPeers && { stealing: false }) }
  const all: Record<string, Form<FlashDecodeOptions>> = {}
  for (const variant of variants) all[variant] = { variant, ...plain }
  all['fused-owners'] = { ...plain, variant: 'fused', owners: true }
  all['fused-fetching'] = { ...plain, variant: 'fused', fetching: true }
  if (nearPeers) all['fused-stealing'] = { ...plain, variant: 'fused', stealing: true }
  return all
}

/**
 * The second set of test inputs has sequences that are shorter than the capacity, and empty sequences. Tokens beyond
 * the end of a sequence are NaN, so that reading one shows up in the result.
 */
function ragged(contents: DecodeContents, { batch, kvHeads, D, tokens }: FlashDecodeShape, round: number) {
  const lengthOf = (rank: number, entry: number): number =>
    Math.min([tokens, 5, 0, 16, 33, 1][(rank + 2 * entry + round) % 6], tokens)
  const lengths = contents.k.map((_, rank) =>
    Array.from({ length: batch }, (_, entry) => lengthOf(rank, entry)),
  )
  const cut = (of: ArrayLike<number>, rank: number): number[] =>
    Array.from(of, (x, at) => {
      const token = Math.floor(at / D) % tokens
      return token < lengths[rank][Math.floor(at / (D * tokens * kvHeads))] ? x : NaN
    })
  return { ...contents, lengths, k: contents.k.map(cut), v: contents.v.map(cut) }
}

/** The largest number of tokens, over all batch entries together, that fit into one rank's memory. */
const mostTokens = 2 * 2 ** 20
const quickCells = ['batch=1 KV=8K', 'batch=1 KV=64K', 'batch=16 KV=8K']

const libraries: LibraryPoints<FlashDecodeOptions> = {
  section: 'attend',
  title: 'Flash decode, one rank',
  extents: '32 query heads and 8 KV heads of 128 elements',
  variants: ['bsp', 'fused-coarse', 'fused'],
  cells: (quick) =>
    (quick ? [16384] : [16384, 131072]).map((tokens) => ({
      ...{ key: `KV=${tokens}`, ranks: 1, dtype: 'bf16' },
      shape: { batch: 1, queryHeads: 32, kvHeads: 8, D: 128, tokens },
    })),
  workOf: ({ queryHeads, kvHeads, D, tokens }) => ({
    do: 'attention',
    heads: queryHeads,
    kvHeads,
    D,
    tokens,
  }),
  goals: [
    { library: 'cuDNN', name: 'cuDNN', tier: 'B', least: 0.9 },
    { library: 'cuDNN', name: 'cuDNN', tier: 'C', least: 1 },
    { library: 'PyTorch flash', name: "PyTorch's flash attention", tier: 'C', least: 1 },
  ],
}

const gpu: GpuPoints<FlashDecodeOptions> = {
  section: 'decode',
  heading: 'Flash Decode, 96 query and 12 kv heads of 128, bf16, tokens per rank',
  alone: 'attention',
  floor: 'least work',
  tuned: ['bsp', 'fused-coarse', 'fused'],
  cells: (quick) =>
    [1, 4, 8, 16]
      .flatMap((batch) =>
        powers(8 * 1024, 512 * 1024, 2)
          .filter((tokens) => batch * tokens <= mostTokens)
          .map((tokens) => ({
            ...{ key: `batch=${batch} KV=${tokens / 1024}K`, ranks: 8, dtype: 'bf16' as const },
            shape: { batch, queryHeads: 96, kvHeads: 12, D: 128, tokens },
          })),
      )
      .filter(({ key }) => !quick || quickCells.includes(key)),
  scaling: (ranks) => [
    {
      ...{ key: `decode ranks=${ranks}`, ranks, dtype: 'bf16' },
      shape: { batch: 1, queryHeads: 96, kvHeads: 12, D: 128, tokens: (256 * 1024) / ranks },
    },
  ],
  // With the minimum traffic, every rank reads all its keys and values once.
  work: ({ ranks, shape: { batch, kvHeads, D, tokens } }) => ({
    bytes: ranks * 2 * 2 * batch * kvHeads * D * tokens,
    flops: 0,
  }),
  remoteBytes: ({ ranks, shape: { batch, queryHeads, D } }) => 4 * (ranks - 1) * batch * queryHeads * (D + 2),
  goal: ({ tokens }) => (tokens <= 32 * 1024 ? 'recover' : 'no slower'),
  drawing,
  libraries,
}

export const points: Points<FlashDecodeOptions, DecodeContents> = {
  forms,
  usual: {
    'tokens=4096': { batch: 2, queryHeads: 16, kvHeads: 2, D: 128, tokens: 4096 },
    'tokens=1001': { batch: 1, queryHeads: 64, kvHeads: 1, D: 128, tokens: 1001 },
  },
  cuts: (tiles, machine) => ({
    '': { ...tiles, splits: 1 },
    ...(!isCached(machine) && { 'even-shares': { ...tiles, splits: 0 } }),
  }),
  odd: [
    {
      shape: { batch: 2, queryHeads: 6, kvHeads: 2, D: 20, tokens: 37 },
      tiles: { BN: 16, stages: 2, splits: 2 },
    },
    {
      shape: { batch: 3, queryHeads: 1, kvHeads: 1, D: 7, tokens: 5 },
      tiles: { BN: 4, stages: 2, splits: 1 },
    },
  ],
  cpu: powers(256, 65536, 4).map((tokens) => ({
    name: `KV=${tokens}`,
    options: { shape: { batch: 1, queryHeads: 32, kvHeads: 8, D: 128, tokens } },
    // The other ranks need the partial results of a late rank. The other ranks can also compute the late rank's partial
    // results once it has begun, because its cache is then ready.
    without: () => 'its work',
  })),
  gpu,
  factor: 'v',
  contents: ragged,
}
