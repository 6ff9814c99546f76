/**
 * The pictures of docs/operations.md, one per variant. Rank 1 is late by the same time in all variants of an operation,
 * so that the variants can be compared. The times in the pictures are illustrative, not measured.
 */
import type { Block, Drawing, Lane, Message } from './drawing.ts'

const gap = 12
/** Returns consecutive blocks of equal length. */
function row(
  kind: Block['kind'],
  from: number,
  each: number,
  labels: readonly string[],
  track?: number,
): Block[] {
  return labels.map((label, i) => ({ kind, from: from + i * each, to: from + (i + 1) * each, label, track }))
}
const wait = (from: number, to: number, track?: number): Block => ({ kind: 'wait', from, to, track })
const products = ['own 0', 'own 1', 'peer 0', 'peer 1']
const [late, product, put] = [90, 45, 20]

const allGatherGemmLength = 340
const bsp = ((): Drawing => {
  const [gathered, multiply] = [late + 2 * put + 10, late + 2 * put + 10 + gap]
  const end = multiply + 4 * product
  const lane = (from: number): Lane => ({
    kernels: [
      { name: 'all-gather', from, to: gathered },
      { name: 'product', from: multiply, to: end },
    ],
    blocks: [
      ...(from < late ? [wait(from, late)] : []),
      ...row('copy', late, put, ['put 0', 'put 1']),
      wait(late + 2 * put, gathered),
      ...row('work', multiply, product, ['0', '1', '2', '3']),
    ],
  })
  const messages: Message[] = [
    { kind: 'flag', from: 0, at: 2, arrives: late + 1 },
    { kind: 'flag', from: 1, at: late, arrives: late + 3 },
    { kind: 'data', from: 0, at: late + put, arrives: late + put + 6, label: '0' },
    { kind: 'data', from: 1, at: late + 2 * put, arrives: late + 2 * put - 2, label: '1' },
    { kind: 'flag', from: 1, at: late + 2 * put + 3, arrives: gathered },
  ]
  return {
    title: 'All-Gather + GEMM, bulk synchronous',
    lanes: [lane(0), lane(late)],
    messages,
    length: allGatherGemmLength,
  }
})()
const bspEnds = { at: 332, label: 'bsp ends' }

const pull: Drawing = {
  title: 'All-Gather + GEMM, pull',
  lanes: [
    {
      kernels: [{ name: 'product that pulls', from: 0, to: 280 }],
      blocks: [
        ...row('work', 0, product, products.slice(0, 2)),
        wait(90, 95),
        ...row('work', 95, product, products.slice(2)),
        wait(185, 280),
      ],
    },
    {
      kernels: [{ name: 'product that pulls', from: late, to: 280 }],
      blocks: [...row('work', late, product, products), wait(270, 280)],
    },
  ],
  messages: [
    { kind: 'flag', from: 0, at: 2, arrives: late + 2 },
    { kind: 'flag', from: 1, at: late, arrives: 93 },
    { kind: 'data', from: 1, at: 101, arrives: 107, label: '0' },
    { kind: 'data', from: 1, at: 143, arrives: 149, label: '1' },
    { kind: 'data', from: 0, at: 182, arrives: 188, label: '0' },
    { kind: 'data', from: 0, at: 226, arrives: 232, label: '1' },
    { kind: 'flag', from: 1, at: 271, arrives: 276 },
  ],
  mark: bspEnds,
  length: allGatherGemmLength,
}

const push: Drawing = {
  title: 'All-Gather + GEMM, push',
  lanes: [
    {
      kernels: [
        { name: 'send', from: 0, to: 40 },
        { name: 'product', from: 52, to: 232 },
      ],
      blocks: [...row('copy', 0, put, ['put 0', 'put 1']), ...row('work', 52, product, products)],
    },
    {
      kernels: [
        { name: 'send', from: late, to: 130 },
        { name: 'product', from: 142, to: 322 },
      ],
      blocks: [...row('copy', late, put, ['put 0', 'put 1']), ...row('work', 142, product, products)],
    },
  ],
  messages: [
    { kind: 'tile', from: 0, at: 18, arrives: 24, label: '0' },
    { kind: 'tile', from: 0, at: 38, arrives: 44, label: '1' },
    { kind: 'tile', from: 1, at: late + 18, arrives: late + 24, label: '0' },
    { kind: 'tile', from: 1, at: late + 38, arrives: late + 44, label: '1' },
  ],
  mark: bspEnds,
  length: allGatherGemmLength,
}

const fused: Drawing = {
  title: 'All-Gather + GEMM, fused, with a team of senders',
  lanes: [
    {
      tracks: ['senders', 'multipliers'],
      kernels: [{ name: 'send and multiply', from: 0, to: 204 }],
      blocks: [
        ...row('copy', 0, put, ['put 0', 'put 1'], 0),
        ...row('work', 0, product, products.slice(0, 2), 1),
        wait(90, 114, 1),
        ...row('work', 114, product, products.slice(2), 1),
      ],
    },
    {
      tracks: ['senders', 'multipliers'],
      kernels: [{ name: 'send and multiply', from: late, to: 270 }],
      blocks: [...row('copy', late, put, ['put 0', 'put 1'], 0), ...row('work', late, product, products, 1)],
    },
  ],
  messages: [
    { kind: 'tile', from: 0, at: 18, arrives: 24, label: '0' },
    { kind: 'tile', from: 0, at: 38, arrives: 44, label: '1' },
    { kind: 'tile', from: 1, at: late + 18, arrives: late + 24, label: '0' },
    { kind: 'tile', from: 1, at: late + 38, arrives: late + 44, label: '1' },
  ],
  mark: bspEnds,
  length: allGatherGemmLength,
}

const decodeLength = 306
const decodeLate = 60
const attend = (from: number): Block[] => row('work', from, 60, ['attend 0', 'attend 1'])
const combine = (from: number): Block[] => row('work', from, 30, ['merge 0', 'merge 1'])
const both = (kind: Message['kind'], from: 0 | 1, at: number): Message[] => [
  { kind, from, at: at + 8, arrives: at + 12, label: '0' },
  { kind, from, at: at + 20, arrives: at + 24, label: '1' },
]
const puts = (from: number): Block[] => row('copy', from, 12, ['0', '1'])

const decodeBsp = ((): Drawing => {
  const lane = (from: number): Lane => ({
    kernels: [
      { name: 'attend', from, to: from + 120 },
      { name: 'all-gather', from: from + 132, to: 226 },
      { name: 'combine', from: 238, to: 298 },
    ],
    blocks: [
      ...attend(from),
      ...(from === 0 ? [wait(132, 192)] : []),
      ...puts(192),
      wait(216, 226),
      ...combine(238),
    ],
  })
  return {
    title: 'Flash Decode, bulk synchronous',
    lanes: [lane(0), lane(decodeLate)],
    messages: [
      { kind: 'flag', from: 0, at: 134, arrives: 193 },
      { kind: 'flag', from: 1, at: 192, arrives: 190 },
      { kind: 'data', from: 0, at: 202, arrives: 206, label: '0' },
      { kind: 'data', from: 1, at: 214, arrives: 212, label: '1' },
      { kind: 'flag', from: 1, at: 219, arrives: 222 },
    ],
    length: decodeLength,
  }
})()
const decodeEnds = { at: 298, label: 'bsp ends' }

const gatherKernel: Drawing = {
  title: 'Flash Decode, gather-kernel',
  lanes: [
    {
      kernels: [
        { name: 'attend', from: 0, to: 120 },
        { name: 'gather', from: 132, to: 224 },
        { name: 'combine', from: 236, to: 296 },
      ],
      blocks: [...attend(0), ...puts(132), wait(156, 224), ...combine(236)],
    },
    {
      kernels: [
        { name: 'attend', from: 60, to: 180 },
        { name: 'gather', from: 192, to: 218 },
        { name: 'combine', from: 230, to: 290 },
      ],
      blocks: [...attend(60), ...puts(192), ...combine(230)],
    },
  ],
  messages: [
    ...both('data', 0, 132),
    { kind: 'flag', from: 0, at: 157, arrives: 193 },
    ...both('data', 1, 192),
    { kind: 'flag', from: 1, at: 217, arrives: 222 },
  ],
  mark: decodeEnds,
  length: decodeLength,
}

const fineGrained: Drawing = {
  title: 'Flash Decode, fine-grained',
  lanes: [
    {
      kernels: [
        { name: 'attend', from: 0, to: 120 },
        { name: 'gather', from: 132, to: 156 },
        { name: 'combine', from: 168, to: 264 },
      ],
      blocks: [...attend(0), ...puts(132), wait(168, 204), ...combine(204)],
    },
    {
      kernels: [
        { name: 'attend', from: 60, to: 180 },
        { name: 'gather', from: 192, to: 216 },
        { name: 'combine', from: 228, to: 288 },
      ],
      blocks: [...attend(60), ...puts(192), ...combine(228)],
    },
  ],
  messages: [...both('tile', 0, 132), ...both('tile', 1, 192)],
  mark: decodeEnds,
  length: decodeLength,
}

const fusedCoarse: Drawing = {
  title: 'Flash Decode, fused-coarse',
  lanes: [
    {
      kernels: [{ name: 'attend, push, combine', from: 0, to: 246 }],
      blocks: [...attend(0), wait(120, 186), ...combine(186)],
    },
    {
      kernels: [{ name: 'attend, push, combine', from: 60, to: 242 }],
      blocks: [...attend(60), ...combine(182)],
    },
  ],
  messages: [
    { kind: 'data', from: 0, at: 60, arrives: 66, label: '0' },
    { kind: 'data', from: 0, at: 118, arrives: 124, label: '1' },
    { kind: 'flag', from: 0, at: 124, arrives: 136 },
    { kind: 'data', from: 1, at: 118, arrives: 112, label: '0' },
    { kind: 'data', from: 1, at: 176, arrives: 178, label: '1' },
    { kind: 'flag', from: 1, at: 181, arrives: 186 },
  ],
  mark: decodeEnds,
  length: decodeLength,
}

const decodeFused: Drawing = {
  title: 'Flash Decode, fused',
  lanes: [
    {
      kernels: [{ name: 'attend, push, combine', from: 0, to: 216 }],
      blocks: [
        ...attend(0),
        ...combine(126).slice(0, 1),
        wait(120, 126),
        wait(156, 186),
        ...combine(156).slice(1),
      ],
    },
    {
      kernels: [{ name: 'attend, push, combine', from: 60, to: 242 }],
      blocks: [...attend(60), ...combine(182)],
    },
  ],
  messages: [
    { kind: 'tile', from: 0, at: 60, arrives: 66, label: '0' },
    { kind: 'tile', from: 0, at: 118, arrives: 128, label: '1' },
    { kind: 'tile', from: 1, at: 120, arrives: 124, label: '0' },
    { kind: 'tile', from: 1, at: 178, arrives: 182, label: '1' },
  ],
  mark: decodeEnds,
  length: decodeLength,
}

const twoSlots: Drawing = {
  title: 'Two slots by the parity of the epoch',
  lanes: [
    {
      kernels: [
        { name: 'epoch 1', from: 0, to: 104 },
        { name: 'epoch 2', from: 116, to: 252 },
        { name: 'epoch 3', from: 264, to: 336 },
      ],
      blocks: [
        ...row('copy', 0, 24, ['slot 1']),
        wait(24, 88),
        ...row('work', 88, 16, ['read']),
        ...row('copy', 116, 24, ['slot 0']),
        wait(140, 236),
        ...row('work', 236, 16, ['read']),
        ...row('copy', 264, 24, ['slot 1']),
        wait(288, 336),
      ],
    },
    {
      kernels: [
        { name: 'epoch 1', from: 60, to: 196 },
        { name: 'epoch 2', from: 208, to: 336 },
      ],
      blocks: [
        ...row('copy', 60, 24, ['slot 1']),
        ...row('work', 84, 112, ['reads slot 1, slowly']),
        ...row('copy', 208, 24, ['slot 0']),
        ...row('work', 232, 104, ['reads slot 0']),
      ],
    },
  ],
  messages: [
    { kind: 'tile', from: 0, at: 20, arrives: 27, label: '1' },
    { kind: 'tile', from: 1, at: 80, arrives: 87, label: '1' },
    { kind: 'tile', from: 0, at: 136, arrives: 143, label: '0' },
    { kind: 'tile', from: 1, at: 228, arrives: 235, label: '0' },
    { kind: 'tile', from: 0, at: 284, arrives: 291, label: '1' },
  ],
  length: allGatherGemmLength,
}

const twoShot: Drawing = {
  title: 'All-reduce in two shots',
  lanes: [
    {
      kernels: [{ name: 'two-shot all-reduce', from: 0, to: 148 }],
      blocks: [
        ...row('copy', 0, 30, ['part 1']),
        wait(30, 96),
        ...row('work', 96, 30, ['sum 0']),
        ...row('copy', 126, 22, ['sum 0']),
      ],
    },
    {
      kernels: [{ name: 'two-shot all-reduce', from: 60, to: 156 }],
      blocks: [
        ...row('copy', 60, 30, ['part 0']),
        ...row('work', 90, 30, ['sum 1']),
        ...row('copy', 120, 22, ['sum 1']),
        wait(142, 156),
      ],
    },
  ],
  messages: [
    { kind: 'tile', from: 0, at: 26, arrives: 33, label: '1' },
    { kind: 'tile', from: 1, at: 86, arrives: 93, label: '0' },
    { kind: 'tile', from: 0, at: 146, arrives: 152, label: '0' },
    { kind: 'tile', from: 1, at: 134, arrives: 138, label: '1' },
  ],
  length: 300,
}

const scatterLength = 350
/** The tiles of the partial product in the order in which a rank computes them. */
const ordered = ['peer 0', 'own 0', 'peer 1', 'own 1']
const summing = (from: number, each: number, labels: readonly string[], track?: number): Block[] =>
  row('work', from, each, labels, track)

const scatterBsp = ((): Drawing => {
  const lane = (from: number): Lane => ({
    kernels: [
      { name: 'product', from, to: from + 180 },
      { name: 'reduce-scatter', from: from + 192, to: 340 },
    ],
    blocks: [
      ...row('work', from, product, ['0', '1', '2', '3']),
      ...(from === 0 ? [wait(192, 284)] : []),
      ...summing(284, 24, ['sum 0', 'sum 1']),
      wait(332, 340),
    ],
  })
  return {
    title: 'GEMM + Reduce-Scatter, bulk synchronous',
    lanes: [lane(0), lane(late)],
    messages: [
      { kind: 'flag', from: 0, at: 194, arrives: 285 },
      { kind: 'flag', from: 1, at: 282, arrives: 280 },
      { kind: 'data', from: 0, at: 290, arrives: 296, label: '0' },
      { kind: 'data', from: 1, at: 310, arrives: 308, label: '1' },
      { kind: 'flag', from: 1, at: 333, arrives: 337 },
    ],
    length: scatterLength,
  }
})()
const scatterEnds = { at: 340, label: 'bsp ends' }

/** The messages in which a rank sends its tiles of the peer's shard, given the ends of their products. */
const tilesOf = (from: 0 | 1, ends: readonly number[]): Message[] =>
  ends.map((at, tile) => ({ kind: 'tile', from, at, arrives: at + 6, label: String(tile) }))

const scatterPush: Drawing = {
  title: 'GEMM + Reduce-Scatter, push',
  lanes: [
    {
      kernels: [
        { name: 'multiply and send', from: 0, to: 180 },
        { name: 'sum', from: 192, to: 255 },
      ],
      blocks: [
        ...row('work', 0, product, ordered),
        ...summing(192, 24, ['sum 0']),
        wait(216, 231),
        ...summing(231, 24, ['sum 1']),
      ],
    },
    {
      kernels: [
        { name: 'multiply and send', from: late, to: 270 },
        { name: 'sum', from: 282, to: 330 },
      ],
      blocks: [...row('work', late, product, ordered), ...summing(282, 24, ['sum 0', 'sum 1'])],
    },
  ],
  messages: [...tilesOf(0, [43, 133]), ...tilesOf(1, [133, 223])],
  mark: scatterEnds,
  length: scatterLength,
}

const scatterAtomic: Drawing = {
  title: 'GEMM + Reduce-Scatter, atomic',
  lanes: [
    {
      kernels: [{ name: 'multiply, add, read', from: 0, to: 249 }],
      blocks: [
        ...row('work', 0, product, ordered),
        ...row('copy', 180, 18, ['read']),
        wait(198, 231),
        ...row('copy', 231, 18, ['read']),
      ],
    },
    {
      kernels: [{ name: 'multiply, add, read', from: late, to: 306 }],
      blocks: [...row('work', late, product, ordered), ...row('copy', 270, 18, ['read', 'read'])],
    },
  ],
  messages: [...tilesOf(0, [43, 133]), ...tilesOf(1, [133, 223])],
  mark: scatterEnds,
  length: scatterLength,
}

const scatterRing: Drawing = {
  title: 'GEMM + Reduce-Scatter, ring',
  lanes: [
    {
      kernels: [{ name: 'multiply and pass on', from: 0, to: 231 }],
      blocks: [
        ...row('work', 0, product, ['peer 0', 'peer 1']),
        wait(90, 141),
        ...row('work', 141, product, ['own 0', 'own 1']),
      ],
    },
    {
      kernels: [{ name: 'multiply and pass on', from: late, to: 270 }],
      blocks: row('work', late, product, ['peer 0', 'peer 1', 'own 0', 'own 1']),
    },
  ],
  messages: [...tilesOf(0, [43, 88]), ...tilesOf(1, [133, 178])],
  mark: scatterEnds,
  length: scatterLength,
}

const scatterFused: Drawing = {
  title: 'GEMM + Reduce-Scatter, fused, with a team of summers',
  lanes: [
    {
      tracks: ['multipliers', 'summers'],
      kernels: [{ name: 'multiply, send and sum', from: 0, to: 255 }],
      blocks: [
        ...row('work', 0, product, ordered, 0),
        wait(0, 141, 1),
        ...summing(141, 24, ['sum 0'], 1),
        wait(165, 231, 1),
        ...summing(231, 24, ['sum 1'], 1),
      ],
    },
    {
      tracks: ['multipliers', 'summers'],
      kernels: [{ name: 'multiply, send and sum', from: late, to: 294 }],
      blocks: [
        ...row('work', late, product, ordered, 0),
        wait(late, 180, 1),
        ...summing(180, 24, ['sum 0'], 1),
        wait(204, 270, 1),
        ...summing(270, 24, ['sum 1'], 1),
      ],
    },
  ],
  messages: [...tilesOf(0, [43, 133]), ...tilesOf(1, [133, 223])],
  mark: scatterEnds,
  length: scatterLength,
}

/** The pictures by file name in docs/images, without the file extension. */
export const pictures: Readonly<Record<string, Drawing>> = {
  'all-gather-gemm-bsp': bsp,
  'all-gather-gemm-pull': pull,
  'all-gather-gemm-push': push,
  'all-gather-gemm-fused': fused,
  'flash-decode-bsp': decodeBsp,
  'flash-decode-gather-kernel': gatherKernel,
  'flash-decode-fine-grained': fineGrained,
  'flash-decode-fused-coarse': fusedCoarse,
  'flash-decode-fused': decodeFused,
  'gemm-reduce-scatter-bsp': scatterBsp,
  'gemm-reduce-scatter-push': scatterPush,
  'gemm-reduce-scatter-atomic': scatterAtomic,
  'gemm-reduce-scatter-ring': scatterRing,
  'gemm-reduce-scatter-fused': scatterFused,
  'two-slots': twoSlots,
  'all-reduce-two-shot': twoShot,
}
