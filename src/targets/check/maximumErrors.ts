/**
 * The maximum errors of f32 functions in the checker. The checker rounds a float64 result to f32, which is wrong only
 * if the exact result is next to a tie.
 */
import type { MaximumErrors } from '../../ir/ops/index.ts'

export const maximumErrors: MaximumErrors = {
  exp2: 1,
  exp: 1,
  log2: 1,
  log: 1,
  sin: 1,
  cos: 1,
  erf: 1,
  rsqrt: 1,
  tanh: 1,
  sigmoid: 1,
  pow: 1,
}
