/**
 * The maximum errors of f32 functions on NVIDIA GPUs: the largest that NVIDIA's CUDA C++ Programming Guide lists for CUDA
 * 11 to 13, without fast math. They have not been measured by Arke.
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
  // e^-x is 2^(-x log2 e), whose error grows with |x|, and which overflows for x below -88.
  sigmoid: undefined,
  pow: 8,
}
