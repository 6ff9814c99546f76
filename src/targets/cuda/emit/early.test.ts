/** Tests which copies a kernel may start before the previous kernel has ended (programmatic dependent launch). */
import { describe, expect, it } from 'vitest'
import { walk, type KernelIR } from '../../../ir/node.ts'
import { through } from '../../../ir/stages.ts'
import { lower } from '../stages.ts'
import { bf16, f32, i32 } from '../../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../../lang/kernel.ts'
import { pullKernel } from '../../../ops/allGatherGemm/pullInPlace.ts'
import { gemm } from '../../../ops/gemm.ts'
import { gpuStages } from '../stages.ts'
import { emitCuda } from './emit.ts'
import { factsOf, type EmitFacts, type EmittedKernel } from './recipe.ts'

const tensors = Object.fromEntries(
  ['a', 'b', 'c', 'source', 'x', 'out'].map((name) => [name, factsOf([64, 64, 64])]),
)
const emit = (ir: KernelIR, options: Pick<EmitFacts, 'record'> = {}): EmittedKernel =>
  emitCuda(lower(ir), { tensors, ...options })

describe('copies that start early', () => {
  it('lets the producer of a matrix product copy before the previous kernel has ended, unless the kernel records', () => {
    const product = gemm.record({ world: 1 })
    const { source, params } = emit(product)
    // The kernel lets the next kernel start only after the previous kernel has ended, because the next kernel may also
    // copy early.
    expect(source).toMatch(
      /if \(!is_early\) \{\n\s*kernel_before_ended\(\);\n\s*next_kernel_may_start\(\);\n/,
    )
    expect(params).toContainEqual({ kind: 'settled', groups: [['a', 'b']] })
    expect(emit(product, { record: true }).source).not.toContain('is_early')
  })

  it('does not let the next kernel start early if this kernel may poll memory for any length of time', () => {
    const begins = 'next_kernel_may_start();'
    expect(emit(gemm.record({ world: 1 })).source).toContain(begins)
    const polling = kernel('polling', { n: tensor(i32, 1) }, (t, { n }) => {
      const look = () => t.load(n.at([0]), { order: 'acquire' })
      t.while(look(), (seen) => seen.eq(0), look)
    })
    expect(emit(polling.record({ world: 1 })).source).not.toContain(begins)
  })

  const params = { x: tensor(bf16, 3), out: tensor(bf16, 3), n: tensor(i32, 1), done: flags() }
  const tile = [64, 64] as const
  /**
   * Records a kernel with a role that copies a tile and a role that uses the tile. With each `change` other than
   * `none`, the kernel must not copy before the previous kernel has ended.
   */
  const copying = (change: 'none' | 'slot' | 'ordered' | 'after' | 'alone') =>
    kernel('copying', params, (t, { x, out, n, done }) => {
      const [shared, full] = [t.shared(bf16, tile), t.barriers(1)]
      const slot = change === 'slot' ? t.epoch(done).mod(2).to(i32) : 0
      const from = x.pick(slot).tile([0, 0], tile)
      const load = (): void => {
        const order = change === 'ordered' ? ({ order: 'acquire' } as const) : {}
        t.if(t.load(n.at([0]), order).gt(0), () => t.copyAsync(from, shared, full.at(0)))
        t.arrive(full.at(0))
      }
      const use = (): void => {
        t.wait(full.at(0), 0)
        t.copy(shared, out.pick(0).tile([0, 0], tile))
      }
      t.roles(change === 'alone' ? { load } : { load, use })
      if (change === 'after') t.signal(done)
    }).record({ world: 1 })

  it('needs a role that depends only on the tensors that it copies, a second role, and no code after the roles', () => {
    const isEarly = (change: Parameters<typeof copying>[0]): boolean =>
      emit(copying(change)).source.includes('is_early')
    expect(isEarly('none')).toBe(true)
    for (const change of ['slot', 'ordered', 'after', 'alone'] as const)
      expect([change, isEarly(change)]).toEqual([change, false])
  })

  it('lets only the first role copy before the previous kernel has ended, however many warps the roles have', () => {
    const roles = (warps: readonly number[]): EmittedKernel =>
      emit(
        kernel('several', params, (t, { x, out, done }) => {
          const [tiles, full] = [
            warps.slice(1).map(() => t.shared(bf16, tile)),
            t.barriers(1, warps.length - 1),
          ]
          const load = (i: number) => () => {
            t.copyAsync(x.pick(i).tile([0, 0], tile), tiles[i], full.at(0))
            t.arrive(full.at(0))
          }
          const use = (): void => {
            t.wait(full.at(0), 0)
            tiles.forEach((one, i) => t.copy(one, out.pick(i).tile([0, 0], tile)))
            t.signal(done)
          }
          const last = warps.length - 1
          t.roles(
            Object.fromEntries(
              warps.map((count, i) => [`role${i}`, { warps: count, body: i === last ? use : load(i) }]),
            ),
          )
        }).record({ world: 1 }),
      )
    for (const warps of [
      [4, 4],
      [1, 3],
      [4, 1, 1, 4],
    ]) {
      const { source, params: recipe } = roles(warps)
      expect(source).toContain('threadIdx.x < 32 && settled != 0;  // true: the role0 may copy')
      expect(recipe).toContainEqual({ kind: 'settled', groups: [['x']] })
    }
    // The threads of roles of whole warpgroups come first in a program, and in this kernel the first such role does not
    // copy.
    expect(roles([2, 1, 1, 4]).source).not.toContain('is_early')
  })

  it('reads with relaxed loads, which bypass the L1 cache, the values that determine copies before the previous kernel has ended', () => {
    expect(emit(copying('none')).source).toContain('ld.relaxed.gpu.global')
    const loads = (ir: KernelIR): unknown[] =>
      [...walk(through(lower(ir), gpuStages, { tensors }).body)].flatMap(
        ({ op, attributes: { order, scope } }) => (op === 'load' ? [{ order, scope }] : []),
      )
    expect(loads(copying('none'))).toEqual([{ order: 'relaxed', scope: 'device' }])
    expect(loads(copying('slot'))).toEqual([{ order: undefined, scope: undefined }])
  })

  it('does not let a producer copy before the previous kernel has ended if the producer waits for flags', () => {
    const pull = pullKernel({ dtype: 'bf16', shard: 'K' }).record({ world: 2 })
    expect(emit(pull).source).not.toContain('is_early')
  })

  it('does not let a producer copy before the previous kernel has ended if an epoch bounds the loop of the producer', () => {
    const bounded = kernel(
      'bounded',
      { a: tensor(bf16, 2), b: tensor(bf16, 2), c: tensor(bf16, 2), done: flags() },
      (t, { a, b, c, done }) => {
        const [as, bs] = [t.shared(bf16, [64, 64]), t.shared(bf16, [64, 128])]
        const turns = t.epoch(done).mod(2).to(i32).add(1)
        const sum = t.pipeline([turns], t.zeros(f32, [64, 128]), ([k], acc) => {
          t.copy(b.tile([k, 0], [64, 128]), bs)
          t.copy(a.tile([0, k], [64, 64]), as)
          return t.dot(as, bs, acc)
        })
        t.copy(sum.to(bf16), c.tile([0, 0], [64, 128]))
        t.signal(done)
      },
    ).record({ world: 1 })
    expect(emit(bounded).source).not.toContain('is_early')
  })
})
