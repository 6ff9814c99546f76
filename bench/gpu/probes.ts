// The emitter's probes (test/cuda/probes.ts) on a device, each against what plain TypeScript computes.

import { lower } from '../../src/ir/stages.ts'
import type { Kernel, Meta } from '../../src/lang/kernel.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf } from '../../src/targets/cuda/emit/recipe.ts'
import { LaunchWorld, type HeapTensor, type LaunchArgument } from '../../src/targets/cuda/launch.ts'
import type { Device } from '../../src/targets/cuda/runtime.ts'
import { flashDecodeFused } from '../../src/ops/flashDecode/fused.ts'
import { attention, elements, teams, transposedGemm } from '../../test/cuda/probes.ts'
import { asNumbers, fromBits, randomBf16 } from './data.ts'
import { runForms } from './forms.ts'
import { runVariants } from './variants.ts'

type Judge = (what: string, right: boolean, figures: object) => void
type Arguments = Readonly<Record<string, LaunchArgument>>

function load(
  world: LaunchWorld,
  kernel: Pick<Kernel, 'record'>,
  args: Arguments,
  ranks = 1,
  meta: Meta = {},
) {
  const tensors = Object.fromEntries(
    Object.entries(args)
      .filter(
        (entry): entry is [string, HeapTensor] => typeof entry[1] === 'object' && entry[1].kind === 'tensor',
      )
      .map(([name, { shape }]) => [name, factsOf(shape)]),
  )
  return world.load(emitCuda(lower(kernel.record({ world: ranks, meta })), { tensors }))
}

export function runProbes(device: Device, judge: Judge): void {
  checkAttention(device, judge)
  checkTransposed(device, judge)
  checkElements(device, judge)
  checkTeams(device, judge)
  runForms(device, judge)
  runVariants(device, judge)
  for (const G of [64, 16, 8]) checkFlashDecode(device, judge, G)
}

function relative(out: ArrayLike<number>, reference: ArrayLike<number>): number {
  let error = 0
  let norm = 0
  for (let i = 0; i < reference.length; i++) {
    error += (out[i] - reference[i]) ** 2
    norm += reference[i] ** 2
  }
  return Math.sqrt(error / norm)
}

function checkAttention(device: Device, judge: Judge): void {
  const [rows, length, D] = [200, 333, 64]
  const world = new LaunchWorld(device, { ranks: 1, heapBytes: 1 << 20 })
  const tensor = (count: number): HeapTensor => world.tensor('bf16', [count, D])
  const args = { q: tensor(rows), k: tensor(length), v: tensor(length), out: tensor(rows) }
  const host = { q: randomBf16(rows * D), k: randomBf16(length * D), v: randomBf16(length * D) }
  world.write(args.q, 0, host.q)
  world.write(args.k, 0, host.k)
  world.write(args.v, 0, host.v)
  world.poison(args.out, 0)
  world.prepare(load(world, attention, args), args, 0).on(world.ranks[0].stream)
  const out = new Uint16Array(rows * D)
  world.read(args.out, 0, out)
  const [q, k, v] = [host.q, host.k, host.v].map(asNumbers)
  const reference = new Float64Array(rows * D)
  for (let i = 0; i < rows; i++) {
    const weights = Float64Array.from({ length }, (_, j) => {
      let dot = 0
      for (let d = 0; d < D; d++) dot += q[i * D + d] * k[j * D + d]
      return Math.exp(dot / 8)
    })
    const total = weights.reduce((sum, weight) => sum + weight, 0)
    for (let j = 0; j < length; j++)
      for (let d = 0; d < D; d++) reference[i * D + d] += (weights[j] / total) * v[j * D + d]
  }
  const error = relative(Float64Array.from(out, fromBits), reference)
  judge('attention: registers times shared, row reductions, masks', error < 1e-2, { error })
  world.close()
}

function checkTransposed(device: Device, judge: Judge): void {
  const [M, N, K] = [200, 136, 100]
  const world = new LaunchWorld(device, { ranks: 1, heapBytes: 1 << 20 })
  const args = {
    a: world.tensor('bf16', [K, M]),
    b: world.tensor('bf16', [K, N]),
    c: world.tensor('f32', [M, N]),
    sums: world.tensor('f32', [N]),
  }
  const [a, b] = [randomBf16(K * M), randomBf16(K * N)]
  world.write(args.a, 0, a)
  world.write(args.b, 0, b)
  world.poison(args.c, 0)
  world.write(args.sums, 0, new Float32Array(N))
  world.prepare(load(world, transposedGemm, args), args, 0).on(world.ranks[0].stream)
  const [out, sums] = [new Float32Array(M * N), new Float32Array(N)]
  world.read(args.c, 0, out)
  world.read(args.sums, 0, sums)
  const [x, y] = [asNumbers(a), asNumbers(b)]
  const reference = new Float64Array(M * N)
  const columns = new Float64Array(N)
  for (let k = 0; k < K; k++)
    for (let i = 0; i < M; i++)
      for (let j = 0; j < N; j++) reference[i * N + j] += x[k * M + i] * y[k * N + j]
  for (let i = 0; i < M; i++) for (let j = 0; j < N; j++) columns[j] += reference[i * N + j]
  const errors = { c: relative(out, reference), sums: relative(sums, columns) }
  judge('transposed gemm: f32 by the engine, column sums', errors.c < 1e-5 && errors.sums < 1e-4, errors)
  world.close()
}

function checkElements(device: Device, judge: Judge): void {
  const [count, grid, B] = [1000, 20, 256]
  const world = new LaunchWorld(device, { ranks: 1, heapBytes: 1 << 20 })
  const args = {
    x: world.tensor('f32', [count]),
    y: world.tensor('f32', [count]),
    total: world.tensor('f32', [3]),
    words: world.tensor('u32', [8]),
    turns: world.tensor('i32', [1]),
  }
  const x = Float32Array.from({ length: count }, () => Math.random() * 2 - 1)
  world.write(args.x, 0, x)
  world.poison(args.y, 0)
  world.write(args.total, 0, new Float32Array(3))
  world.write(args.words, 0, Uint32Array.of(0, 0, 0, 0, 0xffffffff, 0, 0, 0))
  world.write(args.turns, 0, new Int32Array(1))
  world.prepare(load(world, elements, args), args, 0, grid).on(world.ranks[0].stream)
  const [y, total, words, turns] = [
    new Float32Array(count),
    new Float32Array(3),
    new Uint32Array(8),
    new Int32Array(1),
  ]
  world.read(args.y, 0, y)
  world.read(args.total, 0, total)
  world.read(args.words, 0, words)
  world.read(args.turns, 0, turns)
  let worst = 0
  for (let i = 0; i < count; i++) {
    const mirrored = Math.floor(i / B) * B + (B - 1 - (i % B))
    const expected = x[i] + 2 * (mirrored < count ? x[mirrored] : 0)
    if (!(Math.abs(y[i] - expected) <= worst)) worst = Math.abs(y[i] - expected)
  }
  const sum = x.reduce((a, b) => a + b, 0)
  const xor = Array.from({ length: grid }, (_, i) => i).reduce((a, b) => a ^ b, 0)
  const padded = count % B === 0 ? [] : [0]
  const checks = {
    y: worst < 1e-6,
    sum: Math.abs(total[0] - sum) < 1e-3,
    max: total[1] === Math.max(0, ...x, ...padded),
    min: total[2] === Math.min(0, ...x, ...padded),
    add: words[0] === (grid * (grid + 1)) / 2,
    sub: words[1] === -grid >>> 0,
    or: words[2] === 2 ** grid - 1,
    xor: words[3] === xor >>> 0,
    and: words[4] === ~(2 ** grid - 1) >>> 0,
    xchg: words[5] === 7 && words[6] === 1,
    lock: words[7] === 0 && turns[0] === grid,
  }
  judge('elements: masks, atomics, a lock', Object.values(checks).every(Boolean), checks)
  world.close()
}

function checkTeams(device: Device, judge: Judge): void {
  const [ranks, B] = [2, 64]
  const world = new LaunchWorld(device, { ranks, heapBytes: 1 << 20 })
  const args = {
    x: world.tensor('f32', [B, B]),
    sum: world.tensor('f32', [B, B]),
    made: world.flags([ranks]),
  }
  for (let rank = 0; rank < ranks; rank++) {
    world.write(args.x, rank, new Float32Array(B * B))
    world.write(args.sum, rank, new Float32Array(B * B))
  }
  const loaded = load(world, teams, args, ranks)
  const launches = world.ranks.map((_, rank) => world.prepare(loaded, args, rank, 3))
  const seen: number[][] = []
  for (let launch = 0; launch < 3; launch++) {
    launches.forEach((one, rank) => one.on(world.ranks[rank].stream))
    world.synchronize()
    for (let rank = 0; rank < ranks; rank++) {
      const out = new Float32Array(B * B)
      world.read(args.sum, rank, out)
      seen.push([Math.min(...out), Math.max(...out)])
    }
  }
  // Each launch adds 1 + 2 + 3 + 4 to every element of x on every rank; sum collects x after each launch.
  const expected = [10, 10, 30, 30, 60, 60]
  const right = seen.every(([low, high], i) => low === expected[i] && high === expected[i])
  judge('teams: counted flags between ranks over three launches', right, { seen })
  world.close()
}

/** Ragged shards, empty ones included, over four launches, so that both slots of the inbox are used again. */
function checkFlashDecode(device: Device, judge: Judge, G: number): void {
  const [ranks, batch, heads, D, capacity] = [2, 3, 2, 128, 200]
  const world = new LaunchWorld(device, { ranks, heapBytes: 16 << 20 })
  const tiles = batch * heads
  const args = {
    q: world.tensor('bf16', [batch, heads, G, D]),
    k: world.tensor('bf16', [batch, heads, capacity, D]),
    v: world.tensor('bf16', [batch, heads, capacity, D]),
    lengths: world.tensor('i32', [batch]),
    out: world.tensor('bf16', [batch, heads, G, D]),
    inbox: world.tensor('f32', [2, ranks * tiles, G, D]),
    stats: world.tensor('f32', [2, ranks * tiles, 2, G]),
    arrived: world.flags([ranks, batch, heads]),
    done: world.flags([ranks]),
  }
  const loaded = load(world, flashDecodeFused, args, ranks, { G, D })
  const launches = world.ranks.map((_, rank) => world.prepare(loaded, args, rank, 5))
  const errors: number[] = []
  for (let launch = 0; launch < 4; launch++) {
    const q = randomBf16(tiles * G * D)
    const shards = world.ranks.map((_, rank) => {
      const lengths = Int32Array.of(rank === 0 ? 0 : 77, 200 - 60 * launch, launch === 3 ? 0 : 64 + rank)
      const [k, v] = [randomBf16(tiles * capacity * D), randomBf16(tiles * capacity * D)]
      world.write(args.q, rank, q)
      world.write(args.k, rank, k)
      world.write(args.v, rank, v)
      world.write(args.lengths, rank, lengths)
      world.poison(args.out, rank)
      return { lengths, k: asNumbers(k), v: asNumbers(v) }
    })
    launches.forEach((one, rank) => one.on(world.ranks[rank].stream))
    world.synchronize()
    const outs = world.ranks.map((_, rank) => {
      const out = new Uint16Array(tiles * G * D)
      world.read(args.out, rank, out)
      return out
    })
    const [x, reference, actual] = [
      asNumbers(q),
      new Float64Array(tiles * G * D),
      new Float64Array(tiles * G * D),
    ]
    for (let tile = 0; tile < tiles; tile++)
      for (let g = 0; g < G; g++) {
        const row = (tile * G + g) * D
        let total = 0
        for (const { lengths, k, v } of shards)
          for (let token = 0; token < lengths[Math.floor(tile / heads)]; token++) {
            const at = (tile * capacity + token) * D
            let dot = 0
            for (let d = 0; d < D; d++) dot += x[row + d] * k[at + d]
            const weight = Math.exp(dot * 0.08838834764831845)
            total += weight
            for (let d = 0; d < D; d++) reference[row + d] += weight * v[at + d]
          }
        for (let d = 0; d < D; d++) {
          reference[row + d] /= total || 1
          actual[row + d] = fromBits(outs[tile % ranks][row + d])
        }
      }
    errors.push(relative(actual, reference))
  }
  judge(
    `flash decode, fused, ${G} query heads a KV head`,
    errors.every((error) => error < 1e-2),
    { errors },
  )
  world.close()
}
