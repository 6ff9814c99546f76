// Products in every form that the emitter has, few rows, ragged windows and elements that change threads, on a device, each
// against float64. Outputs are poisoned before; so is what lies beyond the windows that a kernel may read.

import type { DotDType } from '../../src/ir/dtype.ts'
import { fusedKernel } from '../../src/ops/allGatherGemm/fused.ts'
import { pullKernel } from '../../src/ops/allGatherGemm/pullInPlace.ts'
import { pushKernels } from '../../src/ops/allGatherGemm/push.ts'
import { matrixProduct } from '../../src/ops/allGatherGemm/reference.ts'
import { attendKernel, bulkCombineKernel } from '../../src/ops/flashDecode/ladder.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import type { OperandDType } from '../../src/ops/operation.ts'
import type { Device } from '../../src/targets/cuda/runtime.ts'
import { moves, productOf } from '../../test/cuda/probes.ts'
import {
  attentionOf,
  Bench,
  bounds,
  product,
  randomNumbers,
  randomShard,
  relative,
  runAll,
  type Check,
  type Judge,
} from './probeBench.ts'

export function runForms(device: Device, judge: Judge): void {
  runAll([checkProducts, checkMoves, checkFewRows, checkDecode, checkAllGather], device, judge)
}

const transposed = (x: ArrayLike<number>, rows: number, columns: number): Float64Array =>
  Float64Array.from({ length: rows * columns }, (_, i) => x[(i % rows) * columns + Math.floor(i / rows)])

/** One tile, operands in shared memory, transposed there, or in registers. */
function checkProducts(device: Device, judge: Judge): Check[] {
  const places = ['shared', 'registers', 'transposed'] as const
  const cases: [DotDType, M: number, N: number, K: number, left: number, right: number][] = [
    ...[0, 1, 2].flatMap((left) =>
      [0, 1, 2].map((right): (typeof cases)[number] => ['bf16', 16, 32, 64, left, right]),
    ),
    ['bf16', 8, 16, 32, 0, 0],
    ['bf16', 8, 24, 16, 2, 2],
    ['f16', 1, 8, 16, 0, 0],
    ['f16', 5, 64, 128, 1, 2],
    ['bf16', 48, 40, 32, 0, 2],
    ['bf16', 32, 256, 64, 1, 0],
    ['bf16', 64, 64, 64, 1, 1],
    ['f16', 128, 64, 64, 0, 1],
    ['bf16', 20, 12, 10, 1, 1],
    ['bf16', 8, 64, 64, 0, 0],
    ['bf16', 24, 128, 32, 0, 0],
    ['f16', 16, 256, 128, 0, 2],
    ['bf16', 32, 64, 64, 2, 0],
    ['f16', 16, 64, 32, 2, 2],
    ['f16', 40, 192, 64, 0, 0],
    ['bf16', 56, 128, 256, 0, 2],
    ['f32', 64, 64, 32, 0, 0],
    ['f32', 20, 12, 10, 1, 2],
    ['f32', 1, 33, 7, 2, 1],
    ['i8', 16, 24, 32, 0, 2],
    ['i8', 64, 8, 48, 1, 0],
    ['f8e4m3', 16, 24, 32, 0, 0],
    ['f8e5m2', 64, 16, 16, 1, 2],
  ]
  return cases.map(([dtype, M, N, K, left, right]) => () => {
    const bench = new Bench(device, 1, 8 << 20)
    const [a, b] = [randomNumbers(dtype, M * K, 7 * M + N), randomNumbers(dtype, K * N, 5 * N + K)]
    const isTurned = (place: number): boolean => places[place] === 'transposed'
    bench
      .tensor('a', dtype, isTurned(left) ? [K, M] : [M, K])
      .tensor('b', dtype, isTurned(right) ? [N, K] : [K, N])
    bench.tensor('c', dtype === 'i8' ? 'i32' : 'f32', [M, N])
    bench.write('a', isTurned(left) ? transposed(a, M, K) : a)
    bench.write('b', isTurned(right) ? transposed(b, K, N) : b)
    const meta = { M, N, K, left: places[left], right: places[right] }
    bench.run([bench.load(productOf(dtype).record({ world: 1, meta }))], 1)
    const error = relative(bench.read('c'), matrixProduct(a, b, { M, N, K }))
    judge(`product ${dtype} ${M}x${N}x${K}, ${places[left]} x ${places[right]}`, error <= 1e-5, { error })
    bench.close()
  })
}

const checkMoves = (device: Device, judge: Judge): Check[] => [() => checkMove(device, judge)]

function checkMove(device: Device, judge: Judge): void {
  const [height, R, C, tiles] = [50, 32, 24, 3]
  const bench = new Bench(device, 1, 1 << 20)
  const x = randomNumbers('f32', height * C, 3)
  const rows = Array.from({ length: R * tiles }, (_, i) => (i * 17 + 5) % height)
  const before = randomNumbers('f32', C * tiles, 4)
  bench.tensor('x', 'f32', [height, C]).tensor('rows', 'i32', [R * tiles])
  bench.tensor('gathered', 'f32', [R * tiles, C]).tensor('scaled', 'f32', [R * tiles, R])
  bench
    .tensor('turned', 'f32', [C * tiles, R])
    .tensor('sums', 'f32', [C * tiles])
    .tensor('some', 'f32', [C * tiles])
  bench.write('x', x)
  bench.write('rows', rows)
  bench.write('sums', before)
  bench.write('some', new Float64Array(C * tiles))
  bench.run([bench.load(moves.record({ world: 1, meta: { R, C } }))], 2)
  const expected = {
    gathered: new Float64Array(R * tiles * C),
    scaled: new Float64Array(R * tiles * R),
    turned: new Float64Array(C * tiles * R),
    sums: new Float64Array(C * tiles),
    some: new Float64Array(C * tiles),
  }
  for (let tile = 0; tile < tiles; tile++) {
    const value = (r: number, c: number): number => x[rows[tile * R + r] * C + c]
    const square = matrixProduct(
      Float64Array.from({ length: R * C }, (_, i) => value(Math.floor(i / C), i % C)),
      Float64Array.from({ length: R * C }, (_, i) => value(i % R, Math.floor(i / R))),
      { M: R, N: R, K: C },
    )
    const sums = Float64Array.from({ length: R }, (_, r) =>
      square.subarray(r * R, (r + 1) * R).reduce((total, one) => total + one, 0),
    )
    for (let c = 0; c < C; c++) {
      for (let r = 0; r < R; r++) expected.sums[tile * C + c] += value(r, c)
      if (c % 2 === 0) expected.some[tile * C + C - 1 - c] = before[tile * C + c]
    }
    for (let r = 0; r < R; r++) {
      for (let c = 0; c < C; c++) {
        expected.gathered[(tile * R + r) * C + c] = value(r, c)
        expected.turned[(tile * C + c) * R + r] = value(r, c) * expected.sums[tile * C + c]
      }
      for (let s = 0; s < R; s++)
        expected.scaled[(tile * R + r) * R + s] = square[r * R + s] * sums[r] * sums[s]
    }
  }
  const errors = Object.fromEntries(
    Object.entries(expected).map(([name, reference]) => [name, relative(bench.read(name), reference)]),
  )
  judge(
    'moves: gathers, two layouts, transpose, masked copies',
    Object.values(errors).every((e) => e < 1e-5),
    errors,
  )
  bench.close()
}

function checkFewRows(device: Device, judge: Judge): Check[] {
  const cases: [OperandDType, number[], { BM: number; BN: number; BK: number; stages: number }][] = [
    ['bf16', [1, 520, 1000], { BM: 1, BN: 128, BK: 64, stages: 4 }],
    ['bf16', [8, 3584, 1024], { BM: 8, BN: 128, BK: 64, stages: 6 }],
    ['f16', [13, 200, 136], { BM: 16, BN: 64, BK: 32, stages: 3 }],
    ['bf16', [30, 129, 191], { BM: 32, BN: 128, BK: 64, stages: 4 }],
    ['bf16', [40, 264, 328], { BM: 16, BN: 256, BK: 64, stages: 4 }],
    ['bf16', [100, 136, 264], { BM: 48, BN: 128, BK: 64, stages: 4 }],
    ['bf16', [64, 520, 512], { BM: 64, BN: 128, BK: 64, stages: 6 }],
    ['f32', [20, 70, 50], { BM: 16, BN: 64, BK: 32, stages: 3 }],
    ['f32', [100, 136, 264], { BM: 64, BN: 64, BK: 32, stages: 3 }],
  ]
  return cases.map(([dtype, [M, N, K], meta]) => () => {
    const bench = new Bench(device, 1)
    bench.tensor('a', dtype, [M, K]).tensor('b', dtype, [K, N]).tensor('c', dtype, [M, N])
    const [a, b] = [randomNumbers(dtype, M * K, M), randomNumbers(dtype, K * N, N)]
    bench.write('a', a)
    bench.write('b', b)
    const loaded = bench.load(gemmKernel(dtype).record({ world: 1, meta }))
    bench.run([loaded])
    const error = relative(bench.read('c'), matrixProduct(a, b, { M, N, K }))
    const { registers, localBytes } = loaded.kernel
    judge(`gemm ${dtype} ${M}x${N}x${K}, tiles ${meta.BM}x${meta.BN}x${meta.BK}`, error < bounds[dtype], {
      error,
      registers,
      localBytes,
    })
    bench.close()
  })
}

/** Attention and combination on one rank. Beyond each batch entry's length the cache holds NaN. */
function checkDecode(device: Device, judge: Judge): Check[] {
  const [batch, heads, capacity] = [3, 2, 260]
  const lengths = [0, 77, 260]
  const cases: [OperandDType, G: number, D: number, BN: number, splits: number][] = [
    ['bf16', 8, 128, 64, 1],
    ['bf16', 16, 128, 64, 3],
    ['bf16', 8, 128, 128, 2],
    ['bf16', 1, 128, 64, 1],
    ['f16', 4, 64, 32, 2],
    ['f16', 12, 128, 64, 1],
    ['bf16', 24, 128, 64, 1],
    ['bf16', 64, 128, 64, 2],
    ['f32', 8, 128, 32, 2],
  ]
  return cases.map(([dtype, G, D, BN, splits]) => () => {
    const bench = new Bench(device, 1)
    const parts = splits * batch * heads
    bench.tensor('q', dtype, [batch, heads, G, D]).tensor('out', dtype, [batch, heads, G, D])
    bench.tensor('k', dtype, [batch, heads, capacity, D]).tensor('v', dtype, [batch, heads, capacity, D])
    bench.tensor('sums', 'f32', [1, parts, G, D]).tensor('stats', 'f32', [1, parts, 2, G])
    bench.tensor('lengths', 'i32', [batch])
    const q = randomNumbers(dtype, batch * heads * G * D, 1)
    const { k, v } = randomShard(dtype, lengths, { batch, heads, G, D, capacity }, 2)
    bench.write('q', q)
    bench.write('k', k)
    bench.write('v', v)
    bench.write('lengths', lengths)
    const scale = 1 / Math.sqrt(D)
    const attend = attendKernel(dtype).record({ world: 1, meta: { G, D, BN, splits, scale, stages: 2 } })
    const combine = bulkCombineKernel(dtype).record({ world: 1, meta: { G, D, splits } })
    bench.run([bench.load(attend), bench.load(combine)])
    const reference = attentionOf(q, [{ k, v, lengths }], { batch, heads, G, D, capacity })
    const error = relative(bench.read('out'), reference)
    judge(`decode ${dtype} G=${G} D=${D} BN=${BN} splits=${splits}`, error < bounds[dtype], { error })
    bench.close()
  })
}

/** Few rows over two ranks, three launches each. K of a rank is no multiple of BK. */
function checkAllGather(device: Device, judge: Judge): Check[] {
  const ranks = 2
  const meta = { BM: 16, BN: 128, BK: 64, stages: 4, aligned: false }
  const { BM, BK } = meta
  const cases = (['bf16', 'f16'] as const).flatMap((dtype) =>
    (['K', 'M'] as const).flatMap((shard) =>
      (['pull', 'push', 'fused'] as const).map((variant) => ({ dtype, shard, variant })),
    ),
  )
  return cases.map(({ dtype, shard, variant }) => () => {
    const [M, N, K] = shard === 'K' ? [8, 392, 272] : [40, 392, 264]
    const local = shard === 'K' ? [M, K / ranks] : [M / ranks, K]
    const bench = new Bench(device, ranks)
    bench.tensor('a', dtype, local).tensor('b', dtype, [K, N]).tensor('c', dtype, [M, N])
    bench.tensor('inbox', dtype, [2, ranks, ...local])
    bench.flags('arrived', [ranks, Math.ceil(local[0] / BM), Math.ceil(local[1] / BK)])
    bench.flags('ready', [ranks]).flags('done', [ranks])
    bench.args.rows = M
    const push = pushKernels({ dtype, shard })
    const kernels = {
      pull: () => [pullKernel({ dtype, shard }).record({ world: ranks, meta })],
      push: () => [
        push.send.record({ world: ranks, meta: { BM, BK } }),
        push.multiply.record({ world: ranks, meta }),
      ],
      fused: () => [fusedKernel({ dtype, shard }).record({ world: ranks, meta: { ...meta, senders: 0 } })],
    }
    const loaded = kernels[variant]().map((ir) => bench.load(ir))
    const errors: number[] = []
    for (let launch = 0; launch < 3; launch++) {
      const a = randomNumbers(dtype, M * K, launch + 1)
      const bs = [0, 1].map((rank) => randomNumbers(dtype, K * N, launch * 8 + rank + 50))
      for (let rank = 0; rank < ranks; rank++) {
        bench.write(
          'a',
          Float64Array.from({ length: product(local) }, (_, i) => {
            const [row, column] = [Math.floor(i / local[1]), i % local[1]]
            return shard === 'K'
              ? a[row * K + rank * local[1] + column]
              : a[(rank * local[0] + row) * K + column]
          }),
          rank,
        )
        bench.write('b', bs[rank], rank)
        bench.poison('c', rank)
      }
      bench.run(loaded, 4)
      for (let rank = 0; rank < ranks; rank++)
        errors.push(relative(bench.read('c', rank), matrixProduct(a, bs[rank], { M, N, K })))
    }
    const right = errors.every((error) => error < bounds[dtype])
    judge(`all-gather GEMM ${variant} ${shard} ${dtype} ${M}x${N}x${K}`, right, {
      worst: Math.max(...errors),
    })
    bench.close()
  })
}
