/**
 * Computes the LayerNorm of a few rows at a time: y = (x - mean) / sqrt(variance + eps) * gamma + beta. Mean and
 * variance are computed per row in f32, in two passes, so that a large mean costs no precision. Each pass of the
 * LayerNorm reads x again, from memory or from a cache.
 *
 *   x            [rows per rank, K]
 *   gamma, beta  [K]
 */
import { f32 } from '../../lang/dtypes.ts'
import { kernel, tensor } from '../../lang/kernel.ts'
import type { Program } from '../../lang/program.ts'
import { ceilDiv, type Tensor } from '../../lang/tensor.ts'
import type { Fragment, Scalar } from '../../lang/value.ts'
import { oncePer, type OperandDType } from '../../operation/definition.ts'

export interface Normed {
  readonly x: Tensor<OperandDType, 2>
  readonly gamma: Tensor<OperandDType, 1>
  readonly beta: Tensor<OperandDType, 1>
}

export interface NormMeta {
  /**
   * The number of rows that a program normalises together. `columns` is the number of columns of these rows that the
   * program holds in registers at a time.
   */
  readonly rows: number
  readonly columns: number
  readonly eps: number
}
export const normMeta = { rows: 4, columns: 256, eps: 1e-5 }

/** Normalises one block of rows and passes it to `use`, `columns` columns at a time. */
export function normalise(
  t: Program,
  { x, gamma, beta }: Normed,
  block: Scalar,
  { rows, columns, eps }: NormMeta,
  use: (k: Scalar, value: Fragment<OperandDType, 2>) => void,
): void {
  const depth = x.dim(1)
  const steps = ceilDiv(depth, columns)
  const part = (k: Scalar) => t.load(x.tile([block, k], [rows, columns])).to(f32)
  const zeros = t.zeros(f32, [rows, columns])
  // In the loop, each column has its own sum. The sums are added after the loop, so that threads exchange values once.
  const mean = t
    .for(steps, zeros, (k, sums) => sums.add(part(k)))
    .sum(1)
    .div(depth.to(f32))
    .expand(1)
  const squares = t
    .for(steps, zeros, (k, sums) => {
      // Elements beyond the last column are read as 0 and must not count towards the variance of a row.
      const exists = t.arange(columns).add(k.mul(columns)).lt(depth).expand(0).broadcast([rows, columns])
      const off = exists.select(part(k).sub(mean), 0)
      return sums.add(off.mul(off))
    })
    .sum(1)
  const deviation = squares.div(depth.to(f32)).add(eps).sqrt().expand(1)
  t.for(steps, (k) => {
    const [scale, shift] = [gamma, beta].map((row) =>
      t
        .load(row.tile([k], [columns]))
        .to(f32)
        .expand(0),
    )
    use(k, part(k).sub(mean).div(deviation).mul(scale).add(shift).to(x.dtype))
  })
}

export const normKernel = oncePer((dtype: OperandDType) =>
  kernel(
    'layerNorm',
    { x: tensor(dtype, 2), gamma: tensor(dtype, 1), beta: tensor(dtype, 1), y: tensor(dtype, 2) },
    normMeta,
    (t, { x, gamma, beta, y }, meta) => {
      const { rows, columns } = meta
      t.persistent([ceilDiv(x.dim(0), rows)], ([block]) =>
        normalise(t, { x, gamma, beta }, block, meta, (k, value) =>
          t.store(y.tile([block, k], [rows, columns]), value),
        ),
      )
    },
  ),
)
