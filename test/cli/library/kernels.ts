/** Kernels of a user's library without explicit types, so that declarations are generated from inferred types. */
import { bf16, ceilDiv, f32, flags, i32, kernel, scalar, tensor, type Program, type Value } from 'arke'

export const params = { x: tensor(f32, 2), ready: flags() }

/** A kernel that uses tensors and flags, but no meta-parameters. */
export const announce = kernel('announce', params, (t, { x, ready }) => {
  t.store(x.at([0, 0]), t.rank.to(f32))
  t.signal(ready)
})

/** A kernel that uses scalars, flag-in-data words, and flags with several axes. */
export const scale = kernel(
  'scale',
  { x: tensor(f32, 1), inbox: tensor(f32, 1, { carries: 'sent' }), factor: scalar(f32), sent: flags(2) },
  (t, { x, factor }) => t.store(x.at([0]), t.load(x.at([0])).mul(factor)),
)

/** A kernel that uses meta-parameters with defaults of every kind, and shared tiles. */
export const product = kernel(
  'product',
  { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(f32, 2) },
  { BM: 16, BN: 16, BK: 16, isAccumulating: false, order: 'rows' },
  (t, { a, b, c }, { BM, BN, BK }) => {
    const { as, bs } = operands(t, BM, BN, BK)
    t.persistent(c.tiles([BM, BN]), (tile, [i, j]) => {
      const sum = t.pipeline([ceilDiv(a.dim(1), BK)], t.zeros(f32, [BM, BN]), ([k], sum) => {
        t.copy(a.tile([i, k], [BM, BK]), as)
        t.copy(b.tile([k, j], [BK, BN]), bs)
        return t.dot(as, bs, sum)
      })
      t.copy(relu(sum), tile)
    })
  },
)

/** Returns a kernel for a dtype. */
export const copyOf = (dtype: 'f32' | 'f16') =>
  kernel(
    'copy',
    { from: tensor(dtype, 2), to: tensor(dtype, 2) },
    { rows: 4 },
    (t, { from, to }, { rows }) => {
      t.copy(from.tile([0, 0], [rows, 4]), to.tile([0, 0], [rows, 4]))
    },
  )

/** Helpers that return shared tiles, fragments, and fragments of any rank. */
export function operands(t: Program, BM: number, BN: number, BK: number) {
  return { as: t.shared(bf16, [BM, BK]), bs: t.shared(bf16, [BK, BN]) }
}
export const relu = (x: Value<'f32', 2>) => x.max(0)
export const rowSums = (x: Value<'f32', 2>) => ({ sums: x.sum(1), largest: x.max(0).sum(0) })
export const doubled = <R extends 0 | 1 | 2>(x: Value<'f32', R>) => x.mul(2)
export const places = (t: Program) => [t.arange(8), t.rank, t.atomic] as const

/** The property `site`, read from a kernel object. */
export const { site } = announce
export const recorded = announce.record({ world: 2 })
export const { body } = recorded
export const [x] = [scalar(i32)]
