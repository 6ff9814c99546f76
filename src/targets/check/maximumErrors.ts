/**
 * The maximum errors of f32 functions in the checker. The checker computes in float64 and rounds to f32, so its result
 * is the nearest f32 unless the exact result is almost halfway between two f32 values.
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
