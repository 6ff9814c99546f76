/** Tests packed weights: matrix products read them in place and return the same results as with unpacked weights. */
import { describe, expect, it } from 'vitest'
import { kernel, openWorld, tensor, type SymmetricTensor, type World } from '../../../src/index.ts'
import { round, type DotDType } from '../../../src/ir/dtype.ts'
import { ceilDiv } from '../../../src/lang/tensor.ts'
import { realTargets } from '../differential/targets.ts'
import { itForSome } from '../../long.ts'

const targets = await realTargets()
const dtypes = ['f32', 'bf16', 'f16', 'f8e4m3', 'f8e5m2', 'i8'] as const
const shapes = [
  { M: 1, N: 1, K: 1 },
  { M: 5, N: 33, K: 7 },
  { M: 13, N: 70, K: 40 },
  { M: 1, N: 129, K: 67 },
] as const
const sumsOf = (dtype: DotDType) => (dtype === 'i8' ? 'i32' : 'f32')
const tiles = { BM: 4, BN: 64, BK: 16, from: 0, depth: 0 }

/**
 * C = A x W. If `remote` is true, W belongs to the next rank. If `depth` is positive, only `depth` rows of W from row
 * `from` are used.
 */
function multiply(dtype: DotDType, remote: boolean) {
  const sums = sumsOf(dtype)
  const params = { a: tensor(dtype, 2), w: tensor(dtype, 2), c: tensor(sums, 2) }
  return kernel(`multiply_${dtype}`, params, tiles, (t, { a, w, c }, { BM, BN, BK, from, depth }) => {
    const [left, right] = [t.shared(dtype, [BM, BK]), t.shared(dtype, [BK, BN])]
    const all = remote ? w.on(t.rank.add(1).mod(t.world)) : w
    const weights = depth > 0 ? all.slice(0, from, depth) : all
    t.persistent(c.tiles([BM, BN]), (tile, [i, j]) => {
      const total = t.for(ceilDiv(a.dim(1), BK), t.zeros(sums, [BM, BN]), (k, acc) => {
        t.copy(a.tile([i, k], [BM, BK]) as never, left)
        t.copy(weights.tile([k, j], [BK, BN]) as never, right)
        return t.dot(left, right, acc as never) as typeof acc
      })
      t.store(tile, total)
    })
  })
}

const numbers = (dtype: DotDType, count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) =>
    round(dtype, (((i * 37 + seed * 11) % 29) - 14) / (dtype === 'i8' ? 1 : 3)),
  )

/** A x W in float64, and the sum of the magnitudes of its terms, which bounds the error of f32. */
function reference(a: readonly number[], w: readonly number[], M: number, N: number, K: number) {
  const sums = (of: (x: number) => number): number[] =>
    Array.from({ length: M * N }, (_, at) => {
      let sum = 0
      for (let k = 0; k < K; k++) sum += of(a[Math.floor(at / N) * K + k] * w[k * N + (at % N)])
      return sum
    })
  return { exact: sums((x) => x), sizes: sums(Math.abs) }
}

async function on(target: string, ranks: number, run: (world: World) => Promise<void>): Promise<void> {
  const world = await openWorld({ target, ranks })
  try {
    await run(world)
  } finally {
    await world.close()
  }
}

function expectProduct(
  got: ArrayLike<number>,
  plain: ArrayLike<number>,
  { exact, sizes }: { readonly exact: readonly number[]; readonly sizes: readonly number[] },
  dtype: DotDType,
  K: number,
): void {
  exact.forEach((sum, i) => {
    const bound = dtype === 'i8' ? 0 : sizes[i] * (K + 1) * 2 ** -24
    expect(Math.abs(got[i] - sum), `element ${i}: ${got[i]} for ${sum}`).toBeLessThanOrEqual(bound)
    expect(Math.abs(plain[i] - sum), `element ${i} unpacked: ${plain[i]} for ${sum}`).toBeLessThanOrEqual(
      bound,
    )
  })
}

describe.each(targets)('packed weights on %s', (target) => {
  itForSome(dtypes, (_dtype, n) => target !== 'native' || n === 0)('of %s, in odd shapes', async (dtype) => {
    const program = multiply(dtype, false)
    await on(target, 1, async (world) => {
      for (const [n, { M, N, K }] of shapes.entries()) {
        const [aValues, wValues] = [numbers(dtype, M * K, n), numbers(dtype, K * N, n + 9)]
        const a = world.from(dtype, [M, K], aValues)
        const w = world.from(dtype, [K, N], wValues)
        const [packed, plain] = [world.empty(sumsOf(dtype), [M, N]), world.empty(sumsOf(dtype), [M, N])]
        world.launch(program, { a, w: await world.pack(w), c: packed } as never, { grid: 1 })
        world.launch(program, { a, w, c: plain } as never, { grid: 1 })
        const wanted = reference(aValues, wValues, M, N, K)
        expectProduct(await world.read(packed, 0), await world.read(plain, 0), wanted, dtype, K)
      }
    })
  })

  it('of a peer, and in slices along K that begin and end inside tiles', async () => {
    const [M, N, K] = [5, 70, 40]
    const program = multiply('bf16', true)
    await on(target, 3, async (world) => {
      for (const [from, depth] of [
        [0, 0],
        [3, 21],
        [39, 1],
      ]) {
        const deep = depth || K
        const aOf = (rank: number): number[] => numbers('bf16', M * deep, rank)
        const wOf = (rank: number): number[] => numbers('bf16', K * N, 20 + rank)
        const a = world.from('bf16', [M, deep], aOf)
        const w = world.from('bf16', [K, N], wOf)
        const [packed, plain] = [world.empty('f32', [M, N]), world.empty('f32', [M, N])]
        const options = { grid: 1, meta: { from, depth } }
        const weights = await world.pack(w)
        world.launch(program, { a, w: weights, c: packed } as never, options)
        world.launch(program, { a, w, c: plain } as never, options)
        for (let rank = 0; rank < 3; rank++) {
          const rows = wOf((rank + 1) % 3).slice(from * N, (from + deep) * N)
          const wanted = reference(aOf(rank), rows, M, N, deep)
          expectProduct(await world.read(packed, rank), await world.read(plain, rank), wanted, 'bf16', deep)
        }
        world.free(weights)
      }
    })
  })

  it('keep the contents from the time of packing', async () => {
    await on(target, 1, async (world) => {
      const program = multiply('f32', false)
      const a = world.full('f32', [1, 3], 1)
      const w = world.full('f32', [3, 2], 1)
      const c = world.empty('f32', [1, 2])
      const packed = await world.pack(w)
      world.write(w, 0, [9, 9, 9, 9, 9, 9])
      world.launch(program, { a, w: packed, c } as never, { grid: 1 })
      expect([...(await world.read(c, 0))]).toEqual([3, 3])
    })
  })
})

describe('packed weights cannot be used for', () => {
  const target = 'wasm'
  const refuse = async (
    text: string,
    launch: (world: World, w: Awaited<ReturnType<World['pack']>>, x: SymmetricTensor) => void,
  ): Promise<void> =>
    on(target, 1, async (world) => {
      const w = await world.pack(world.zeros('f32', [32, 32], { name: 'w' }))
      const x = world.zeros('f32', [32, 32], { name: 'x' })
      let error: Error | undefined
      try {
        launch(world, w, x)
      } catch (thrown) {
        error = thrown as Error
      }
      expect(error?.message).toContain(text)
      // The message contains the author's source line, which is in this file.
      if (text.startsWith('w is packed, but')) expect(error?.message).toContain('packed.test.ts')
    })
  const params = { w: tensor('f32', 2), x: tensor('f32', 2) }

  it('loads of elements', async () => {
    const program = kernel('elements', params, (t, { w, x }) => t.store(x.at([0, 0]), t.load(w.at([1, 1]))))
    await refuse(
      'w is packed, but the kernel accesses the tensor other than by copying a tile',
      (world, w, x) => world.launch(program, { w, x } as never, { grid: 1 }),
    )
  })

  it('stores', async () => {
    const program = kernel('stores', params, (t, { w, x }) =>
      t.store(w.tile([0, 0], [16, 32]), t.load(x.tile([0, 0], [16, 32]))),
    )
    await refuse('w is packed, but', (world, w, x) => world.launch(program, { w, x } as never, { grid: 1 }))
  })

  it('copies to a tile that no product reads', async () => {
    const program = kernel('copies', params, (t, { w, x }) => {
      const tile = t.shared('f32', [16, 32])
      t.copy(w.tile([0, 0], [16, 32]), tile)
      t.copy(tile, x.tile([0, 0], [16, 32]))
    })
    await refuse(
      'w is packed, but the kernel uses a tile other than as the right operand of a matrix product',
      (world, w, x) => world.launch(program, { w, x } as never, { grid: 1 }),
    )
  })

  it('left operands and transposed right operands', async () => {
    for (const transposed of [false, true]) {
      const program = kernel('other', params, (t, { w, x }) => {
        const [a, b] = [t.shared('f32', [32, 32]), t.shared('f32', [32, 32])]
        t.copy((transposed ? x : w).tile([0, 0], [32, 32]), a)
        t.copy((transposed ? w : x).tile([0, 0], [32, 32]), b)
        const sum = t.dot(a, transposed ? b.transpose() : b, t.zeros('f32', [32, 32]))
        t.store(x.tile([0, 0], [32, 32]), sum)
      })
      await refuse(
        'w is packed, but the kernel uses a tile other than as the right operand of a matrix product',
        (world, w, x) => world.launch(program, { w, x } as never, { grid: 1 }),
      )
    }
  })

  it('tiles that are not whole panels, and slices of columns', async () => {
    const program = (columns: number, slice: boolean) =>
      kernel('narrow', params, (t, { w, x }) => {
        const [a, b] = [t.shared('f32', [4, 16]), t.shared('f32', [16, columns])]
        t.copy(x.tile([0, 0], [4, 16]), a)
        t.copy((slice ? w.slice(1, 4, 8) : w).tile([0, 0], [16, columns]), b)
        t.store(x.tile([0, 0], [4, columns]), t.dot(a, b, t.zeros('f32', [4, columns])))
      })
    await refuse('w is packed, but its tiles have 3 columns, not a multiple of', (world, w, x) =>
      world.launch(program(3, false), { w, x } as never, { grid: 1 }),
    )
    await refuse('w is packed, but the kernel slices the columns of the tensor', (world, w, x) =>
      world.launch(program(32, true), { w, x } as never, { grid: 1 }),
    )
  })

  it('tiles that are also filled from an unpacked tensor', async () => {
    const program = kernel('both', params, (t, { w, x }) => {
      const [a, b] = [t.shared('f32', [4, 16]), t.shared('f32', [16, 32])]
      t.copy(x.tile([0, 0], [4, 16]), a)
      t.copy(w.tile([0, 0], [16, 32]), b)
      const first = t.dot(a, b, t.zeros('f32', [4, 32]))
      t.copy(x.tile([0, 0], [16, 32]), b)
      t.store(x.tile([0, 0], [4, 32]), t.dot(a, b, first))
    })
    await refuse(
      'w is packed, but the same shared tile is also filled from an unpacked tensor',
      (world, w, x) => world.launch(program, { w, x } as never, { grid: 1 }),
    )
  })

  it('dtypes and shapes that products do not multiply', async () => {
    await on(target, 1, async (world) => {
      await expect(world.pack(world.zeros('i32', [4, 4], { name: 'w' }))).rejects.toThrow(
        'w is i32[4, 4]: only the right operand of a matrix product can be packed',
      )
      await expect(world.pack(world.zeros('f32', [4], { name: 'w' }))).rejects.toThrow('w is f32[4]')
    })
  })

  it('only some ranks', async () => {
    await on(target, 2, async (world) => {
      const [a, c] = [world.zeros('f32', [4, 16]), world.zeros('f32', [4, 64])]
      const w = world.zeros('f32', [16, 64])
      const packed = await world.pack(w)
      const mixed = { a, c, w: (rank: number) => (rank === 0 ? w : packed) }
      expect(() => world.launch(multiply('f32', false), mixed as never, { grid: 1 })).toThrow(
        'w is packed on some ranks only',
      )
    })
  })
})
