/**
 * 14: an operation of your own. C = sum over ranks of A x B, as in a tensor-parallel layer: every rank holds a slice of
 * the depth, and every rank needs the whole sum.
 *
 * `bsp` multiplies in one kernel and all-reduces in the next. In `fused`, one kernel sends each tile of the matrix
 * product to all ranks as soon as it is computed, and the partial product is never written to memory. A file that
 * exports an operation can be measured and tuned like a shipped one:
 *
 *   arke bench examples/14-your-operation.ts --report page.html
 *   arke tune examples/14-your-operation.ts --shape M=16
 */
import {
  ceilDiv,
  defineOperation,
  f32,
  flags,
  i32,
  kernel,
  scenariosOf,
  tensor,
  type Flags,
  type Fragment,
  type Program,
  type Scalar,
  type Tensor,
} from 'arke'
import { show } from './show.ts'

type Tile = readonly [i: Scalar, j: Scalar]
type Sizes = { readonly BM: number; readonly BN: number; readonly BK: number }
const sizes: Sizes = { BM: 16, BN: 64, BK: 64 }

const factors = { a: tensor(f32, 2), b: tensor(f32, 2) }
/** Extents: `inbox` [2, source, M, N], with two slots selected by epoch parity; `arrived` [source, i, j]. */
const mail = { c: tensor(f32, 2), inbox: tensor(f32, 4), arrived: flags(3) }
interface Mail {
  readonly c: Tensor<'f32', 2>
  readonly inbox: Tensor<'f32', 4>
  readonly arrived: Flags<3>
}

/** Computes one tile of this rank's own matrix product. */
function product(
  t: Program,
  { a, b }: { readonly a: Tensor<'f32', 2>; readonly b: Tensor<'f32', 2> },
  { BM, BN, BK }: Sizes,
) {
  const [as, bs] = [t.shared(f32, [BM, BK]), t.shared(f32, [BK, BN])]
  return ([i, j]: Tile): Fragment<'f32', 2> =>
    t.pipeline([ceilDiv(a.dim(1), BK)], t.zeros(f32, [BM, BN]), ([k], sum) => {
      t.copy(a.tile([i, k], [BM, BK]), as)
      t.copy(b.tile([k, j], [BK, BN]), bs)
      return t.dot(as, bs, sum)
    })
}

/** Sends a tile of this rank's matrix product to every rank. */
function send(t: Program, { inbox, arrived }: Mail, at: Tile, tile: Fragment<'f32', 2>, { BM, BN }: Sizes) {
  const slot = t.epoch(arrived).mod(2).to(i32)
  t.for(t.world, (step) => {
    const peer = t.rank.add(step).mod(t.world)
    t.store(inbox.on(peer).pick(slot).pick(t.rank).tile(at, [BM, BN]), tile)
    t.signal(arrived.on(peer).at([t.rank, ...at]))
  })
}

/** Sums the tiles of all ranks, in rank order, so that all ranks get the same bits. */
function receive(t: Program, { c, inbox, arrived }: Mail, { BM, BN }: Sizes): void {
  const slot = t.epoch(arrived, 'wait').mod(2).to(i32)
  t.persistent(c.tiles([BM, BN]), (tile, at) => {
    const total = t.for(t.world, t.zeros(f32, [BM, BN]), (source, sum) => {
      t.wait(arrived.at([source, ...at]))
      return sum.add(t.load(inbox.pick(slot).pick(source).tile(at, [BM, BN])))
    })
    t.store(tile, total)
  })
}

export const multiply = kernel(
  'multiply',
  { ...factors, partial: tensor(f32, 2) },
  sizes,
  (t, { a, b, partial }, meta) => {
    const tileOf = product(t, { a, b }, meta)
    t.persistent(partial.tiles([meta.BM, meta.BN]), (tile, at) => t.store(tile, tileOf(at)))
  },
)

export const reduce = kernel(
  'reduce',
  { partial: tensor(f32, 2), ...mail },
  { BM: sizes.BM, BN: sizes.BN, BK: 1 },
  (t, { partial, ...args }, meta) => {
    t.persistent(partial.tiles([meta.BM, meta.BN]), (tile, at) => send(t, args, at, t.load(tile), meta))
    receive(t, args, meta)
  },
)

export const multiplyAndReduce = kernel(
  'multiplyAndReduce',
  { ...factors, ...mail },
  sizes,
  (t, { a, b, ...args }, meta) => {
    const tileOf = product(t, { a, b }, meta)
    t.persistent(args.c.tiles([meta.BM, meta.BN]), (_, at) => send(t, args, at, tileOf(at), meta))
    receive(t, args, meta)
  },
)

export const gemmAllReduce = defineOperation({
  name: 'gemmAllReduce',
  title: 'GEMM + All-Reduce',
  shape: { M: 64, N: 1024, K: 1024 }, // K is the depth of one rank's slice of A and B.
  dtypes: ['f32'],
  growing: { M: 'rounded' },
  tiles: ({ shape: { M } }) => ({ BM: Math.min(16, M), BN: 64, BK: 64 }),
  candidates: ({ shape: { M } }) =>
    [32, 128].flatMap((BN) => [32, 128].map((BK) => ({ BM: Math.min(16, M), BN, BK }))),
  inputs: (world, { shape: { M, N, K } }) => ({
    a: world.zeros(f32, [M, K], { name: 'a' }),
    b: world.zeros(f32, [K, N], { name: 'b' }),
  }),
  output: (world, { shape: { M, N } }) => world.empty(f32, [M, N], { name: 'c' }),
  weights: ['b'],
  variants: {
    bsp({ world, shape: { M, N }, tiles, inputs: { a, b }, output: c, packed, options }) {
      const partial = world.empty(f32, [M, N], { name: 'partial' })
      const args = { partial, c, ...mailbox(world, [M, N], tiles) }
      const meta = { ...tiles, BK: 1 }
      return [
        {
          name: 'multiply',
          launch: () => world.launch(multiply, { a, b: packed(b), partial }, { ...options, meta: tiles }),
        },
        { name: 'reduce', launch: () => world.launch(reduce, args, { ...options, meta }) },
      ]
    },
    fused({ world, shape: { M, N }, tiles, inputs: { a, b }, output: c, packed, options }) {
      const args = { a, c, ...mailbox(world, [M, N], tiles) }
      return [
        {
          name: 'fused',
          launch: () =>
            world.launch(multiplyAndReduce, { ...args, b: packed(b) }, { ...options, meta: tiles }),
        },
      ]
    },
  },
  limit: { step: 'multiply', name: "the product of the rank's own slice" },
  reference: ({ a, b }, { ranks, shape: { N, K } }, row) =>
    Array.from({ length: N }, (_, column) => {
      let sum = 0
      for (let rank = 0; rank < ranks; rank++)
        for (let k = 0; k < K; k++) sum += a[rank][row * K + k] * b[rank][k * N + column]
      return sum
    }),
  tolerance: ({ ranks, shape: { K } }) => ranks * K * 2 ** -24,
  flops: ({ shape: { M, N, K } }) => 2 * M * N * K,
  remoteBytes: ({ ranks, shape: { M, N } }) => (ranks - 1) * M * N * 4,
})

function mailbox(
  world: Parameters<typeof gemmAllReduce.make>[0],
  [M, N]: readonly [number, number],
  { BM, BN }: Pick<Sizes, 'BM' | 'BN'>,
) {
  return {
    inbox: world.empty(f32, [2, world.ranks, M, N], { name: 'inbox' }),
    arrived: world.flags([world.ranks, Math.ceil(M / BM), Math.ceil(N / BN)], { name: 'arrived' }),
  }
}

/** The checker explores every variant, at a shape whose tiles have masked edges. */
export const scenarios = scenariosOf(gemmAllReduce, {
  ranks: 2,
  options: { shape: { M: 3, N: 2, K: 3 }, tiles: { BM: 2, BN: 2, BK: 2 }, grid: 1 },
})

for (const one of scenarios) await show(import.meta.url, one)
