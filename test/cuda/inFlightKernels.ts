/**
 * Kernels with copies in flight, and scenarios that compare their results: by TMA from two buffers, by TMA in a role, of a
 * swizzled tile, and by threads.
 */
import { bf16, expectClose, f32, flags, kernel, scenario, tensor, type World } from '../../src/index.ts'

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
    // The thread that stores is not the first one of a warpgroup.
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

/** What `near` and `line` of each rank hold after one launch of `byThreads`. */
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
