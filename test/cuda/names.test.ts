/** Names that authors choose do not collide with functions and types of the emitted text, of CUDA and of C. */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, type Kernel } from '../../src/lang/kernel.ts'
import type { Tensor } from '../../src/lang/tensor.ts'
import { compileTogether, noCompiler } from './compile.ts'
import { emit } from './emitting.ts'

/** A kernel that reduces, exchanges, fetches and computes, whose author chose the given names. */
function named(name: string, [x, y, z]: readonly [string, string, string]): Kernel {
  type Args = { readonly [one: string]: Tensor<'f32', 2> }
  const params = { [x]: tensor('f32', 2), [y]: tensor('f32', 2), [z]: tensor('f32', 2) }
  return kernel(name, params, (t, args) => {
    const { [x]: from, [y]: sums, [z]: to } = args as Args
    const tile = t.shared('f32', [16, 16])
    t.getNbi(from.on(t.rank.add(1).mod(t.world)).tile([0, 0], [16, 16]), tile)
    t.quiet()
    const value = t.load(tile).exp().min(3)
    t.store(sums.pick(0).tile([0], [16]), value.sum(1))
    t.store(to.tile([0, 0], [16, 16]), value.transpose().cumsum(1))
  }) as unknown as Kernel
}

describe.skipIf(noCompiler !== undefined)('names of kernels and tensors', () => {
  it('may be those of functions and types', () => {
    const all = [
      named('puts', ['expf', 'fminf', 'shared_load']),
      named('exp', ['across', 'fetch', 'Log']),
      named('fetch', ['on_rank', 'tile_row', 'u32']),
      named('memcpy', ['threadIdx', 'scan_line', 'fetches_arrived']),
      named('normf', ['Control', 'shared_store', 'rank']),
    ]
    const emitted = all.flatMap((one) => {
      const ir = one.record({ world: 2 })
      return [emit(ir, [64, 64]), emit(ir, [64, 64], { record: true, scattered: true })]
    })
    for (const { ptx } of compileTogether(emitted)) expect(ptx).not.toBe('')
    for (const { name } of emitted) expect(name).toMatch(/_2$|^fetch$/)
  })

  it('stay as they are otherwise', () => {
    const { source, name } = emit(named('mine', ['a', 'b', 'c']).record({ world: 2 }), [64, 64])
    expect(name).toBe('mine')
    expect(source).toMatch(/ {4}float\* a,\n {4}float\* b,\n {4}float\* c,/)
  })
})
