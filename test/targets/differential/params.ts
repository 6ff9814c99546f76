/**
 * The tensors and flags of every generated kernel: one input and one output per dtype, accumulators for atomics, mail
 * for peers. Kernels that are not golden have additional tensors and flags, for rounds of exchanges, the host and
 * clusters.
 */
import { dtypes, round, type DotDType, type StorageDType } from '../../../src/ir/dtype.ts'
import { flags, tensor, type Arguments } from '../../../src/index.ts'
import { randomNumbers } from './choices.ts'

export const storage = Object.keys(dtypes).filter((name) => name !== 'bool') as StorageDType[]
export const dotDTypes: readonly DotDType[] = ['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8']
export const accumulated = ['i32', 'u32', 'i64'] as const
/** Atomics whose order does not change the final contents. Each of these atomics uses its own row of the accumulators. */
export const commutative = ['add', 'min', 'max', 'and', 'or', 'xor'] as const
/** The number of elements in a row of an accumulator. */
export const accumulators = 5

export const params = {
  in_f32: tensor('f32', 2),
  in_f16: tensor('f16', 2),
  in_bf16: tensor('bf16', 2),
  in_f8e4m3: tensor('f8e4m3', 2),
  in_f8e5m2: tensor('f8e5m2', 2),
  in_i8: tensor('i8', 2),
  in_u8: tensor('u8', 2),
  in_i32: tensor('i32', 2),
  in_u32: tensor('u32', 2),
  in_i64: tensor('i64', 2),
  small_f32: tensor('f32', 2),
  small_f16: tensor('f16', 2),
  small_bf16: tensor('bf16', 2),
  small_f8e4m3: tensor('f8e4m3', 2),
  small_f8e5m2: tensor('f8e5m2', 2),
  small_i8: tensor('i8', 2),
  out_f32: tensor('f32', 3),
  out_f16: tensor('f16', 3),
  out_bf16: tensor('bf16', 3),
  out_f8e4m3: tensor('f8e4m3', 3),
  out_f8e5m2: tensor('f8e5m2', 3),
  out_i8: tensor('i8', 3),
  out_u8: tensor('u8', 3),
  out_i32: tensor('i32', 3),
  out_u32: tensor('u32', 3),
  out_i64: tensor('i64', 3),
  accumulate_i32: tensor('i32', 2),
  accumulate_u32: tensor('u32', 2),
  accumulate_i64: tensor('i64', 2),
  mail: tensor('i32', 3),
  ready: flags(1),
}
/**
 * The number of signals of each flag in `rounds` per launch. The number of rounds of an exchange divides this number.
 */
export const signals = 6
/** The extents of the tensor `wide`, whose rows and tiles are aligned for the TMA. */
export const wideExtents = [32, 64] as const
export const allParams = {
  ...params,
  wide: tensor('i32', 2),
  post: tensor('i32', 3),
  rounds: flags(1, { arrivals: signals }),
  asked: tensor('i32', 1),
  reply: tensor('i32', 1),
  told: tensor('i32', 1),
  go: flags(1),
}
export type Params = typeof allParams
export type Args = Arguments<Params>
export type Name = keyof Params & string

/** The largest magnitude of a `small` input. */
export const smallest = 2

/** Floats that are special cases of arithmetic. */
const special = [0, -0, 1, -1, NaN, Infinity, -Infinity, 1e30, -3e-39, 65504, 448, 57344, 0.5, 2.5, -1.5]
const corners = [0, 1, -1, 127, 128, -128, 255, 256, 2 ** 31 - 1, -(2 ** 31), 2 ** 32 - 1, 2 ** 24 + 1]

/** Returns `count` elements of a dtype, including its special values. */
export function contents(dtype: StorageDType, count: number, seed: number, small: boolean): number[] {
  const next = randomNumbers(seed)
  const { kind } = dtypes[dtype]
  return Array.from({ length: count }, () => {
    const [which, x] = [next(), next() * 2 - 1]
    if (small) return round(dtype, kind === 'int' ? Math.trunc(x * 100) : x * smallest)
    const from = kind === 'int' ? corners : special
    if (which < 0.15) return round(dtype, from[Math.floor(next() * from.length)])
    if (kind === 'int') return round(dtype, Math.trunc(x * (which < 0.5 ? 100 : 2 ** 33)))
    return round(dtype, which < 0.5 ? Math.trunc(x * 10) : x * 2 ** (which * 40 - 25))
  })
}
