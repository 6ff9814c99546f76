import { describe, expect, it } from 'vitest'

import { compileTogether, NO_SPILLS, noCompiler } from '../../../../test/cuda/compile.ts'
import { between, bodyOf, emit } from '../../../../test/cuda/emitting.ts'
import {
  attention,
  bytes,
  elements,
  looking,
  moves,
  productOf,
  stretched,
  teams,
  transposedGemm,
} from '../../../../test/cuda/probes.ts'
import { bf16, f32, i32 } from '../../../lang/dtypes.ts'
import { flags, kernel, scalar, tensor } from '../../../lang/kernel.ts'
import type { Program } from '../../../lang/program.ts'
import { ceilDiv, type Flags, type Tensor } from '../../../lang/tensor.ts'
import type { Value } from '../../../lang/value.ts'
import { fusedByShardKernel } from '../../../ops/allGatherGemm/fusedByShard.ts'
import { fusedKernel } from '../../../ops/flashDecode/fusedForAll.ts'
import { pullKernel } from '../../../ops/allGatherGemm/pullInPlace.ts'
import { gemm, gemmKernel } from '../../../ops/gemm.ts'
import { decodeToOwners } from '../../../../examples/13-decode-to-owners.ts'
import type { EmittedKernel } from './recipe.ts'
import { long } from '../../../../test/long.ts'

const pull = pullKernel({ dtype: 'bf16', shard: 'K' })
const fewRows = { BM: 16, BN: 128, BK: 64, stages: 4 }
const small = { BM: 64, BN: 64, BK: 32, stages: 3 }
const emitted: Readonly<Record<string, () => EmittedKernel>> = {
  gemm: () => emit(gemm.record({ world: 1 })),
  'gemm-small': () => emit(gemm.record({ world: 1, meta: small })),
  'gemm-unaligned': () => emit(gemm.record({ world: 1, meta: small }), [33, 37]),
  'all-gather-gemm-pull': () => emit(pull.record({ world: 2 })),
  'all-gather-gemm-pull-small': () => emit(pull.record({ world: 2, meta: small })),
  'all-gather-gemm-pull-recording': () => emit(pull.record({ world: 2 }), undefined, { record: true }),
  attention: () => emit(attention.record({ world: 1 })),
  'transposed-gemm': () => emit(transposedGemm.record({ world: 1 })),
  elements: () => emit(elements.record({ world: 1 })),
  teams: () => emit(teams.record({ world: 2 })),
  looking: () => emit(looking.record({ world: 2 })),
  'gemm-few-rows': () => emit(gemm.record({ world: 1, meta: fewRows })),
  'all-gather-gemm-courier': () =>
    emit(
      fusedByShardKernel({ dtype: 'bf16', parts: 4, inOrder: true }).record({ world: 2, meta: fewRows }),
      [1024, 1024, 1024, 1024],
    ),
  'gemm-f32': () => emit(gemmKernel(f32).record({ world: 1, meta: { ...small, stages: 2 } })),
  'product-from-registers': () =>
    emit(productOf('bf16').record({ world: 1, meta: { left: 'registers', right: 'registers' } }), [16, 16]),
  'product-of-bytes': () =>
    emit(productOf('f8e4m3').record({ world: 1, meta: { right: 'transposed' } }), [16, 16]),
  bytes: () => emit(bytes.record({ world: 1 }), [128]),
  stretched: () => emit(stretched.record({ world: 1 }), [96, 96]),
  moves: () => emit(moves.record({ world: 1 }), [96, 96]),
  'flash-decode-few-heads': () =>
    emit(decodeToOwners.record({ world: 2, meta: { G: 8, stages: 4 } }), [4, 8, 128, 128]),
  'flash-decode-words': () =>
    emit(fusedKernel('bf16').record({ world: 2, meta: { G: 8, stages: 2 } }), [4, 8, 128, 128]),
  'flash-decode': () => emit(decodeToOwners.record({ world: 2, meta: { G: 64 } }), [4, 64, 128, 128]),
}

describe('emitted text', () => {
  it.each(Object.keys(emitted))('%s reads as it did', async (name) => {
    await expect(bodyOf(emitted[name]())).toMatchFileSnapshot(`snapshots/${name}.cu`)
  })

  it('is equal if the same kernel is emitted twice with the same facts', () => {
    expect(emitted.gemm().source).toBe(emitted.gemm().source)
  })
})

type Told = (t: Program, c: Tensor<'i32', 2>, at: readonly Value<'i32', 0>[]) => void

describe('plans', () => {
  const maps = ({ params }: EmittedKernel) => params.flatMap((param) => (param.kind === 'map' ? [param] : []))

  it('copies tiles on other ranks with a tensor map whose outermost axis is the rank', () => {
    expect(maps(emitted['all-gather-gemm-pull']())).toEqual([
      { kind: 'map', tensor: 'a', box: [64, 128], swizzle: '128B', ranked: true },
      { kind: 'map', tensor: 'b', box: [64, 64], swizzle: '128B', ranked: false },
      { kind: 'map', tensor: 'c', box: [64, 64], swizzle: '128B', ranked: false },
    ])
  })

  it('copies a window of rows by TMA even if a tile crosses the end of the window, in boxes of 8 rows and of 1 row', () => {
    const narrow = emit(pull.record({ world: 2 }), [4096, 136])
    const boxes = maps(narrow).filter(({ tensor }) => tensor === 'b')
    expect(boxes.map(({ box }) => box)).toEqual([
      [64, 64],
      [64, 8],
      [64, 1],
    ])
    expect(bodyOf(narrow)).toContain('registers_lower')
    expect(bodyOf(narrow)).toMatch(/row < rows_left \? .* : -8/)
  })

  it('copies a window of columns by threads if a tile may cross the end of the window', () => {
    const columns = kernel('columns', { a: tensor(bf16, 2), c: tensor(f32, 2) }, (t, { a, c }) => {
      const tile = t.shared(bf16, [64, 64])
      const half = a.slice(1, 0, a.dim(1).div(2))
      const acc = t.pipeline([ceilDiv(half.dim(1), 64)], t.zeros(f32, [64, 64]), ([k], acc) => {
        t.copy(half.tile([0, k], [64, 64]), tile)
        return t.dot(tile, tile.transpose(), acc)
      })
      t.store(c.tile([0, 0], [64, 64]), acc)
    })
    expect(maps(emit(columns.record({ world: 1 }), [64, 1024])).map(({ tensor }) => tensor)).toEqual(['c'])
  })

  it('copies tiles by threads, one element at a time, if the rows are not aligned', () => {
    const text = emitted['gemm-unaligned']()
    expect(maps(text)).toEqual([])
    expect(text.source).not.toContain('setmaxnreg')
  })

  it('runs the producer on one thread and moves registers from the producer to the consumers', () => {
    const text = bodyOf(emitted.gemm())
    expect(text).toContain('registers_lower<56>();')
    expect(text).toContain('registers_raise<224>();')
  })

  it('processes tiles in groups of rows unless a program can observe the order of the tiles', () => {
    expect(bodyOf(emitted.gemm())).toContain('grouped_tile')
    expect(bodyOf(emitted['flash-decode']())).not.toContain('grouped_tile')
  })

  it.each([
    ['the program that stores it', (t, c, [i, j]) => t.store(c.at([i, j]), t.program)],
    ['an earlier tile', (t, c, [i, j]) => t.store(c.at([i, j]), t.load(c.at([0, 0])).add(1))],
    ['the order of the stores', (t, c, [i]) => t.store(c.at([i, 0]), i)],
    ['an atomic operation', (t, c, [i, j]) => t.atomic.add(c.at([i, j]), 1)],
  ] satisfies [string, Told][])('keeps the row-major order of tiles if a tile depends on %s', (_, tell) => {
    const args = { a: tensor(bf16, 2), c: tensor(i32, 2), y: tensor(f32, 2) }
    const told = kernel('told', args, (t, { a, c, y }) => {
      const tile = t.shared(bf16, [64, 64])
      t.persistent([8, 8], (at) => {
        t.copy(a.tile(at, [64, 64]), tile)
        t.store(y.tile(at, [64, 64]), t.dot(tile, tile, t.zeros(f32, [64, 64])))
        tell(t, c, at)
      })
    })
    const { source } = emit(told.record({ world: 1 }))
    expect(source).not.toContain('grouped_tile')
  })

  it('keeps the row-major order of tiles in a loop that writes the tensor of a row-major loop, but not in other loops', () => {
    const args = { a: tensor(bf16, 2), x: tensor(f32, 2), y: tensor(f32, 2) }
    const grouped = (shares: boolean): boolean => {
      const two = kernel('two', args, (t, { a, x, y }) => {
        const tile = t.shared(bf16, [64, 64])
        t.persistent([8, 8], (at) => t.store((shares ? y : x).tile(at, [64, 64]), t.zeros(f32, [64, 64])))
        t.persistent([8, 8], (at) => {
          t.copy(a.tile(at, [64, 64]), tile)
          t.store(y.tile(at, [64, 64]), t.dot(tile, tile, t.zeros(f32, [64, 64])))
        })
      })
      return emit(two.record({ world: 1 })).source.includes('grouped_tile')
    }
    expect([grouped(false), grouped(true)]).toEqual([true, false])
  })

  it('keeps a matrix product in flight only if the ring has at least two slots', () => {
    expect(bodyOf(emitted.gemm())).toContain('wgmma_wait<1>')
    expect(bodyOf(emit(gemm.record({ world: 1, meta: { stages: 1 } })))).not.toContain('wgmma_wait<1>')
  })

  it('waits until TMA stores are complete before it releases the stored data to other programs', () => {
    const text = bodyOf(emitted['all-gather-gemm-pull']())
    expect(text.indexOf('tma_store_wait_done<0>')).toBeLessThan(text.indexOf('is_last = '))
  })

  it('rejects a kernel whose shared tiles do not fit in shared memory, and names the tiles', () => {
    expect(() => emit(gemm.record({ world: 1, meta: { stages: 6 } }))).toThrow(
      /gemm\.ts:\d+:\d+: gemm needs \d+ bytes of shared memory, a program has 232448.*6x128x64 bf16/,
    )
  })
})

describe('order inside a group', () => {
  it('emits a thread barrier between accesses to one element by different threads', () => {
    const reversed = kernel('reversed', { x: tensor(f32, 1) }, (t, { x }) => {
      const tile = t.shared(f32, [128])
      t.copy(x.tile([0], [128]), tile)
      t.store(x.tile([0], [128]), t.load(tile.at([t.arange(128).neg().add(127)])))
    })
    const text = bodyOf(emit(reversed.record({ world: 1 }), [128]))
    expect(text.indexOf('shared_store')).toBeLessThan(
      text.lastIndexOf('__syncthreads();', text.indexOf('shared_load')),
    )
  })

  it('emits no thread barrier if each thread accesses only its own elements', () => {
    const doubled = kernel('doubled', { x: tensor(f32, 1) }, (t, { x }) => {
      const tile = x.tile([0], [128])
      t.store(tile, t.load(tile).mul(2))
    })
    expect(bodyOf(emit(doubled.record({ world: 1 }), [128]))).not.toContain('__syncthreads')
  })

  it('reads a flag on one thread to test whether the flag is reached, and advances no epoch', () => {
    const looks = (t: Program, y: Tensor<'i32', 1>, ready: Flags<0>): void =>
      t.store(y.at([0]), t.reached(ready).to(i32))
    const params = { y: tensor(i32, 1), ready: flags() }
    const all = emit(
      kernel('all', params, (t, { y, ready }) => looks(t, y, ready)).record({ world: 2 }),
      [64],
    )
    expect(between(bodyOf(all), 'if (thread == 0) shared_store', 'is_reached = ')).toMatch(
      /flag_reached\(flag_load\(ready\), ready_wait_epoch\)\);.*\n\s*__syncthreads\(\);/,
    )
    const alone = kernel('alone', params, (t, { y, ready }) =>
      t.roles({ one: () => looks(t, y, ready), other: () => undefined }),
    )
    const text = bodyOf(emit(alone.record({ world: 2 }), [64]))
    expect(text).toContain('const u32 is_reached = (u32)flag_reached(flag_load(ready), ready_wait_epoch);')
    expect(all).toMatchObject({ waits: [], waitSites: [] })
  })

  it('does not rely on the thread barrier of a wait that later loop iterations may skip', () => {
    const skipped = kernel(
      'skipped',
      { x: tensor(f32, 1), y: tensor(f32, 1), ready: flags() },
      (t, { x, y, ready }) => {
        t.for(4, (i) => {
          t.store(x.tile([0], [64]), t.arange(64).to(f32).mul(i.to(f32)))
          t.wait(ready)
          t.store(y.at([i]), t.load(x.at([63])))
        })
      },
    )
    const text = bodyOf(emit(skipped.record({ world: 2 }), [64]))
    expect(between(text, 'awaited_1 = ready_flag;', 'loaded = ')).toMatch(/}\n\s*__syncthreads\(\);/)
  })

  it('emits a thread barrier after an atomic whose indices may repeat, but not if the indices are consecutive', () => {
    const lanes = (name: string, repeat: boolean) =>
      kernel(name, { x: tensor(i32, 1), y: tensor(i32, 1) }, (t, { x, y }) => {
        const i = t.arange(64)
        const places = x.at([repeat ? i.div(2) : i.add(3)])
        t.atomic.add(places, 1)
        t.store(y.at([i]), t.load(places))
      })
    expect(bodyOf(emit(lanes('repeated', true).record({ world: 1 }), [128]))).toContain('__syncthreads')
    expect(bodyOf(emit(lanes('counted', false).record({ world: 1 }), [128]))).not.toContain('__syncthreads')
  })

  it('emits a thread barrier after a loop if the next store overwrites an element that the loop condition reads', () => {
    const counted = kernel('counted', { turns: tensor(i32, 1) }, (t, { turns }) => {
      t.while(
        { i: t.constant(i32, 0) },
        ({ i }) => i.lt(t.load(turns.at([0]))),
        ({ i }) => {
          t.fence('acqRel')
          return { i: i.add(1) }
        },
      )
      t.store(turns.at([0]), 100)
    })
    const text = bodyOf(emit(counted.record({ world: 1 }), [64]))
    expect(between(text, '+ 1u);', '= 100;')).toMatch(/}\n\s*__syncthreads\(\);/)
  })

  describe('between iterations of a loop', () => {
    const x = { x: tensor(f32, 1) }
    const textOf = (body: Parameters<typeof kernel<typeof x>>[2]): string =>
      bodyOf(emit(kernel('again', x, body).record({ world: 1 }), [1024]))

    it('emits a thread barrier if a window moves in each iteration to elements of other threads', () => {
      const text = textOf((t, { x }) =>
        t.for(4, (i) => {
          const window = x.slice(0, i, 64).tile([0], [64])
          t.store(window, t.load(window).add(1))
        }),
      )
      expect(between(text, 'for (i32', 'loaded_f32[')).toContain('__syncthreads();')
    })

    it('emits a thread barrier if tiles overlap because their window moves down while the tile index grows', () => {
      const text = textOf((t, { x }) =>
        t.for(4, (i) => {
          const window = x.slice(0, t.constant(i32, 256).sub(i.mul(65)), 512).tile([i], [64])
          t.store(window, t.load(window).add(1))
        }),
      )
      expect(between(text, 'for (i32', 'loaded_f32[')).toContain('__syncthreads();')
    })

    it('emits no thread barrier if tiles are disjoint, or if each thread accesses the same elements again', () => {
      const text = textOf((t, { x }) =>
        t.for(4, () =>
          t.for(4, (j) => {
            const tile = x.slice(0, 64, 512).tile([j], [64])
            t.store(tile, t.load(tile).add(1))
          }),
        ),
      )
      expect(text).not.toContain('__syncthreads')
    })
  })
})

describe('products', () => {
  const textOf = (dtype: Parameters<typeof productOf>[0], meta: object): string =>
    bodyOf(emit(productOf(dtype).record({ world: 1, meta: { ...meta } }), [64, 64]))

  it('uses the widest matrix instruction that the rows of a product fill', () => {
    expect(textOf('bf16', { M: 64 })).toContain('wgmma_m64n16k16_bf16<')
    expect(textOf('bf16', { M: 48 })).toContain('mma_bf16(')
    expect(textOf('f16', { M: 1, N: 8 })).toContain('mma_f16(')
  })

  it('computes the transposed product with wgmma if a product has few rows and enough columns', () => {
    expect(textOf('bf16', { M: 24, N: 128, K: 64 })).toMatch(
      /wgmma_m64n24k16_bf16<1, 0>\(part<12>\(acc, 0\).*\n.*wgmma_m64n24k16_bf16<1, 0>\(part<12>\(acc, 12\)/,
    )
    expect(textOf('f16', { M: 8, N: 64, K: 64, right: 'transposed' })).toContain(
      'wgmma_m64n8k16_f16<0, 0>(acc',
    )
    expect(textOf('f16', { M: 16, N: 64, K: 64, left: 'transposed' })).toContain(
      'wgmma_m64n16k16_f16<1, 1>(acc',
    )
  })

  it('divides the columns of a product among wgmma instructions at panel boundaries', () => {
    const wide = (N: number, right = 'shared'): string => textOf('bf16', { M: 64, N, K: 32, right })
    expect(wide(320)).toContain('wgmma_m64n64k16_bf16<0, 1>(part<32>(acc, 128)')
    expect(wide(384)).toContain('wgmma_m64n192k16_bf16<0, 1>(part<96>(acc, 96)')
    expect(wide(320, 'transposed')).toContain('wgmma_m64n160k16_bf16<0, 0>(part<80>(acc, 80)')
    for (const N of [320, 384, 448]) expect(wide(N)).not.toMatch(/\d\.\d+\) \*/)
  })

  it('does not transpose a product that has more rows than one wgmma instruction has columns', () => {
    expect(textOf('bf16', { M: 264, N: 64, K: 32 })).toContain('mma_bf16(')
  })

  it('divides a product among all warps even if the result is an operand of another product', () => {
    const twice = kernel('twice', { a: tensor(bf16, 2), y: tensor(f32, 2) }, (t, { a, y }) => {
      const [few, many] = [t.shared(bf16, [16, 64]), t.shared(bf16, [64, 64])]
      t.copy(a.tile([0, 0], [16, 64]), few)
      t.copy(a.tile([0, 0], [64, 64]), many)
      const first = t.dot(few, many, t.zeros(f32, [16, 64]))
      t.store(y.tile([0, 0], [16, 64]), t.dot(first.to(bf16), many, t.zeros(f32, [16, 64])))
    })
    // 16 x 64 elements on 128 threads are 8 elements per thread.
    expect(bodyOf(emit(twice.record({ world: 1 })))).toMatch(/float acc\[8\]/)
  })

  it('transposes a product only if its rows are a multiple of 8, its columns of 64, and no operand is in registers', () => {
    for (const meta of [
      { M: 12, N: 64, K: 64 },
      { M: 16, N: 96, K: 64 },
      { M: 16, N: 64, K: 64, left: 'registers' },
    ])
      expect(textOf('bf16', meta)).toContain('mma_bf16(')
  })

  it('does not transpose a product if the rows of the result are reduced', () => {
    const ofRows = kernel('ofRows', { a: tensor(bf16, 2), y: tensor(f32, 1) }, (t, { a, y }) => {
      const [few, many] = [t.shared(bf16, [16, 64]), t.shared(bf16, [64, 64])]
      t.copy(a.tile([0, 0], [16, 64]), few)
      t.copy(a.tile([0, 0], [64, 64]), many)
      t.store(y.tile([0], [16]), t.dot(few, many, t.zeros(f32, [16, 64])).sum(1))
    })
    expect(bodyOf(emit(ofRows.record({ world: 1 })))).toContain('mma_bf16(')
  })

  it('uses plain arithmetic if no matrix instruction computes what the language defines', () => {
    for (const dtype of ['f32', 'i8', 'f8e4m3', 'f8e5m2'] as const) {
      const text = textOf(dtype, { M: 64, N: 64, K: 32 })
      expect(text).not.toContain('mma_')
      expect(text).toContain(dtype === 'i8' ? 'acc[i] + left[' : 'fmaf(left[')
    }
    expect(textOf('bf16', { M: 64, K: 10 })).toContain('fmaf(left[')
  })

  it('takes the left operand from registers if each warp holds its rows, otherwise through shared memory', () => {
    const text = bodyOf(emitted['flash-decode-few-heads']())
    expect(text).toContain(
      'mma_bf16(part<4>(acc_2, octet * 4), part<4>(loaded_bf16, step * 4), right[0], right[1]);',
    )
    expect(text).toContain('load_matrix_x4(left0, ')
  })
})

describe('a fragment in two layouts', () => {
  const textOf = (body: Parameters<typeof kernel<{ y: ReturnType<typeof square> }>>[2]): string =>
    bodyOf(emit(kernel('twice', { y: square() }, body).record({ world: 1 }), [64, 64]))
  const square = () => tensor(f32, 2)

  it('exchanges the elements of a fragment through shared memory once per use that needs another layout', () => {
    const text = textOf((t, { y }) => {
      const x = t.load(y.tile([0, 0], [64, 64]))
      const sums = x.sum(1)
      t.store(y.tile([0, 0], [64, 64]), x.mul(sums.expand(1)).mul(sums.expand(0)))
    })
    expect(text.match(/float moved\w*\[/g)).toHaveLength(1)
    expect(text).toMatch(
      /shared_store<float>.*row_sum[\s\S]*__syncthreads[\s\S]*moved\[i\] = shared_load<float>/,
    )
  })

  it('is transposed through shared memory', () => {
    const text = textOf((t, { y }) =>
      t.store(y.tile([0, 0], [64, 64]), t.load(y.tile([0, 0], [64, 64])).transpose()),
    )
    expect(text.match(/float moved\w*\[/g)).toHaveLength(1)
  })

  it('exchanges no elements between threads if the elements are computed from their indices', () => {
    const text = textOf((t, { y }) => {
      const at = t.arange(64)
      const sum = at
        .expand(1)
        .broadcast([64, 64])
        .add(at.expand(0).broadcast([64, 64]))
      t.store(y.tile([0, 0], [64, 64]), sum.to(f32))
    })
    expect(text).not.toContain('moved')
  })
})

describe('the abort of a launch', () => {
  const loop = kernel('loop', { x: tensor(i32, 1), turns: scalar(i32) }, (t, { x, turns }) => {
    t.for(turns, (i) => t.store(x.at([i]), i))
    t.for(4, (i) => t.store(x.at([i]), i))
  })
  const poll = kernel('poll', { x: tensor(i32, 1) }, (t, { x }) => {
    const look = () => t.load(x.at([0]), { order: 'acquire' })
    t.while(look(), (seen) => seen.eq(0), look)
  })
  const handOver = kernel('handOver', { x: tensor(f32, 1) }, (t, { x }) => {
    const full = t.barriers(1)
    t.roles({
      one: () => t.arrive(full.at(0)),
      other: () => {
        t.wait(full.at(0), 0)
        t.store(x.at([0]), 1)
      },
    })
  })
  const looks = (text: string): number => text.match(/abort_raised/g)?.length ?? 0

  it('ends a loop of unknown length, which polls the abort word, whereas a short loop does not poll', () => {
    const text = bodyOf(emit(loop.record({ world: 1 }), [64]))
    expect(text).toContain(
      'if ((u32)i0 % 1024 == 1023 && group_any(0, 128, thread == 0 && abort_raised(control))) break;',
    )
    expect(looks(text)).toBe(1)
  })
  it('lets the waits in a pipelined loop, and not the loop itself, poll the abort word', () => {
    const text = bodyOf(emitted.gemm())
    expect(text.match(/% 1024 == 1023/)).toBeNull()
    expect(text).toContain('if (!barrier_await(')
  })
  it('lets every wait (for a flag, in a loop or at a barrier) write a wait record', () => {
    for (const made of [poll, handOver]) {
      const { source, waitSites } = emit(made.record({ world: 1 }), [64])
      expect(source).toContain('tell_wait(control, 1, 0xffffffff, 0, 0);')
      expect(waitSites).toHaveLength(1)
    }
    expect(emitted['all-gather-gemm-pull']().source).toContain(
      'tell_wait(control, site, owner, value, wanted);',
    )
  })
  it('lets a kernel with waits return at its start if the launch is already aborted', () => {
    const isChecked = (one: EmittedKernel): boolean =>
      bodyOf(one).includes('if (__syncthreads_or(is_stopped)) return;')
    expect(
      [emitted['all-gather-gemm-pull'](), emit(poll.record({ world: 1 })), emitted.gemm()].map(isChecked),
    ).toEqual([true, true, false])
  })
})

describe('an op that cannot be lowered is rejected at its source line', () => {
  const one = { y: tensor(f32, 2) }
  const refusal = (body: Parameters<typeof kernel<typeof one>>[2]): unknown => {
    try {
      emit(kernel('refused', one, body).record({ world: 1 }), [64, 64])
    } catch (error) {
      return (error as Error).message
    }
    return 'accepted'
  }
  const here = /^src\/targets\/cuda\/emit\/emit\.test\.ts:\d+:\d+: /

  it('rejects the result of an atomic on one element per row of a matrix', () => {
    const message = refusal((t, { y }) => {
      const sums = t.load(y.tile([0, 0], [64, 64])).sum(1)
      const before = t.atomic.add(y.at([t.arange(64), t.arange(64)]), sums)
      t.store(y.tile([0, 0], [64, 64]), t.load(y.tile([0, 0], [64, 64])).mul(before.expand(1)))
    })
    expect(message).toMatch(here)
    expect(message).toMatch(/atomic\.add: the result of an atomic on one element per row/)
  })
})

if (noCompiler) console.log(`emitted CUDA is not compiled here: ${noCompiler}`)

describe.skipIf(noCompiler)('compiled for sm_90a', () => {
  const names = Object.keys(emitted)
  const instructions = ['mma.sync.aligned', 'wgmma.mma_async.sync.aligned']
  const instructionOf = (name: string): string[] => {
    if (/few-heads|words|registers/.test(name)) return ['mma.sync.aligned']
    return /gemm(?!-f32)|attention|decode/.test(name) ? ['wgmma.mma_async.sync.aligned'] : []
  }

  it(
    'compiles every sample kernel without register spills and with the expected matrix instruction',
    long,
    () => {
      const compiled = compileTogether(names.map((name) => emitted[name]()))
      const found = names.map((name, i) => ({
        name,
        properties: compiled[i].properties,
        instructions: instructions.filter((one) => compiled[i].ptx.includes(one)),
      }))
      expect(found).toEqual(
        names.map((name) => ({ name, properties: NO_SPILLS, instructions: instructionOf(name) })),
      )
    },
  )
})
