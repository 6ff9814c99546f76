/** The maximum errors of f32 functions on CPUs. Both CPU targets (wasm and native) execute the same operations. */
import type { MaximumErrors } from '../../ir/ops/index.ts'

export const maximumErrors: MaximumErrors = {
  exp2: 2,
  exp: 2,
  log2: 2,
  log: 2,
  sin: 1,
  cos: 1,
  erf: 2,
  rsqrt: 1,
  tanh: 4,
  sigmoid: 4,
  pow: 1,
}
