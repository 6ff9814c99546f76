/** Casts: every dtype to every other, with ties, overflow, infinities and NaN among the numbers. */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, type Ref, type Value } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import { convert, isInteger, wrap } from './formats.ts'
import { onWorld, poison, range, storage, targets } from './harness.ts'

const count = 40
const whole = [
  0,
  1,
  -1,
  2,
  7,
  -100,
  127,
  128,
  -128,
  255,
  256,
  -65_537,
  2 ** 24 + 1,
  2 ** 31 - 1,
  -(2 ** 31),
  2 ** 30,
]
const floats = [
  ...[0, -0, 1, -1.5, 2.5, 0.1, -3.25, 3e-39, NaN, 7, 1e-20, 255.5, -128.5, 1e12, -4e9, 5e9],
  ...[448, 449, 464, 480, 57_344, 61_439, 61_440, 65_504, 65_519, 65_520, 2 ** -25, 2 ** -9, 2 ** -10],
  // Half way between two numbers of some format.
  ...[1.0625, 1.1875, 1.03125, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 2 ** -7 * 1.5],
  // Not to i64, which ends at 2^53.
  ...[1e30, Infinity, -Infinity],
]
const numbersOf = (dtype: StorageDType): number[] =>
  range(count).map((i) =>
    isInteger(dtype)
      ? wrap(dtype, BigInt(whole[i % whole.length] + Math.floor(i / whole.length)))
      : convert('f32', dtype, Math.fround(floats[i % floats.length])),
  )
const isDefined = (to: StorageDType | 'bool', x: number): boolean =>
  to !== 'i64' || Number.isNaN(x) || Math.abs(x) < 2 ** 53

const sizes = [1, 4, 7, count]
const all = ['bool', ...storage] as const

/** One kernel a pair; a bool is kept as i32. */
const casting = (from: StorageDType, to: StorageDType | 'bool') =>
  kernel(
    `cast_${from}_${to}`,
    { x: tensor(from, 1), y: tensor(to === 'bool' ? 'i32' : to, 2) },
    (t, { x, y }) =>
      sizes.forEach((size, row) => {
        const result = (t.load(x.tile([0], [size]) as Ref<'f32', 1>) as Value).to(to)
        const stored = (to === 'bool' ? result.to('i32') : result) as Value<'f32', 1>
        t.store(y.pick(row).tile([0], [size]) as Ref<'f32', 1>, stored)
      }),
  )

describe.each(targets)('casts on %s', (target) => {
  it.each(storage)('of %s to every dtype', async (from) => {
    await onWorld(target, 1, async (world) => {
      for (const to of all) {
        const given = numbersOf(from).map((x) => (isDefined(to, x) ? x : 3))
        const x = world.from(from, [count], given)
        const y = world.full(to === 'bool' ? 'i32' : to, [sizes.length, count], poison)
        world.launch(casting(from, to), { x, y } as never, { grid: 1 })
        const got = await world.read(y, 0)
        sizes.forEach((size, row) =>
          expect(
            [...got.subarray(row * count, row * count + size)],
            `${from} to ${to}, ${size} lanes`,
          ).toEqual(given.slice(0, size).map((number) => convert(from, to, number))),
        )
      }
    })
  })
})
