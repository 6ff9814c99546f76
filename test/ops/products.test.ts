/**
 * Tests that a step of an operation computes only a matrix product if it states the operands of one, so that another
 * library's product can replace the step.
 */
import { expect, it } from 'vitest'
import { layoutOf } from '../../src/operation/choice.ts'
import { operations } from '../../src/ops/operations.ts'
import { expectClose } from '../../src/world/world.ts'
import { openWorld } from '../../src/world/open.ts'

const ranks = 2

const cases = operations.flatMap((definition) => {
  const all = Object.entries(definition.layouts ?? {}).flatMap(([name, values]) =>
    values.map((value) => ({ [name]: value })),
  )
  return (all.length > 0 ? all : [{}]).map((layout) => ({ definition, layout, name: definition.name }))
})

it.each(cases)('of $name, $layout', async ({ definition, layout }) => {
  const world = await openWorld({ target: 'wasm', ranks, heap: 1 << 22 })
  try {
    const options = { ...definition.defaults, ...layout, variant: 'bsp' }
    const [{ shape }] = definition.points.odd
    const bsp = definition.make(world, { ...options, shape })
    expect(layoutOf(definition, { ...options })).toEqual(layout)
    bsp.fill(bsp.random(3))
    bsp.launch()
    await world.synchronize()
    for (const { product } of bsp.steps) {
      if (!product) continue
      const [{ a, b, c }, [rows, columns], [depth]] = [product, product.c.shape, product.b.shape]
      expect([a.shape[1], b.shape[1]]).toEqual([depth, columns])
      expect(a.shape[0]).toBeGreaterThanOrEqual(rows)
      for (let rank = 0; rank < ranks; rank++) {
        const [left, right] = [await world.read(a, rank), await world.read(b, rank)]
        const expected = Float64Array.from({ length: rows * columns }, (_, at) => {
          const [row, column] = [Math.floor(at / columns), at % columns]
          let sum = 0
          for (let k = 0; k < depth; k++) sum += left[row * depth + k] * right[k * columns + column]
          return sum
        })
        expectClose(await world.read(c, rank), expected, { atol: 1e-4 })
      }
    }
    // The vendor's matrix product is the baseline wherever the lower bound is a product alone.
    const step = bsp.steps.find(({ name }) => name === definition.limit.step)
    expect(step?.product !== undefined).toBe(definition.points.gpu?.alone === 'GEMM')
  } finally {
    await world.close()
  }
})
