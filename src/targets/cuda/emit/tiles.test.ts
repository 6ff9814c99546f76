/**
 * Tests packed pairs of 16-bit elements and refilled shared tiles. Runs on a device may not reveal errors in the
 * emitted code for packed pairs and refilled tiles.
 */
import { describe, expect, it } from 'vitest'
import { between, bodyOf, emit } from '../../../../test/cuda/emitting.ts'
import { bf16, f32 } from '../../../lang/dtypes.ts'
import { flags, kernel, tensor } from '../../../lang/kernel.ts'
import type { Program } from '../../../lang/program.ts'
import type { Flags, Tensor } from '../../../lang/tensor.ts'
import type { Index } from '../../../lang/value.ts'
import { decodeToOwners } from '../../../../examples/13-decode-to-owners.ts'
import { gemmKernel } from '../../../ops/gemm.ts'

describe('packed pairs of 16-bit elements', () => {
  it('computes each of two packed 16-bit elements from its own indices', () => {
    const text = bodyOf(
      emit(
        kernel(
          'counting',
          { y: tensor(bf16, 2), z: tensor(bf16, 2), v: tensor(f32, 1) },
          (t, { y, z, v }) => {
            const numbers = t.arange(64).expand(0).broadcast([16, 64]).to(f32)
            t.store(y.tile([0, 0], [16, 64]), numbers.mul(0.5).to(bf16))
            const column = t
              .load(v.tile([0], [16]))
              .expand(1)
              .broadcast([16, 64])
            t.store(z.tile([0, 0], [16, 64]), column.to(bf16))
          },
        ).record({ world: 1 }),
        [16, 64],
      ),
    )
    const pairs = text.split('\n').filter((line) => line.includes('pack_bf16('))
    expect(pairs).toHaveLength(2)
    for (const pair of pairs) {
      expect(pair).toContain('2 * p + 1')
      expect(pair).not.toMatch(/2 \* p(?: \+ 1)? [/%]/)
    }
  })
})

describe('a shared tile that is filled again', () => {
  /** Returns the emitted text of a producer iteration, from the wait at the `empty` barrier to the first TMA copy. */
  const turnOf = (meta: object): string =>
    between(
      bodyOf(emit(gemmKernel('bf16').record({ world: 1, meta: { BK: 64, stages: 3, ...meta } }))),
      'if (!barrier_await(empty',
      'tma_load_2d(',
    )

  it('emits a fence before TMA refills a tile that threads may still be reading, because an arrival at a barrier does not order their loads', () => {
    for (const meta of [
      { BM: 64, BN: 112 },
      { BM: 16, BN: 112 },
    ])
      expect(turnOf(meta)).toMatch(/break;[^]*\n\s*fence_async_shared\(\);[^]*barrier_expect_bytes/)
    const [, producer] = bodyOf(
      emit(decodeToOwners.record({ world: 2, meta: { G: 8, stages: 4 } }), [4, 8, 128, 128]),
    ).split('// producer')
    // One fence per iteration covers both keys and values.
    expect(producer.match(/fence_async_shared\(\);/g)).toHaveLength(1)
  })

  it('emits no fence before TMA refills a tile that only the matrix unit has read', () => {
    expect(turnOf({ BM: 64, BN: 256 })).not.toContain('fence_async_shared')
  })

  const shape = [64, 32] as const
  const params = { a: tensor(f32, 2), y: tensor(f32, 2), ready: flags() }
  type Given = { readonly a: Tensor<'f32', 2>; readonly y: Tensor<'f32', 2>; readonly ready: Flags<0> }
  const textOf = (
    body: (t: Program, given: Given, fill: (i: Index) => void, use: (i: Index) => void) => void,
  ) => {
    const filled = kernel('filled', params, (t, given) => {
      const [tile, full] = [t.shared(f32, shape), t.barriers(1)]
      body(
        t,
        given,
        (i) => {
          t.copyAsync(given.a.tile([i, 0], shape), tile, full.at(0))
          t.arrive(full.at(0))
        },
        (i) => {
          t.wait(full.at(0), i)
          t.store(given.y.tile([i, 0], shape), t.load(tile))
        },
      )
    })
    return bodyOf(emit(filled.record({ world: 2 }), [256, 32]))
  }

  it('emits a thread barrier and a fence before TMA refills a tile in a program without roles', () => {
    const text = textOf((t, _, fill, use) =>
      t.for(4, (i) => {
        fill(i)
        use(i)
      }),
    )
    expect(between(text, 'for (i32', 'tma_load_2d(')).toMatch(/__syncthreads\(\);[^]*fence_async_shared\(\);/)
  })

  it('emits a fence before TMA refills a tile if the role waits, or all roles synchronise, at the end of each iteration', () => {
    for (const isMeeting of [false, true]) {
      const text = textOf((t, _, fill, use) => {
        const empty = t.barriers(1)
        t.roles({
          producer: () =>
            t.for(4, (i) => {
              fill(i)
              if (isMeeting) t.barrier()
              else t.wait(empty.at(0), i)
            }),
          consumer: () =>
            t.for(4, (i) => {
              use(i)
              if (isMeeting) t.barrier()
              else t.arrive(empty.at(0))
            }),
        })
      })
      expect(between(text, '// producer', 'tma_load_2d(')).toContain('fence_async_shared();')
    }
  })

  it('emits a fence before TMA refills a tile in a role if the program has read it, or in the program if a role has read it', () => {
    const byRole = textOf((t, _, fill, use) => {
      fill(0)
      use(0)
      t.roles({ one: () => fill(1), two: () => use(1) })
    })
    expect(between(byRole, '// one', 'tma_load_2d(')).toContain('fence_async_shared();')
    const after = textOf((t, _, fill, use) => {
      fill(0)
      t.roles({ one: () => use(0), two: () => undefined })
      fill(1)
      use(1)
    })
    expect(between(after, '// two', 'tma_load_2d(')).toContain('fence_async_shared();')
  })

  it('emits a fence before TMA refills a tile if a role has waited for the flag that announces the copied data', () => {
    const text = textOf((t, { ready }, fill, use) => {
      t.signal(ready.on(t.rank.add(1).mod(t.world)))
      t.roles({ one: () => t.wait(ready), two: () => undefined })
      fill(1)
      use(0)
    })
    expect(between(text, 'flag_wait(', 'tma_load_2d(')).toContain('fence_async();')
  })
})
