/**
 * Small kernels that together use all features that the CUDA emitter lowers. Tests compile these kernels and compare
 * the emitted text. They are not operations.
 */
import type { DotDType } from '../../src/ir/dtype.ts'
import { bf16, f32, i32, u32 } from '../../src/lang/dtypes.ts'
import { flags, kernel, tensor } from '../../src/lang/kernel.ts'
import { ceilDiv } from '../../src/lang/tensor.ts'

/**
 * Computes softmax(Q x K^T) x V for one tile of queries: products from registers, row reductions, transposed operands.
 */
export const attention = kernel(
  'attention',
  { q: tensor(bf16, 2), k: tensor(bf16, 2), v: tensor(bf16, 2), out: tensor(bf16, 2) },
  { BM: 128, BN: 64, D: 64, stages: 2 },
  (t, { q, k, v, out }, { BM, BN, D, stages }) => {
    const qs = t.shared(bf16, [BM, D])
    const ks = t.shared(bf16, [BN, D])
    const vs = t.shared(bf16, [BN, D])
    const filled = t.shared(bf16, [BM, D])
    t.persistent([ceilDiv(q.dim(0), BM)], ([i]) => {
      const start = { m: t.full(f32, [BM], -1e30), l: t.zeros(f32, [BM]), acc: t.zeros(f32, [BM, D]) }
      const { l, acc } = t.pipeline(
        [ceilDiv(k.dim(0), BN)],
        start,
        ([j], { m, l, acc }) => {
          t.copy(q.tile([i, 0], [BM, D]), qs)
          t.copy(k.tile([j, 0], [BN, D]), ks)
          t.copy(v.tile([j, 0], [BN, D]), vs)
          const column = t.arange(BN).add(j.mul(BN)).expand(0).broadcast([BM, BN])
          const scores = t.dot(qs, ks.transpose(), t.zeros(f32, [BM, BN])).mul(0.125 * Math.LOG2E)
          const masked = column.lt(k.dim(0)).select(scores, -1e30)
          const next = m.max(masked.maximum(1))
          const p = masked.sub(next.expand(1)).exp2()
          const scale = m.sub(next).exp2()
          const sum = l.mul(scale).add(p.sum(1))
          return { m: next, l: sum, acc: t.dot(p.to(bf16), vs, acc.mul(scale.expand(1))) }
        },
        { stages },
      )
      t.store(filled, acc.div(l.expand(1)).to(bf16))
      t.copy(filled, out.tile([i, 0], [BM, D]))
    })
  },
)

/** Computes C = A^T x B in f32, with the sum of each column of C. */
export const transposedGemm = kernel(
  'transposedGemm',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2), sums: tensor(f32, 1) },
  { BM: 128, BN: 64, BK: 64 },
  (t, { a, b, c, sums }, { BM, BN, BK }) => {
    const as = t.shared(bf16, [BK, BM])
    const bs = t.shared(bf16, [BK, BN])
    t.persistent(c.tiles([BM, BN]), (ci, [i, j]) => {
      const acc = t.for(ceilDiv(a.dim(0), BK), t.zeros(f32, [BM, BN]), (k, acc) => {
        t.copy(a.tile([k, i], [BK, BM]), as)
        t.copy(b.tile([k, j], [BK, BN]), bs)
        return t.dot(as.transpose(), bs, acc)
      })
      t.copy(acc, ci)
      const column = t.arange(BN).add(j.mul(BN))
      t.atomic.add(sums.at([column]), acc.sum(0), { mask: column.lt(sums.dim(0)) })
    })
  },
)

/**
 * Computes one tile of C = A x B. The meta-parameters select where the operands are stored. Transposed operands are
 * stored as [K, M] and [N, K].
 */
export const productOf = (dtype: DotDType) => {
  const sum = dtype === 'i8' ? 'i32' : 'f32'
  return kernel(
    'product',
    { a: tensor(dtype, 2), b: tensor(dtype, 2), c: tensor(sum, 2) },
    { M: 16, N: 16, K: 16, left: 'shared', right: 'shared' },
    (t, { a, b, c }, { M, N, K, left, right }) => {
      const [rowsOfA, rowsOfB] = [
        left === 'transposed' ? ([K, M] as const) : ([M, K] as const),
        right === 'transposed' ? ([N, K] as const) : ([K, N] as const),
      ]
      const as = t.shared(dtype, rowsOfA)
      const bs = t.shared(dtype, rowsOfB)
      t.copy(a.tile([0, 0], rowsOfA), as)
      t.copy(b.tile([0, 0], rowsOfB), bs)
      const x = left === 'registers' ? t.load(as) : left === 'transposed' ? as.transpose() : as
      const y = right === 'registers' ? t.load(bs) : right === 'transposed' ? bs.transpose() : bs
      t.store(c.tile([0, 0], [M, N]), t.dot(x, y, t.zeros(sum, [M, N])))
    },
  )
}

/**
 * Moves elements between threads: gathered rows, a vector as rows and as columns, a transposed fragment, masked copies.
 */
export const moves = kernel(
  'moves',
  {
    x: tensor(f32, 2),
    rows: tensor(i32, 1),
    gathered: tensor(f32, 2),
    scaled: tensor(f32, 2),
    turned: tensor(f32, 2),
    sums: tensor(f32, 1),
    some: tensor(f32, 1),
  },
  { R: 32, C: 24 },
  (t, { x, rows, gathered, scaled, turned, sums, some }, { R, C }) => {
    const tile = t.shared(f32, [R, C])
    t.persistent([ceilDiv(rows.dim(0), R)], ([i]) => {
      t.copy(x.rows(t.load(rows.tile([i], [R]))).tile(0, C), tile)
      const value = t.load(tile)
      t.copy(tile, gathered.tile([i, 0], [R, C]))
      const ofColumns = value.sum(0)
      const square = t.dot(value, value.transpose(), t.zeros(f32, [R, R]))
      const ofRows = square.sum(1)
      t.store(scaled.tile([i, 0], [R, R]), square.mul(ofRows.expand(1)).mul(ofRows.expand(0)))
      t.store(turned.tile([i, 0], [C, R]), value.mul(ofColumns.expand(0)).transpose())
      const lane = t.arange(C)
      const isEven = lane.mod(2).eq(0)
      t.copy(
        sums.at([lane.add(i.mul(C))]),
        some.at([
          lane
            .neg()
            .add(C - 1)
            .add(i.mul(C)),
        ]),
        { mask: isEven },
      )
      t.store(sums.tile([i], [C]), ofColumns)
    })
  },
)

/**
 * Uses element accesses, atomics of every kind, branches, loops with data-dependent ends, and a reduction to a scalar.
 */
export const elements = kernel(
  'elements',
  {
    x: tensor(f32, 1),
    y: tensor(f32, 1),
    total: tensor(f32, 1),
    words: tensor(u32, 1),
    turns: tensor(i32, 1),
  },
  { B: 256 },
  (t, { x, y, total, words, turns }, { B }) => {
    const scratch = t.shared(f32, [B])
    t.persistent([ceilDiv(x.dim(0), B)], ([i]) => {
      const at = t.arange(B).add(i.mul(B))
      const value = t.load(x.at([at]), { mask: at.lt(x.dim(0)), other: 0 })
      t.store(scratch, value.mul(2))
      const reversed = t.load(
        scratch.at([
          t
            .arange(B)
            .neg()
            .add(B - 1),
        ]),
      )
      t.store(y.at([at]), reversed.add(value), { mask: at.lt(x.dim(0)) })
      t.atomic.add(total.at([0]), value.sum())
      t.atomic.max(total.at([1]), value.maximum())
      t.atomic.min(total.at([2]), value.minimum())
    })
    const own = t.program.to(u32)
    t.atomic.add(words.at([0]), own.add(1), { order: 'release', scope: 'device' })
    t.atomic.sub(words.at([1]), 1)
    t.atomic.or(words.at([2]), t.constant(u32, 1).shl(own))
    t.atomic.xor(words.at([3]), own)
    t.atomic.and(words.at([4]), t.constant(u32, 1).shl(own).not())
    const before = t.atomic.xchg(words.at([5]), 7, { order: 'acqRel', scope: 'system' })
    const first = before.ne(7)
    t.if(first, () => t.store(words.at([6]), 1, { order: 'release', scope: 'device' }))
    // A lock by compare and swap, so that one program at a time increments the counter.
    t.while(
      { taken: t.constant(u32, 1) },
      ({ taken }) => taken.ne(0),
      () => ({ taken: t.atomic.cas(words.at([7]), 0, 1, { order: 'acquire', scope: 'device' }) }),
    )
    const count = t.load(turns.at([0]))
    t.store(turns.at([0]), count.add(1))
    t.atomic.xchg(words.at([7]), 0, { order: 'release', scope: 'device' })
    t.fence('seqCst', 'device')
  },
)

/**
 * Programs in two teams: one team computes tiles, and the other team, on every rank, waits for all tiles and adds them.
 */
export const teams = kernel(
  'teams',
  { x: tensor(f32, 2), sum: tensor(f32, 2), made: flags(1, { arrivals: 2 }) },
  { B: 64 },
  (t, { x, sum, made }, { B }) => {
    t.teams({
      make: {
        programs: 2,
        body: () => {
          const value = t.program.add(t.rank.mul(2)).add(1).to(f32)
          t.for(t.world, (peer) => {
            t.atomic.add(
              x
                .on(peer)
                .at([t.arange(B).expand(1).broadcast([B, B]), t.arange(B).expand(0).broadcast([B, B])]),
              value,
            )
            t.signal(made.on(peer).at([t.rank]))
          })
        },
      },
      add: {
        programs: 'rest',
        body: () => {
          t.for(t.world, (peer) => t.wait(made.at([peer])))
          const got = t.load(x.tile([0, 0], [B, B]))
          const before = t.load(sum.tile([0, 0], [B, B]))
          t.store(sum.tile([0, 0], [B, B]), before.add(got))
        },
      },
    })
  },
)

/**
 * Loads and stores bytes with a memory order, converted from numbers that may be NaN; also converts such numbers to
 * i64.
 */
export const bytes = kernel(
  'bytes',
  { x: tensor('f32', 1), y: tensor('i8', 1), out: tensor('u8', 1), sums: tensor('i64', 1) },
  (t, { x, y, out, sums }) => {
    const lanes = t.arange(64)
    const loaded = t.load(x.at([lanes]))
    t.store(y.at([lanes]), loaded.to('i8'), { order: 'relaxed', scope: 'block' })
    t.store(out.at([lanes]), loaded.to('u8'), { order: 'release', scope: 'system' })
    t.store(sums.at([lanes]), loaded.to('i64'))
    t.store(y.at([64]), t.load(y.at([0]), { order: 'acquire' }))
    t.store(sums.at([lanes]), t.load(out.at([lanes]), { order: 'relaxed' }).to('i64'))
  },
)

/** Broadcasts slices of a matrix and a single element, and uses addresses that depend on the indices of both axes. */
export const stretched = kernel('stretched', { x: tensor('f32', 1), y: tensor('f32', 2) }, (t, { x, y }) => {
  const places = t.arange(16).mul(32).expand(1).add(t.arange(32).expand(0))
  const matrix = t.load(x.at([places]))
  t.store(y.at([0, places]), matrix.sub(matrix.maximum(1).expand(1)))
  t.store(y.at([1, t.arange(32)]), matrix.sum(0))
  const single = t
    .load(x.tile([0], [9]))
    .expand(1)
    .minimum(0)
  t.store(y.tile([2, 0], [3, 1]), single.expand(0).broadcast([3, 1]))
  t.store(y.tile([2, 0], [16, 32]), matrix.add(single.expand(0).broadcast([16, 32])))
})

/** Copies tiles of a peer if its flag has been signalled, and stores zeros otherwise. */
export const looking = kernel(
  'looking',
  { x: tensor(f32, 2), y: tensor(f32, 2), ready: flags(1), both: flags(0, { arrivals: 2 }) },
  { B: 64 },
  (t, { x, y, ready, both }, { B }) => {
    t.persistent(y.tiles([B, B]), (tile, [i, j]) =>
      t.if(
        t.reached(ready.at([i])).and(t.reached(both, { lag: 1 })),
        () => t.store(tile, t.load(x.tile([i, j], [B, B]))),
        () => t.store(tile, t.zeros(f32, [B, B])),
      ),
    )
  },
)
