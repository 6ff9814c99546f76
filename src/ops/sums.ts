/**
 * Sums in a fixed order. The order of the terms of a sum of floats determines its bits, so a sum in a fixed order is the
 * same in every launch, whatever the order in which its terms arrive.
 */
import { i32 } from '../lang/dtypes.ts'
import type { Program } from '../lang/program.ts'
import type { Fragment, Scalar } from '../lang/value.ts'

/** The sum of term(0), term(1), …, term(count - 1) in f32, added from left to right. `count` is at least 1. */
export function sumInOrder<F extends Fragment<'f32', 1> | Fragment<'f32', 2>>(
  t: Program,
  count: number,
  term: (n: Scalar) => F,
): F {
  const first = term(t.constant(i32, 0)) as Fragment<'f32', 2>
  const sum = t.for({ from: 1, to: count }, first, (n, sum) => sum.add(term(n) as Fragment<'f32', 2>))
  return sum as F
}
