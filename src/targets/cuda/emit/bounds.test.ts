/** Tests which elements get a bounds check, and how element offsets are computed. */
import { describe, expect, it } from 'vitest'
import { bodyOf } from '../../../../test/cuda/emitting.ts'
import { lower } from '../stages.ts'
import { f32, i32 } from '../../../lang/dtypes.ts'
import { kernel, scalar, tensor, type Meta } from '../../../lang/kernel.ts'
import { gemmKernel } from '../../../ops/gemm.ts'
import { emitCuda } from './emit.ts'
import { factsOf } from './recipe.ts'

const copy = kernel(
  'copy',
  { x: tensor(f32, 2), y: tensor(f32, 2), n: scalar(i32) },
  { height: 8, isFirst: false, isSliced: false },
  (t, { x, y, n }, { height, isFirst, isSliced }) => {
    const window = isSliced ? x.slice(0, n, n) : x
    t.store(y.tile([0, 0], [height, 32]), t.load(window.tile([isFirst ? 0 : t.program, 0], [height, 32])))
  },
)

/** Returns the emitted lines that load from tensor x and store to tensor y, for the given shapes of x and y. */
function linesOf(meta: Meta, x: readonly number[], y: readonly number[]) {
  const tensors = { x: factsOf(x), y: factsOf(y) }
  const lines = bodyOf(emitCuda(lower(copy.record({ world: 1, meta })), { tensors })).split('\n')
  const one = (call: string): string => {
    const line = lines.find((text) => text.includes(`${call}<`))
    expect(line, lines.join('\n')).toBeDefined()
    return line!
  }
  return { load: one('load_words'), store: one('store_words') }
}

describe('bounds checks', () => {
  it('emits one condition per tile if the extent of the axis is a multiple of the tile size', () => {
    const { load, store } = linesOf({}, [64, 32], [8, 32])
    expect(load).toContain('if ((i32)blockIdx.x * 8 < x_dim0) ')
    // The first tile of a tensor that has elements needs no bounds check.
    expect(store).not.toContain('if (')
  })

  it('emits one condition per element if a tile may cross the end of the tensor', () => {
    const { load, store } = linesOf({}, [60, 33], [9, 32])
    expect(load).toMatch(/if \(.*\(i32\).*thread.* < x_dim0 && .*thread.* < x_dim1\)/)
    expect(store).toMatch(/if \(.*thread.* < y_dim0\)/)
  })

  it('emits one condition per element of a window, because the extent of a window is not known', () => {
    expect(linesOf({ isSliced: true, isFirst: true }, [64, 32], [8, 32]).load).toMatch(
      /if \(.*thread.* < n\)/,
    )
  })

  it('emits a condition even for the first tile of a tensor if the tensor has no elements', () => {
    const { load, store } = linesOf({ isFirst: true }, [0, 32], [8, 0])
    expect(load).toContain('if (0 < x_dim0 && 0 < x_dim1) ')
    expect(store).toContain('0 < y_dim1')
  })

  it('computes element offsets in 32 bits if the tensor has fewer than 2^31 elements', () => {
    const small = linesOf({}, [1024, 32], [8, 32])
    expect(small.load).not.toContain('i64')
    const large = linesOf({}, [2 ** 26, 32], [8, 32])
    expect(large.load).toContain('(i64)')
    expect(large.store).not.toContain('i64')
  })
})

describe('shared tiles of matrix operands', () => {
  const textOf = (meta: Meta): string => {
    const tensors = { a: factsOf([512, 8192]), b: factsOf([8192, 3584]), c: factsOf([512, 3584]) }
    return emitCuda(lower(gemmKernel('bf16').record({ world: 1, meta })), { tensors }).source
  }

  it('divides a tile of 224 columns into panels of 32 columns', () => {
    const text = textOf({ BM: 128, BN: 224, BK: 64, stages: 4 })
    expect(text).toContain('wgmma.mma_async.sync.aligned.m64n224k16')
    // Panels of 64 rows x 32 columns start 4096 bytes apart in shared memory, and groups of 8 rows start 512 bytes
    // apart.
    expect(text).toMatch(/wgmma_operand<64>\([^;]*, 4096, 512\);/)
    expect(text.match(/tma_load_2d\(b_tile/g)).toHaveLength(7)
  })

  it('copies by threads if panels with an odd number of rows do not start at multiples of 128 bytes, as TMA needs', () => {
    const text = textOf({ BM: 1, BN: 64, BK: 96, stages: 3 })
    expect(text).not.toContain('tma_load_2d(a_tile')
    expect(text).toContain('tma_load_2d(b_tile')
    expect(textOf({ BM: 2, BN: 64, BK: 96, stages: 3 })).toContain('tma_load_2d(a_tile')
  })

  it('does not use TMA to copy one row of a swizzled tile, because the row is not contiguous', () => {
    const rows = kernel('rows', { x: tensor('bf16', 2), y: tensor(f32, 2) }, (t, { x, y }) => {
      const [left, right, full] = [t.shared('bf16', [64, 128]), t.shared('bf16', [128, 64]), t.barriers(1)]
      t.roles({
        producer: () => {
          t.copyAsync(x.pick(3).tile([0], [128]), left.pick(5), full.at(0))
          t.arrive(full.at(0))
        },
        consumer: () => {
          t.wait(full.at(0), 0)
          t.store(y.tile([0, 0], [64, 64]), t.dot(left, right, t.zeros(f32, [64, 64])))
        },
      })
    })
    const tensors = { x: factsOf([64, 128]), y: factsOf([64, 64]) }
    expect(emitCuda(lower(rows.record({ world: 1 })), { tensors }).source).not.toContain('tma_load')
  })

  it('divides a tile of 192 columns into panels of 64 columns', () => {
    expect(textOf({ BM: 128, BN: 192, BK: 64, stages: 4 })).toMatch(
      /wgmma_operand<128>\([^;]*, 8192, 1024\);/,
    )
  })
})
