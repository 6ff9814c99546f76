/**
 * Measures matrix products on one thread and one core, f32 (GEMV also bf16), compared with OpenBLAS and the WebAssembly
 * libraries of the JavaScript ecosystem:
 *
 *   npx tsx bench/cpu/products.ts [--only square|skinny|vector] [--rounds N] [--json]
 *
 * The benchmark omits libraries that are not installed and prints the reason.
 */
import { openWorld } from '../../src/world/open.ts'
import type { PackedTensor, SymmetricTensor, World } from '../../src/world/world.ts'
import { gemmKernel } from '../../src/ops/gemm.ts'
import { gemmTiles } from '../../src/ops/tiles.ts'
import { present, type Figure } from '../measure.ts'
import { stayOnOneCore } from './core.ts'
import { allPeers, openBlas, type Peer } from './peers.ts'
import { again, race, speed, type Contestant } from './race.ts'
import { plainRead } from './read.ts'

const argument = (name: string): string | undefined => {
  const at = process.argv.indexOf(`--${name}`)
  return at < 0 ? undefined : process.argv[at + 1]
}
const only = argument('only')
const rounds = Number(argument('rounds') ?? 41)
const say = (text: string): void => void process.stderr.write(`${text}\n`)

const random = (count: number): Float32Array =>
  Float32Array.from({ length: count }, () => Math.random() - 0.5)

interface Ours extends Contestant {
  result(): Promise<Float64Array>
}

/**
 * Arke's matrix product of one shape on one worker of a target. If `packed` is true, B is packed once before the
 * measurement.
 */
async function ours(
  world: World,
  [m, n, k]: readonly [number, number, number],
  a: Float32Array,
  b: Float32Array,
  { packed = false, dtype = 'f32' as 'f32' | 'bf16' } = {},
): Promise<Ours> {
  const kernel = gemmKernel(dtype)
  const [left, right] = [world.from(dtype, [m, k], a), world.from(dtype, [k, n], b)]
  const product = world.full(dtype, [m, n], NaN)
  const weights: SymmetricTensor<typeof dtype> | PackedTensor<typeof dtype> = packed
    ? await world.pack(right)
    : right
  const meta = gemmTiles(world.machine, { m, n, k, packed, dtype: 'f32' })
  return {
    name: `arke ${world.target}`,
    async run(executions) {
      for (let execution = 0; execution < executions; execution++)
        world.launch(kernel, { a: left, b: weights, c: product }, { grid: 'resident', meta })
      await world.synchronize()
    },
    result: () => world.read(product, 0),
  }
}

/** Throws an error if a few sampled rows of a matrix product differ from a float64 reference. */
function expectProduct(
  name: string,
  c: ArrayLike<number>,
  [m, n, k]: readonly [number, number, number],
  a: Float32Array,
  b: Float32Array,
  tolerance = 1e-3,
): void {
  for (const i of [0, m >> 1, m - 1])
    for (const j of [0, n >> 1, n - 1]) {
      let sum = 0
      for (let l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j]
      if (!(Math.abs(c[i * n + j] - sum) <= tolerance * Math.sqrt(k)))
        throw new Error(`${name}: element ${i}, ${j} is ${c[i * n + j]}, should be ${sum}`)
    }
}

async function worlds(heap: number): Promise<World[]> {
  const opened: World[] = []
  for (const target of ['native', 'wasm'])
    try {
      opened.push(await openWorld({ target, ranks: 1, workers: 1, heap }))
    } catch (error) {
      say(`${target}: ${error instanceof Error ? error.message : String(error)}`)
    }
  return opened
}

async function square(peers: readonly Peer[]): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const size of [512, 1024]) {
    const shape = [size, size, size] as const
    const [a, b] = [random(size * size), random(size * size)]
    const opened = await worlds(64 << 20)
    const mine = await Promise.all(opened.map((world) => ours(world, shape, a, b)))
    const theirs = await Promise.all(
      peers.map(async (peer) => ({ name: peer.name, product: await peer.prepare(...shape, a, b) })),
    )
    // Compared variants run interleaved in each round, because the speed of a shared machine changes over time.
    const others = theirs
      .filter(({ name }) => name !== 'OpenBLAS')
      .map(({ name, product }) => ({ name, run: again(() => product.run()) }))
    const vendor = theirs.find(({ name }) => name === 'OpenBLAS')?.product
    const executions = size < 1000 ? 8 : 2
    const againstVendor = await race(
      [...mine, ...(vendor ? [{ name: 'OpenBLAS', run: again(() => vendor.run()) }] : [])],
      rounds,
      { executions },
    )
    const wasm = mine.filter(({ name }) => name === 'arke wasm')
    const againstOthers = await race([...wasm, ...others], rounds, { executions })
    for (const one of mine) expectProduct(one.name, await one.result(), shape, a, b)
    for (const { name, product } of theirs) expectProduct(name, await product.result(), shape, a, b)
    const text = `GEMM ${size}³`
    const blas = againstVendor.get('OpenBLAS')
    if (blas) {
      figures.push({
        ...speed(
          `${text}: OpenBLAS, GFLOP/s`,
          blas,
          blas.map(() => (2 * size ** 3) / 1e3),
        ),
        unit: '',
      })
      for (const [target, goal] of [
        ['native', 0.95],
        ['wasm', 0.48],
      ] as const) {
        const times = againstVendor.get(`arke ${target}`)
        if (times) figures.push(speed(`${text}: ${target} / OpenBLAS`, times, blas, goal))
      }
    }
    const own = againstOthers.get('arke wasm')
    if (own && others.length > 0) {
      const names = others.map(({ name }) => name)
      const timesOf = (name: string): readonly number[] => againstOthers.get(name)!
      const best = own.map((_, round) => Math.min(...names.map((name) => timesOf(name)[round])))
      figures.push(speed(`${text}: wasm / best of ${names.join(', ')}`, own, best, 1.6))
      for (const name of names) figures.push(speed(`${text}: wasm / ${name}`, own, timesOf(name)))
    }
    for (const { product } of theirs) product.close()
    for (const world of opened) await world.close()
  }
  return figures
}

async function skinny(blas: Peer | undefined): Promise<Figure[]> {
  const figures: Figure[] = []
  const [n, k] = [4096, 4096]
  const b = random(n * k)
  for (const m of [8, 16, 64]) {
    const shape = [m, n, k] as const
    const a = random(m * k)
    const opened = await worlds(256 << 20)
    const mine = await Promise.all(opened.map((world) => ours(world, shape, a, b, { packed: true })))
    const product = await blas?.prepare(...shape, a, b)
    const times = await race(
      [...mine, ...(product ? [{ name: 'OpenBLAS', run: again(() => product.run()) }] : [])],
      rounds,
    )
    for (const one of mine) expectProduct(one.name, await one.result(), shape, a, b)
    for (const [target, goal] of [
      ['native', 1.0],
      ['wasm', 0.55],
    ] as const) {
      const time = times.get(`arke ${target}`)
      if (time && product)
        figures.push(
          speed(
            `GEMM M=${m}, N=K=4096, packed once: ${target} / OpenBLAS`,
            time,
            times.get('OpenBLAS')!,
            goal,
          ),
        )
    }
    for (const world of opened) await world.close()
  }
  return figures
}

async function vector(): Promise<Figure[]> {
  const figures: Figure[] = []
  for (const [dtype, bytes, wasmGoal] of [
    ['f32', 256 << 20, 0.85],
    ['bf16', 128 << 20, 0.6],
  ] as const) {
    const k = 4096
    const n = bytes / (dtype === 'f32' ? 4 : 2) / k
    const shape = [1, n, k] as const
    const [a, b] = [random(k), random(n * k)]
    const opened = await worlds(2 * bytes + (64 << 20))
    const mine = await Promise.all(opened.map((world) => ours(world, shape, a, b, { packed: true, dtype })))
    const read = plainRead(bytes)
    const times = await race([...mine, { name: 'read', run: again(read) }], rounds)
    if (dtype === 'f32') for (const one of mine) expectProduct(one.name, await one.result(), shape, a, b)
    figures.push({
      ...speed(
        `GEMV ${bytes >> 20} MB ${dtype}: plain read, GB/s`,
        times.get('read')!,
        times.get('read')!.map(() => bytes / 1e3),
      ),
      unit: '',
    })
    for (const [target, goal] of [
      ['native', 0.85],
      ['wasm', wasmGoal],
    ] as const) {
      const time = times.get(`arke ${target}`)
      if (time)
        figures.push(
          speed(
            `GEMV M=1, ${bytes >> 20} MB of ${dtype}: ${target} / plain read`,
            time,
            times.get('read')!,
            goal,
          ),
        )
    }
    for (const world of opened) await world.close()
  }
  return figures
}

const figures: Figure[] = []
const stay = stayOnOneCore()
if ('absent' in stay) say(`not pinned to one core: ${stay.absent}`)
const blas = openBlas()
if (!only || only === 'square') {
  const peers: Peer[] = []
  for (const peer of await allPeers())
    if ('absent' in peer) say(`${peer.name}: ${peer.absent}`)
    else peers.push(peer)
  figures.push(...(await square(peers)))
}
if (!only || only === 'skinny') figures.push(...(await skinny('absent' in blas ? undefined : blas)))
if (!only || only === 'vector') figures.push(...(await vector()))
present('Matrix products on one thread', figures)
process.exit(0)
