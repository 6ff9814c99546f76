/**
 * The matrix product C = A x B on one rank. Benchmarks compare fused variants with this kernel. The shape of the
 * matrices need not be a multiple of the tiles. `gemmKernel` rounds C to the dtype of the operands. `gemmInto` rounds C
 * to another dtype, for partial products that are summed later.
 */
import { bf16, f32 } from '../lang/dtypes.ts'
import { kernel, tensor } from '../lang/kernel.ts'
import { ceilDiv } from '../lang/tensor.ts'
import { oncePer, type OperandDType } from '../operation/definition.ts'

interface Product {
  readonly dtype: OperandDType
  /** The dtype of C. */
  readonly out: OperandDType
}
const matrices = ({ dtype, out }: Product) => ({
  a: tensor(dtype, 2),
  b: tensor(dtype, 2),
  c: tensor(out, 2),
})
/**
 * Besides the extents of a tile and the number of stages, the meta-parameters hold the number of programs of a cluster
 * along M and along N. Programs along M share the tiles of B, and programs along N share the tiles of A.
 */
const tiles = { BM: 128, BN: 256, BK: 64, stages: 4, CM: 1, CN: 1 }
export const gemmInto = oncePer(({ dtype, out }: Product) =>
  kernel('gemm', matrices({ dtype, out }), tiles, (t, { a, b, c }, { BM, BN, BK, stages, CM, CN }) => {
    const as = t.shared(dtype, [BM, BK])
    const bs = t.shared(dtype, [BK, BN])
    t.persistent(
      c.tiles([BM, BN]),
      (ci, [i, j]) => {
        const acc = t.pipeline(
          [ceilDiv(a.dim(1), BK)],
          t.zeros(f32, [BM, BN]),
          ([k], acc) => {
            t.copy(a.tile([i, k], [BM, BK]), as, { multicast: 1 })
            t.copy(b.tile([k, j], [BK, BN]), bs, { multicast: 0 })
            return t.dot(as, bs, acc)
          },
          { stages },
        )
        t.copy(acc.to(out), ci)
      },
      { cluster: [CM, CN] },
    )
  }),
)

export const gemmKernel = (dtype: OperandDType) => gemmInto({ dtype, out: dtype })
export const gemm = gemmKernel(bf16)
