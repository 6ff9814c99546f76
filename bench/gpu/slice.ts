// Emitted CUDA on a device, end to end: right against a float64 reference, and fast against cuBLAS in the same process.
//
//   npx tsx bench/gpu/slice.ts [gemm|probes|bench|gather]…      all parts by default; needs a GPU of the Hopper family
//
// On a machine without Node: bundle this file (esbuild --bundle --platform=node --format=esm --external:koffi) beside
// node_modules/koffi and node_modules/@koromix. Writes $OUT/slice.json, or prints it.

import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { KernelIR } from '../../src/ir/node.ts'
import { lower } from '../../src/ir/stages.ts'
import { allGatherGemmPull } from '../../src/ops/allGatherGemm/pull.ts'
import { publish } from '../../src/ops/allGatherGemm/publish.ts'
import { gemm } from '../../src/ops/gemm.ts'
import { emitCuda } from '../../src/targets/cuda/emit/emit.ts'
import { factsOf } from '../../src/targets/cuda/emit/recipe.ts'
import { LaunchWorld, type HeapTensor, type LaunchArgument } from '../../src/targets/cuda/launch.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { cublas, cublasLt } from './cublas.ts'
import { asNumbers, compareGemm, isRight, median, randomBf16, type Difference } from './data.ts'
import { runProbes } from './probes.ts'

const device = Device.open(0)
console.log(`${device.name}, ${device.sms} multiprocessors`)
const results: Record<string, unknown> = { device: device.name, sms: device.sms }
let failures = 0

function judge(what: string, right: boolean, figures: object): void {
  if (!right) failures++
  console.log(`${right ? 'right' : 'WRONG'}  ${what}  ${JSON.stringify(figures)}`)
}
const judgeGemm = (what: string, difference: Difference): void => judge(what, isRight(difference), difference)

function load(world: LaunchWorld, ir: KernelIR, args: Readonly<Record<string, LaunchArgument>>) {
  const tensors: Record<string, ReturnType<typeof factsOf>> = {}
  for (const [name, argument] of Object.entries(args))
    if (typeof argument === 'object' && argument.kind === 'tensor') tensors[name] = factsOf(argument.shape)
  return world.load(emitCuda(lower(ir), { tensors }))
}

const configs = [
  { BM: 128, BN: 256, BK: 64, stages: 4 },
  { BM: 128, BN: 128, BK: 64, stages: 6 },
  { BM: 64, BN: 64, BK: 32, stages: 3 },
]

/** Shapes with edges, aligned rows and not, for every configuration. */
function checkGemm(): void {
  const shapes = [
    [128, 256, 64],
    [200, 264, 328],
    [64, 8, 8],
    [1, 520, 1000],
    [257, 129, 191],
    [33, 41, 37],
    [1000, 776, 1096],
  ]
  for (const [M, N, K] of shapes) {
    const world = new LaunchWorld(device, { ranks: 1, heapBytes: 2 * (M * K + K * N + M * N) + 8192 })
    const args = {
      a: world.tensor('bf16', [M, K]),
      b: world.tensor('bf16', [K, N]),
      c: world.tensor('bf16', [M, N]),
    }
    const [a, b] = [randomBf16(M * K), randomBf16(K * N)]
    world.write(args.a, 0, a)
    world.write(args.b, 0, b)
    const [x, y] = [asNumbers(a), asNumbers(b)]
    for (const meta of configs) {
      const loaded = load(world, gemm.record({ world: 1, meta }), args)
      world.poison(args.c, 0)
      const launch = world.prepare(loaded, args, 0)
      launch.on(world.ranks[0].stream)
      const out = new Uint16Array(M * N)
      world.read(args.c, 0, out)
      const { registers, localBytes } = loaded.kernel
      judgeGemm(
        `gemm ${M}x${N}x${K} tiles ${meta.BM}x${meta.BN}x${meta.BK}, ${registers} registers, ${localBytes} local bytes`,
        compareGemm(out, [M, N, K], (row, k) => x[row * K + k], y),
      )
      launch.close()
    }
    world.close()
  }
}

/** 4096^3 against cuBLAS: batches interleaved, inputs over more than the L2. */
function benchGemm(): void {
  const [M, N, K, SETS, BATCH, ROUNDS] = [4096, 4096, 4096, 4, 8, 25]
  const bytes = 2 * (M * K + K * N + M * N)
  const world = new LaunchWorld(device, { ranks: 1, heapBytes: SETS * bytes + (1 << 20) })
  const { stream } = world.ranks[0]
  const sets = Array.from({ length: SETS }, () => {
    const args = {
      a: world.tensor('bf16', [M, K]),
      b: world.tensor('bf16', [K, N]),
      c: world.tensor('bf16', [M, N]),
    }
    const host = { a: randomBf16(M * K), b: randomBf16(K * N) }
    world.write(args.a, 0, host.a)
    world.write(args.b, 0, host.b)
    const at = (tensor: HeapTensor): bigint => world.addressOf(tensor, 0)
    return { args, host, operands: { a: at(args.a), b: at(args.b), c: at(args.c) } }
  })
  const blas = cublas(device)
  const lt = cublasLt(device, stream, M, N, K, sets[0].operands)
  const runs: [string, (set: number) => void][] = [
    ['cuBLAS', (i) => blas(stream, sets[i].operands, M, N, K)],
    ['cuBLASLt, best proposal', (i) => lt(sets[i].operands)],
  ]
  for (const meta of configs.slice(0, 2)) {
    const loaded = load(world, gemm.record({ world: 1, meta }), sets[0].args)
    const launches = sets.map(({ args }) => world.prepare(loaded, args, 0))
    runs.push([`arke ${meta.BM}x${meta.BN}x${meta.BK}`, (i) => launches[i].on(stream)])
  }
  const [{ host, args }] = sets
  const [x, y] = [asNumbers(host.a), asNumbers(host.b)]
  const out = new Uint16Array(M * N)
  for (const [name, run] of runs) {
    world.poison(args.c, 0)
    run(0)
    world.read(args.c, 0, out)
    const rows = [0, 1, 777, 2048, 3333, M - 1]
    judgeGemm(
      `${name} ${M}x${N}x${K}`,
      compareGemm(out, [M, N, K], (row, k) => x[row * K + k], y, rows),
    )
  }
  const times = new Map(runs.map(([name]) => [name, [] as number[]]))
  const [begin, end] = [stream.createEvent(), stream.createEvent()]
  for (const [, run] of runs) for (let i = 0; i < SETS; i++) run(i)
  for (let round = 0; round < ROUNDS; round++)
    for (let j = 0; j < runs.length; j++) {
      const [name, run] = runs[(j + round) % runs.length]
      run(0)
      begin.record()
      for (let i = 0; i < BATCH; i++) run((i + 1) % SETS)
      end.record()
      end.synchronize()
      times.get(name)!.push(end.millisecondsSince(begin) / BATCH)
    }
  const vendor = Math.min(...runs.slice(0, 2).map(([name]) => median(times.get(name)!)))
  const table = [...times].map(([name, all]) => {
    const ms = median(all)
    const tflops = (time: number): number => Number(((2 * M * N * K) / time / 1e9).toFixed(1))
    return {
      name,
      us: Number((ms * 1000).toFixed(1)),
      tflops: tflops(ms),
      slowest: tflops(Math.max(...all)),
      ofVendor: Number((vendor / ms).toFixed(3)),
    }
  })
  console.table(table)
  results.bench = { shape: [M, N, K], rounds: ROUNDS, batch: BATCH, sets: SETS, table }
  world.close()
}

/** All-gather and GEMM on virtual ranks: several launches, one rank late. One GPU, no link. */
function checkGather(
  world: number,
  [M, N, shard]: readonly number[],
  launches: number,
  timed: boolean,
): void {
  const K = shard * world
  const ranks = Array.from({ length: world }, (_, rank) => rank)
  const heap = new LaunchWorld(device, {
    ranks: world,
    heapBytes: 2 * (2 * M * shard + K * N + M * N + M * K) + (1 << 20),
  })
  const args = {
    source: heap.tensor('bf16', [M, shard]),
    a: heap.tensor('bf16', [M, shard]),
    b: heap.tensor('bf16', [K, N]),
    c: heap.tensor('bf16', [M, N]),
    ready: heap.flags(),
    done: heap.flags([world]),
  }
  const meta = { slices: Math.ceil(shard / 64) }
  const publishing = load(heap, publish.record({ world }), args)
  const fusing = load(heap, allGatherGemmPull.record({ world, meta }), args)
  const publishes = ranks.map((rank) => heap.prepare(publishing, args, rank))
  const fuses = ranks.map((rank) => heap.prepare(fusing, args, rank))
  const start = (rank: number): void => {
    publishes[rank].on(heap.ranks[rank].stream)
    fuses[rank].on(heap.ranks[rank].stream)
  }
  for (let launch = 0; launch < launches; launch++) {
    const sources = ranks.map(() => randomBf16(M * shard))
    const bs = ranks.map(() => randomBf16(K * N))
    for (const rank of ranks) {
      heap.write(args.source, rank, sources[rank])
      heap.write(args.b, rank, bs[rank])
      heap.poison(args.c, rank)
    }
    const late = launch % world
    for (const rank of ranks) if (rank !== late) start(rank)
    const until = performance.now() + 3
    while (performance.now() < until);
    const waited = ranks.filter((rank) => rank !== late).every((rank) => !heap.ranks[rank].stream.isIdle())
    start(late)
    heap.synchronize()
    const gathered = sources.map(asNumbers)
    for (const rank of ranks) {
      const out = new Uint16Array(M * N)
      heap.read(args.c, rank, out)
      const rows = M * N * K < 1e9 ? undefined : [0, 1, 100 + launch, M >> 1, M - 1]
      const difference = compareGemm(
        out,
        [M, N, K],
        (row, k) => gathered[Math.floor(k / shard)][row * shard + (k % shard)],
        asNumbers(bs[rank]),
        rows,
      )
      judgeGemm(
        `all-gather GEMM ${M}x${N}x(${world}x${shard}) launch ${launch} rank ${rank}, others waited: ${waited}`,
        difference,
      )
    }
  }
  if (timed) timeGather(heap, args, [M, N, K], start, ranks)
  heap.close()
}

/** The fused kernel against the same GEMM, and cuBLASLt's, on data already gathered, on the same multiprocessors. */
function timeGather(
  heap: LaunchWorld,
  args: Readonly<Record<'b' | 'c', HeapTensor>>,
  [M, N, K]: readonly number[],
  fused: (rank: number) => void,
  ranks: readonly number[],
): void {
  const whole = { a: heap.tensor('bf16', [M, K]), b: args.b, c: args.c }
  for (const rank of ranks) heap.write(whole.a, rank, randomBf16(M * K))
  const plain = load(heap, gemm.record({ world: 1 }), whole)
  const plains = ranks.map((rank) => heap.prepare(plain, whole, rank))
  const vendors = ranks.map((rank) => {
    const at = (tensor: HeapTensor): bigint => heap.addressOf(tensor, rank)
    const operands = { a: at(whole.a), b: at(whole.b), c: at(whole.c) }
    const run = cublasLt(device, heap.ranks[rank].stream, M, N, K, operands)
    return () => run(operands)
  })
  const variants: [string, (rank: number) => void][] = [
    ['publish and fused pull', fused],
    ['arke gemm, gathered', (rank) => plains[rank].on(heap.ranks[rank].stream)],
    ['cuBLASLt, gathered', (rank) => vendors[rank]()],
  ]
  const times = new Map(variants.map(([name]) => [name, [] as number[]]))
  const events = ranks.map((rank) => {
    const { stream } = heap.ranks[rank]
    return { begin: stream.createEvent(), end: stream.createEvent() }
  })
  for (let round = 0; round < 23; round++)
    for (const [name, run] of variants) {
      for (const rank of ranks) {
        events[rank].begin.record()
        run(rank)
        events[rank].end.record()
      }
      heap.synchronize()
      if (round > 2)
        times.get(name)!.push(Math.max(...events.map(({ begin, end }) => end.millisecondsSince(begin))))
    }
  const table = [...times].map(([name, all]) => ({ name, us: Number((median(all) * 1000).toFixed(1)) }))
  console.log('one GPU, no link; events on each rank, no common start: indicative')
  console.table(table)
  results.gather = { shape: [M, N, K], ranks: ranks.length, table }
}

const parts: Record<string, () => void> = {
  gemm: checkGemm,
  probes: () => runProbes(device, judge),
  bench: benchGemm,
  gather: () => {
    checkGather(2, [300, 264, 136], 4, false)
    checkGather(2, [4096, 4096, 2048], 3, true)
  },
}
const asked = process.argv.slice(2)
for (const part of asked.length > 0 ? asked : Object.keys(parts)) {
  const begun = performance.now()
  parts[part]()
  console.log(`${part}: ${((performance.now() - begun) / 1000).toFixed(1)} s`)
}
results.failures = failures
if (process.env.OUT) writeFileSync(join(process.env.OUT, 'slice.json'), JSON.stringify(results, undefined, 2))
console.log(`${failures} failures`)
process.exit(failures > 0 ? 1 : 0)
