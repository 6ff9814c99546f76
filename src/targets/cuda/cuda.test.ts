import { describe, expect, it } from 'vitest'

import { findCuda } from './driver.ts'
import { prelude, wgmmaName, type PreludeOptions } from './prelude.ts'
import { tensorMapProblem } from './tensormap.ts'
import type { TensorMapShape } from './tensormap.ts'

describe('prelude', () => {
  const wide = { n: 256, dtype: 'bf16', a: 'shared' } as const
  const textOf = (options: PreludeOptions): string =>
    Object.values(prelude(options))
      .map(({ text }) => `${text}\n`)
      .join('')

  it('emits no #include, so that compiling a kernel needs no CUDA toolkit', () => {
    expect(textOf({ wgmma: [wide] })).not.toContain('#include')
  })

  it('defines each wgmma shape once, with n / 2 accumulators per thread and four more operands', () => {
    const text = textOf({ wgmma: [wide, wide] })
    expect(text.match(/void wgmma_m64n256k16_bf16\(float \(&d\)\[128\], u64 a, u64 b\)/g)).toHaveLength(1)
    const [, wrapper] = text.split('void wgmma_m64n256k16_bf16')
    expect(wrapper.slice(0, wrapper.indexOf('\n}\n')).match(/"\+f"\(d\[\d+\]\)/g)).toHaveLength(128)
    expect(text).toContain('}, %128, %129, 1, 1, 1, %130, %131;')
  })

  it('declares a wgmma function whose operand A is in registers if the shape says so', () => {
    const shape = { n: 64, dtype: 'f16', a: 'registers' } as const
    expect(wgmmaName(shape)).toBe('wgmma_m64n64k16_f16_ra')
    expect(textOf({ wgmma: [shape] })).toContain('}, {%32, %33, %34, %35}, %36, 1, 1, 1, %37;')
  })

  it('rejects a width that wgmma does not support', () => {
    expect(() => prelude({ wgmma: [{ ...wide, n: 12 }] })).toThrow(/n must be a multiple of 8/)
  })
})

describe('tensor maps', () => {
  const shape: TensorMapShape = {
    dtype: 'bf16',
    dims: [328, 200],
    strides: [656],
    box: [64, 128],
    swizzle: '128B',
  }

  it('can describe a tensor whose row stride is a multiple of 16 bytes', () => {
    expect(tensorMapProblem(4096n, shape)).toBeNull()
  })

  it('cannot describe a tensor that breaks a rule of the TMA, and the error names the rule', () => {
    expect(tensorMapProblem(4098n, shape)).toMatch(/address 0x1002 that is not a multiple of 16 bytes/)
    expect(tensorMapProblem(4096n, { ...shape, dims: [329, 200], strides: [658] })).toMatch(
      /stride of 658 bytes/,
    )
    expect(tensorMapProblem(4096n, { ...shape, box: [128, 64] })).toMatch(/256 bytes in the 128B swizzle/)
    expect(tensorMapProblem(4096n, { ...shape, box: [64, 512] })).toMatch(/box of 512 elements/)
  })
})

describe('findCuda', () => {
  it('reports the devices of this machine, or the reason why there are none, and never throws', () => {
    const cuda = findCuda()
    if (cuda.available) expect(cuda.deviceCount).toBeGreaterThan(0)
    else expect(cuda.reason).not.toBe('')
  })
})
