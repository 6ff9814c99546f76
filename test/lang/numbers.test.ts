/**
 * Tests plain numbers beside symbols: the dtype that a plain number gets in `select`, and `ceilDiv` of numbers and of
 * symbols.
 */
import { describe, expect, it } from 'vitest'
import { bf16, ceilDiv, expectClose, f32, i32, kernel, openWorld, scalar, tensor } from 'arke'

const oneToThree = [1, 2, 3]

describe('select', () => {
  const choose = kernel(
    'choose',
    { x: tensor(i32, 1), left: tensor(i32, 1), right: tensor(bf16, 1), both: tensor(f32, 1) },
    (t, { x, left, right, both }) => {
      const value = t.load(x.tile([0], [3]))
      const isLarge = value.gt(1)
      t.store(left.tile([0], [3]), isLarge.select(-1, value))
      t.store(right.tile([0], [3]), isLarge.select(value.to(bf16), 0.5))
      t.store(both.tile([0], [3]), isLarge.select(0.25, -Infinity))
    },
  )

  it('takes a number for either choice, and two numbers as f32', async () => {
    const world = await openWorld({ ranks: 1 })
    const args = {
      x: world.from(i32, [3], oneToThree),
      left: world.empty(i32, [3]),
      right: world.empty(bf16, [3]),
      both: world.empty(f32, [3]),
    }
    world.launch(choose, args, { grid: 1 })
    expectClose(await world.read(args.left, 0), [1, -1, -1])
    expectClose(await world.read(args.right, 0), [0.5, 2, 3])
    expectClose(await world.read(args.both, 0), [-Infinity, 0.25, 0.25])
    await world.close()
  })
})

describe('ceilDiv', () => {
  /** The smallest number of blocks of `size` elements that hold `extent` elements. */
  const counted = (extent: number, size: number): number => {
    let parts = 0
    while (parts * size < extent) parts++
    return parts
  }
  const cases = [0, 1, 2, 3, 4, 9, 10, 12].flatMap((extent) =>
    [1, 3, 4].map((size) => [extent, size] as const),
  )

  it.each(cases)('of %i by %i on the host', (extent, size) => {
    expect(ceilDiv(extent, size)).toBe(counted(extent, size))
  })

  it('of symbols, and of a symbol and a number on either side', async () => {
    const divide = kernel(
      'divide',
      { extent: scalar(i32), size: scalar(i32), out: tensor(i32, 1) },
      { EXTENT: 0, SIZE: 1 },
      (t, { extent, size, out }, { EXTENT, SIZE }) => {
        t.store(out.at([0]), ceilDiv(extent, size))
        t.store(out.at([1]), ceilDiv(extent, SIZE))
        t.store(out.at([2]), ceilDiv(EXTENT, size))
      },
    )
    const world = await openWorld({ ranks: 1 })
    const out = world.empty(i32, [3])
    for (const [extent, size] of cases) {
      const meta = { EXTENT: extent, SIZE: size }
      world.launch(divide, { extent, size, out }, { grid: 1, meta })
      expectClose(await world.read(out, 0), new Array<number>(3).fill(counted(extent, size)))
    }
    await world.close()
  })
})
