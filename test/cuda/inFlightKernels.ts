/**
 * Kernels with copies in flight, and scenarios that compare their results: by TMA from two buffers, by TMA in a role, of a
 * swizzled tile, by threads, and by cp.async into shared tiles.
 */
import {
  bf16,
  expectClose,
  f16,
  f32,
  flags,
  i32,
  kernel,
  scenario,
  tensor,
  type Scenario,
  type World,
} from '../../src/index.ts'

/** Doubles tiles and sends them from two buffers in turn. */
export const send = kernel(
  'send',
  { x: tensor(f32, 2), inbox: tensor(f32, 2), out: tensor(f32, 2), told: flags() },
  (t, { x, inbox, out, told }) => {
    const peer = t.rank.add(1).mod(t.world)
    const buffers = t.shared(f32, [2, 16, 32])
    t.for(4, (i) => {
      const buffer = buffers.pick(i.mod(2))
      t.store(buffer, t.load(x.tile([i, 0], [16, 32])).mul(2))
      t.quiet({ reads: true })
      t.copyAsync(buffer, inbox.on(peer).tile([i, 0], [16, 32]))
    })
    t.quiet()
    t.signal(told.on(peer))
    t.wait(told)
    t.for(4, (i) => t.copy(inbox.tile([i, 0], [16, 32]), out.tile([i, 0], [16, 32])))
  },
)

/** One role fills tiles, and another role, which needs one thread only, stores them. */
export const byRole = kernel('byRole', { x: tensor(f32, 2), y: tensor(f32, 2) }, (t, { x, y }) => {
  const ring = t.shared(f32, [2, 16, 32])
  const [full, empty] = [t.barriers(2), t.barriers(2)]
  t.roles({
    // The thread that stores is not the first thread of a warpgroup.
    filler: {
      warps: 1,
      body: () =>
        t.for(4, (i) => {
          t.wait(empty.at(i.mod(2)), i.div(2).sub(1))
          t.store(ring.pick(i.mod(2)), t.load(x.tile([i, 0], [16, 32])).add(1))
          t.arrive(full.at(i.mod(2)))
        }),
    },
    storer: {
      warps: 1,
      body: () =>
        t.for(4, (i) => {
          t.wait(full.at(i.mod(2)), i.div(2))
          t.copyAsync(ring.pick(i.mod(2)), y.tile([i, 0], [16, 32]))
          t.quiet({ reads: true })
          t.arrive(empty.at(i.mod(2)))
        }),
    },
  })
})

const copied = kernel('copied', { y: tensor(f32, 2), z: tensor(f32, 2) }, (t, { y, z }) => {
  t.for(4, (i) => t.copy(y.tile([i, 0], [16, 32]), z.tile([i, 0], [16, 32])))
})

/** Stores a tile that the matrix unit also reads: its layout in shared memory is swizzled. */
export const swizzled = kernel(
  'swizzled',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  (t, { a, b, c }) => {
    const tile = t.shared(bf16, [64, 64])
    t.store(
      tile,
      t
        .load(a.tile([0, 0], [64, 64]))
        .to(f32)
        .mul(2)
        .to(bf16),
    )
    t.copyAsync(tile, b.tile([1, 0], [64, 64]))
    t.store(c.tile([0, 0], [64, 64]), t.dot(tile, tile.transpose(), t.zeros(f32, [64, 64])))
    t.quiet()
  },
)

const N = 6
/** Copies that threads make: masked, between tensors, into shared memory, and of tiles without alignment. */
export const byThreads = kernel(
  'byThreads',
  { x: tensor(f32, 1), near: tensor(f32, 1), far: tensor(f32, 1), line: tensor(f32, 1), told: flags() },
  (t, { x, near, far, line, told }) => {
    const peer = t.rank.add(1).mod(t.world)
    const tile = t.shared(f32, [N])
    t.putNbi(x.tile([0], [N]), far.on(peer).tile([0], [N]), { mask: t.arange(N).lt(4) })
    t.getNbi(x.on(peer).tile([0], [N]), tile)
    t.quiet()
    t.store(tile, t.load(tile).mul(10))
    t.copyAsync(tile, near.tile([0], [N]))
    t.quiet({ reads: true })
    t.store(tile, t.full(f32, [N], -1))
    t.quiet()
    t.putSignal(near.tile([0], [N]), far.on(peer).tile([1], [N]), told.on(peer))
    t.wait(told)
    t.copy(far.tile([0], [2 * N]), line.tile([0], [2 * N]))
  },
)

/**
 * Fetches tiles of the next rank into shared tiles: each tile while the previous one is used, tiles beyond the edge of
 * the tensor, of 16-bit elements, and of chosen rows. The row length W determines the chunks of a copy. A fetched tile
 * is also copied to a tensor.
 */
export const fetchTiles = kernel(
  'fetchTiles',
  {
    x: tensor(f32, 2),
    h: tensor(f16, 2),
    chosen: tensor(i32, 1),
    out: tensor(f32, 2),
    halves: tensor(f16, 2),
    rows: tensor(f32, 2),
    told: flags(),
  },
  { W: 12 },
  (t, { x, h, chosen, out, halves, rows, told }, { W }) => {
    const peer = t.rank.add(1).mod(t.world)
    const ring = t.shared(f32, [2, 8, W])
    const half = t.shared(f16, [8, W])
    const some = t.shared(f32, [4, W])
    t.signal(told.on(t.rank.add(t.world - 1).mod(t.world)))
    t.wait(told)
    const fetched = x.on(peer)
    t.getNbi(h.on(peer).tile([0, 0], [8, W]), half)
    t.getNbi(fetched.rows(t.load(chosen.tile([0], [4]))).tile(0, W), some)
    t.getNbi(fetched.tile([0, 0], [8, W]), ring.pick(0))
    t.quiet()
    t.copyAsync(half, halves.tile([0, 0], [8, W]))
    t.for(3, (i) => {
      t.getNbi(fetched.tile([i.add(1).min(2), 0], [8, W]), ring.pick(i.add(1).mod(2)))
      t.store(out.tile([i, 0], [8, W]), t.load(ring.pick(i.mod(2))).mul(2))
      t.quiet()
    })
    t.store(rows.tile([0, 0], [4, W]), t.load(some))
  },
)

/** Multiplies tiles that it fetches: the matrix unit reads what cp.async has written. */
export const fetchOperands = kernel(
  'fetchOperands',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  (t, { a, b, c }) => {
    const peer = t.rank.add(1).mod(t.world)
    const [left, right] = [t.shared(bf16, [64, 64]), t.shared(bf16, [64, 64])]
    const sum = t.for(2, t.zeros(f32, [64, 64]), (k, acc) => {
      t.getNbi(a.on(peer).tile([0, k], [64, 64]), left)
      t.getNbi(b.on(peer).tile([k, 0], [64, 64]), right)
      t.quiet()
      return t.dot(left, right, acc)
    })
    t.store(c.tile([0, 0], [64, 64]), sum)
  },
)

/** The scenarios of `fetchTiles` for rows of W elements. */
const fetching = (W: number): Scenario =>
  scenario(`fetch tiles of ${W} columns`, { ranks: 2 }, async (world) => {
    const [height, picks] = [20, [7, 0, 19, 7]]
    const xOf = (rank: number): number[] => numbers(3 * rank, height * W)
    const x = world.from(f32, [height, W], xOf, { name: 'x' })
    const h = world.from(f16, [8, W], (rank) => numbers(rank + 5, 8 * W), { name: 'h' })
    const chosen = world.from(i32, [4], picks, { name: 'chosen' })
    const out = world.empty(f32, [24, W], { name: 'out' })
    const halves = world.empty(f16, [8, W], { name: 'halves' })
    const rows = world.empty(f32, [4, W], { name: 'rows' })
    const told = world.flags([], { name: 'told' })
    world.launch(fetchTiles, { x, h, chosen, out, halves, rows, told }, { grid: 1, meta: { W } })
    for (const rank of [0, 1]) {
      const theirs = xOf(1 - rank)
      const doubled = theirs.map((value) => 2 * value)
      expectClose(await world.read(out, rank), [...doubled, ...new Array<number>(4 * W).fill(0)])
      expectClose(await world.read(halves, rank), numbers(6 - rank, 8 * W))
      const wanted = picks.flatMap((row) => theirs.slice(row * W, (row + 1) * W))
      expectClose(await world.read(rows, rank), wanted)
    }
    await world.barrier() // otherwise the next run overwrites rows that a peer still reads
  })
export const fetchings = [12, 10, 9].map(fetching)

export const fetchingOperands = scenario('multiply tiles that were fetched', { ranks: 2 }, async (world) => {
  const [n, k] = [64, 128]
  const small = (seed: number, count: number): number[] =>
    Array.from({ length: count }, (_, i) => ((i * 7 + (i >> 6) + seed) % 5) - 2)
  const a = world.from(bf16, [n, k], (rank) => small(rank, n * k), { name: 'a' })
  const b = world.from(bf16, [k, n], (rank) => small(rank + 2, n * k), { name: 'b' })
  const c = world.empty(f32, [n, n], { name: 'c' })
  world.launch(fetchOperands, { a, b, c }, { grid: 1 })
  for (const rank of [0, 1]) {
    const [left, right] = [small(1 - rank, n * k), small(3 - rank, n * k)]
    const products = Array.from({ length: n * n }, (_, at) => {
      const [i, j] = [Math.floor(at / n), at % n]
      let sum = 0
      for (let step = 0; step < k; step++) sum += left[i * k + step] * right[step * n + j]
      return sum
    })
    expectClose(await world.read(c, rank), products)
  }
})

const rows = 64
export const sending = scenario('send', { ranks: 2 }, async (world) => {
  const x = world.from(f32, [rows, 32], (rank) => numbers(rank, rows * 32), { name: 'x' })
  const [inbox, out] = ['inbox', 'out'].map((name) => world.empty(f32, [rows, 32], { name }))
  world.launch(send, { x, inbox, out, told: world.flags([], { name: 'told' }) }, { grid: 1 })
  for (const rank of [0, 1])
    expectClose(
      await world.read(out, rank),
      numbers(1 - rank, rows * 32).map((value) => 2 * value),
    )
})
export const storing = scenario('store by a role', { ranks: 1 }, async (world) => {
  const x = world.from(f32, [rows, 32], numbers(0, rows * 32), { name: 'x' })
  const y = world.empty(f32, [rows, 32], { name: 'y' })
  const z = world.empty(f32, [rows, 32], { name: 'z' })
  world.launch(byRole, { x, y }, { grid: 1 })
  world.launch(copied, { y, z }, { grid: 1 })
  expectClose(
    await world.read(z, 0),
    numbers(0, rows * 32).map((value) => value + 1),
  )
})
const numbers = (rank: number, count: number): number[] =>
  Array.from({ length: count }, (_, i) => ((i * 7) % 31) + rank)

const side = 64
export const multiplying = scenario('store a tile that is multiplied', { ranks: 1 }, async (world) => {
  const values = Array.from({ length: side * side }, (_, i) => ((i * 7 + (i >> 6)) % 5) - 2)
  const a = world.from(bf16, [side, side], values, { name: 'a' })
  const b = world.zeros(bf16, [2 * side, side], { name: 'b' })
  const c = world.empty(f32, [side, side], { name: 'c' })
  world.launch(swizzled, { a, b, c }, { grid: 1 })
  const doubled = values.map((value) => 2 * value)
  expectClose((await world.read(b, 0)).subarray(side * side), doubled)
  const products = Array.from({ length: side * side }, (_, at) => {
    const [i, j] = [Math.floor(at / side), at % side]
    let sum = 0
    for (let k = 0; k < side; k++) sum += doubled[i * side + k] * doubled[j * side + k]
    return sum
  })
  expectClose(await world.read(c, 0), products)
})

/** The contents of the tensors `near` and `line` on each rank after one launch of `byThreads`. */
export const contents = async (world: World): Promise<number[][]> => {
  const x = world.from(f32, [N], (rank) => numbers(10 * rank, N), { name: 'x' })
  const near = world.zeros(f32, [N], { name: 'near' })
  const [far, line] = ['far', 'line'].map((name) => world.zeros(f32, [2 * N], { name }))
  world.launch(byThreads, { x, near, far, line, told: world.flags([], { name: 'told' }) }, { grid: 1 })
  const found: number[][] = []
  for (let rank = 0; rank < world.ranks; rank++)
    for (const one of [near, line]) found.push([...(await world.read(one, rank))])
  return found
}

/** The contents that are expected on two ranks. */
export const expected = [0, 1].flatMap((rank) => {
  const [mine, theirs] = [numbers(10 * rank, N), numbers(10 * (1 - rank), N)]
  const near = theirs.map((value) => 10 * value)
  return [near, [...theirs.slice(0, 4), 0, 0, ...mine.map((value) => 10 * value)]]
})
