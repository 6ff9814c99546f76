/** Tests reductions along both axes, changes of shape, and matrix products of every dtype, at aligned and odd sizes. */
import { describe, expect } from 'vitest'
import { kernel, tensor, type Ref, type Value } from '../../../src/index.ts'
import type { DotDType } from '../../../src/ir/dtype.ts'
import { wrap } from './formats.ts'
import { fewerOn, itForEach, onWorld, poison, range, targets } from './harness.ts'
import { indices } from './indices.ts'

const arithmetic = ['f32', 'i32', 'u32', 'i64'] as const
type Arithmetic = (typeof arithmetic)[number]

describe.each(targets)('reductions and shapes on %s', (target) => {
  const matrices = fewerOn<readonly [number, number]>(
    target,
    [
      [3, 5],
      [4, 8],
      [1, 7],
      [9, 1],
      [16, 33],
    ],
    [
      [9, 1],
      [16, 33],
    ],
  )
  const at = (dtype: Arithmetic, k: number): number => ((k * 7 + 3) % 23) - (dtype === 'u32' ? 0 : 11)

  itForEach(target, arithmetic)(
    'of %s along both axes, expanded, stretched and transposed',
    async (dtype) => {
      const made = kernel(`reduce_${dtype}`, { x: tensor(dtype, 1), y: tensor(dtype, 2) }, (t, { x, y }) => {
        matrices.forEach(([rows, columns], m) => {
          const matrix = t.load(
            x.at([indices(t, [rows, columns], 0) as number]) as Ref<'i32', 0>,
          ) as never as Value<'i32', 2>
          const out = (kind: number, value: Value): void =>
            t.store(y.at([m * 8 + kind, indices(t, value.shape, 0) as number]) as never, value as never)
          out(0, matrix.sum(0))
          out(1, matrix.sum(1))
          out(2, matrix.maximum(0))
          out(3, matrix.minimum(1))
          out(4, matrix.transpose())
          out(5, matrix.sub(matrix.maximum(1).expand(1)))
          out(6, matrix.minimum(0).expand(0).broadcast([3, columns]))
          out(7, matrix.sum(1).sum())
        })
      })
      const width = 16 * 33
      await onWorld(target, 1, async (world) => {
        const x = world.from(
          dtype,
          [width],
          range(width).map((k) => at(dtype, k)),
        )
        const y = world.full(dtype, [matrices.length * 8, width], poison)
        world.launch(made, { x, y } as never, { grid: 1 })
        const got = await world.read(y, 0)
        matrices.forEach(([rows, columns], m) => {
          const cell = (i: number, j: number): number => at(dtype, i * columns + j)
          const row = (i: number): number[] => range(columns).map((j) => cell(i, j))
          const column = (j: number): number[] => range(rows).map((i) => cell(i, j))
          const sum = (list: number[]): number => list.reduce((total, one) => total + one, 0)
          const fit = (value: number): number => (dtype === 'f32' ? value : wrap(dtype, BigInt(value)))
          const expected = [
            range(columns).map((j) => fit(sum(column(j)))),
            range(rows).map((i) => fit(sum(row(i)))),
            range(columns).map((j) => Math.max(...column(j))),
            range(rows).map((i) => Math.min(...row(i))),
            range(columns).flatMap((j) => column(j)),
            range(rows).flatMap((i) => row(i).map((one) => fit(one - Math.max(...row(i))))),
            range(3).flatMap(() => range(columns).map((j) => Math.min(...column(j)))),
            [fit(sum(range(rows).flatMap(row)))],
          ]
          expected.forEach((wanted, kind) => {
            const from = (m * 8 + kind) * width
            expect([...got.subarray(from, from + wanted.length)], `${kind} of ${rows}x${columns}`).toEqual(
              wanted,
            )
          })
        })
      })
    },
  )
})

describe.each(targets)('products on %s', (target) => {
  const sizes = fewerOn<readonly [number, number, number]>(
    target,
    [
      [1, 1, 1],
      [4, 8, 4],
      [5, 7, 3],
      [1, 9, 16],
      [17, 5, 8],
      [8, 16, 33],
      [8, 64, 16],
      [24, 128, 32],
    ],
    [
      [5, 7, 3],
      [8, 64, 16],
    ],
  )
  const [height, width, depth] = range(3).map((axis) => Math.max(...sizes.map((size) => size[axis])))
  itForEach(target, ['f32', 'f16', 'bf16', 'f8e4m3', 'f8e5m2', 'i8'])(
    'of %s, from shared tiles and fragments, with the right side transposed or not',
    async (dtype: DotDType) => {
      const result = dtype === 'i8' ? 'i32' : 'f32'
      const made = kernel(
        `dot_${dtype}`,
        { a: tensor(dtype, 2), b: tensor(dtype, 2), bt: tensor(dtype, 2), y: tensor(result, 3) },
        (t, { a, b, bt, y }) => {
          const tiles = sizes.map(([m, n, k]) => ({
            left: t.shared(dtype, [m, k]),
            right: t.shared(dtype, [k, n]),
            other: t.shared(dtype, [n, k]),
          }))
          sizes.forEach(([m, n, k], i) => {
            const { left, right, other } = tiles[i]
            t.copy(a.tile([0, 0], [m, k]) as never, left)
            t.copy(b.tile([0, 0], [k, n]) as never, right)
            t.copy(bt.tile([0, 0], [n, k]) as never, other)
            const start = t.full(result, [m, n], 2) as never
            const put = (kind: number, value: Value): void =>
              t.store(y.pick(i * 4 + kind).tile([0, 0], [m, n]) as never, value as never)
            put(0, t.dot(left, right, start))
            put(1, t.dot(left, other.transpose(), start))
            put(2, t.dot(t.load(left), right, start))
            put(3, t.dot(t.load(left), t.load(right), start))
          })
        },
      )
      // The operands are small integers, for which products and sums are exact in every format and any order.
      const left = (i: number, k: number): number => ((i * 3 + k * 5) % 7) - 3
      const right = (k: number, j: number): number => ((k * 2 + j * 3) % 5) - 2
      const fill = (rows: number, columns: number, f: (i: number, j: number) => number): number[] =>
        range(rows * columns).map((at) => f(Math.floor(at / columns), at % columns))
      await onWorld(target, 1, async (world) => {
        const a = world.from(dtype, [height, depth], fill(height, depth, left))
        const b = world.from(dtype, [depth, width], fill(depth, width, right))
        const bt = world.from(
          dtype,
          [width, depth],
          fill(width, depth, (j, k) => right(k, j)),
        )
        const y = world.full(result, [sizes.length * 4, height, width], poison)
        world.launch(made, { a, b, bt, y } as never, { grid: 1 })
        const got = await world.read(y, 0)
        sizes.forEach(([m, n, k], i) =>
          range(4).forEach((kind) => {
            const from = (i * 4 + kind) * height * width
            const expected = fill(height, width, (r, c) =>
              r < m && c < n ? range(k).reduce((sum, l) => sum + left(r, l) * right(l, c), 2) : poison,
            )
            expect([...got.subarray(from, from + height * width)], `${m}x${n}x${k}, form ${kind}`).toEqual(
              expected,
            )
          }),
        )
      })
    },
  )
})
