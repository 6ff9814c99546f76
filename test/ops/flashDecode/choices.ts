/**
 * Options that select every kernel of Flash Decode, by name: the variants with their defaults, and the kernels that
 * options select for `fused`.
 */
import { flashDecodeOperation, type FlashDecodeOptions } from '../../../src/ops/flashDecode/index.ts'

type Choice = Pick<FlashDecodeOptions, 'variant' | 'owners' | 'stealing' | 'fetching'>

export const choices: readonly (readonly [name: string, choice: Choice])[] = [
  ...flashDecodeOperation.variants.map((variant) => [variant, { variant }] as const),
  ['fused, with owners', { variant: 'fused', owners: true }],
  ['fused, without stealing', { variant: 'fused', stealing: false, fetching: false }],
  ['fused, fetching', { variant: 'fused', fetching: true }],
]
