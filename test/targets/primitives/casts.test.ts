/** Tests casts from every dtype to every other, including ties, overflow, infinities and NaN. */
import { describe, expect } from 'vitest'
import { kernel, tensor, type Ref, type Value } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import { convert, isInteger, wrap } from './formats.ts'
import { fewerOn, itForEach, onWorld, poison, range, storage, targets } from './harness.ts'

// The number of values that each test casts. The number is odd, so the last values never fill a whole vector.
const count = 41
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
  // Values half way between two numbers of some format.
  ...[1.0625, 1.1875, 1.03125, 1 + 2 ** -8, 1 + 3 * 2 ** -8, 1 + 2 ** -11, 1 + 3 * 2 ** -11, 2 ** -7 * 1.5],
  // Values beyond 2^53 are not used for casts to i64, which is exact only up to 2^53.
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

const allSizes = [1, 4, 7, count]
const all = ['bool', ...storage] as const

const keptAs = (to: StorageDType | 'bool'): StorageDType => (to === 'bool' ? 'i32' : to)

/** Casts from one dtype to every other. Each target dtype has its own inputs, and a bool is stored as i32. */
const casting = (from: StorageDType, sizes: readonly number[]) => {
  const outputs = Object.fromEntries(all.map((to) => [`y_${to}`, tensor(keptAs(to), 2)]))
  return kernel(`cast_${from}`, { x: tensor(from, 2), ...outputs }, (t, args) =>
    all.forEach((to, given) => {
      const y = args[`y_${to}` as 'x']
      sizes.forEach((size, row) => {
        const loaded = t.load(args.x.pick(given).tile([0], [size]) as Ref<'f32', 1>) as Value
        const result = to === 'bool' ? loaded.to('bool').to('i32') : loaded.to(to)
        t.store(y.pick(row).tile([0], [size]) as Ref<'f32', 1>, result as Value<'f32', 1>)
      })
    }),
  )
}

describe.each(targets)('casts on %s', (target) => {
  itForEach(target, storage)('of %s to every dtype', async (from) => {
    const sizes = fewerOn(target, allSizes, [count])
    await onWorld(target, 1, async (world) => {
      const given = all.map((to) => numbersOf(from).map((x) => (isDefined(to, x) ? x : 3)))
      const outputs = new Map(
        all.map((to) => [to, world.full(keptAs(to), [sizes.length, count], poison)] as const),
      )
      const args = Object.fromEntries([...outputs].map(([to, y]) => [`y_${to}`, y]))
      const x = world.from(from, [all.length, count], given.flat())
      world.launch(casting(from, sizes), { x, ...args } as never, { grid: 1 })
      for (const [to, y] of outputs) {
        const got = await world.read(y, 0)
        const numbers = given[all.indexOf(to)]
        sizes.forEach((size, row) =>
          expect(
            [...got.subarray(row * count, row * count + size)],
            `${from} to ${to}, ${size} lanes`,
          ).toEqual(numbers.slice(0, size).map((number) => convert(from, to, number))),
        )
      }
    })
  })

  itForEach(target, storage)(
    'to %s of what is computed from places, and of a row or a column for all',
    async (to) => {
      const [rows, columns] = [24, 40]
      const spread = kernel(
        `spread_${to}`,
        { v: tensor('f32', 1), places: tensor(to, 2), column: tensor(to, 2), row: tensor(to, 2) },
        (t, { v, places, column, row }) => {
          const shape = [rows, columns] as const
          const put = (y: typeof places, value: Value<'f32', 2>): void =>
            t.store(y.tile([0, 0], shape) as Ref<'f32', 2>, value.to(to) as Value<'f32', 2>)
          const [i, j] = [t.arange(rows).expand(1), t.arange(columns).expand(0)].map((one) =>
            one.broadcast(shape),
          )
          put(places as never, i.mul(2).add(j).to('f32').mul(0.5))
          put(
            column as never,
            t
              .load(v.tile([0], [rows]))
              .expand(1)
              .broadcast(shape),
          )
          put(
            row as never,
            t
              .load(v.tile([0], [columns]))
              .expand(0)
              .broadcast(shape),
          )
        },
      )
      await onWorld(target, 1, async (world) => {
        const v = range(columns).map((n) => (n % 13) + 0.5)
        const wanted: Record<string, (i: number, j: number) => number> = {
          places: (i, j) => (2 * i + j) / 2,
          column: (i) => v[i],
          row: (_, j) => v[j],
        }
        const outputs = Object.fromEntries(
          Object.keys(wanted).map((name) => [name, world.full(to, [rows, columns], poison)]),
        )
        world.launch(spread, { v: world.from('f32', [columns], v), ...outputs } as never, { grid: 1 })
        for (const [name, at] of Object.entries(wanted))
          expect([...(await world.read(outputs[name], 0))], `${name} as ${to}`).toEqual(
            range(rows * columns).map((n) => convert('f32', to, at(Math.floor(n / columns), n % columns))),
          )
      })
    },
  )
})
