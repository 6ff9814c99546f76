/**
 * Lists the maximum errors of f32 functions on NVIDIA GPUs without fast math. The numbers are the largest that NVIDIA's
 * CUDA C++ Programming Guide lists for CUDA 11 to 13, except for `sigmoid`, whose maximum error is derived below. Tests
 * on a GPU compare the functions with float64.
 */
import type { MaximumErrors } from '../../ir/ops/index.ts'

export const maximumErrors: MaximumErrors = {
  exp2: 2,
  exp: 2,
  log2: 1,
  log: 1,
  sin: 2,
  cos: 2,
  erf: 2,
  rsqrt: 2,
  tanh: 2,
  // The sigmoid of x is 1 / (1 + y) or y / (1 + y), where y = exp(-|x|). With u = 2^-24, the relative error of y is at
  // most 4 u (2 ULP of expf), and the addition and the division add u each: together at most 6 u, which is at most 6
  // ULP.
  sigmoid: 6,
  pow: 8,
}
