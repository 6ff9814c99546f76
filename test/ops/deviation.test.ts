/**
 * Compares the results of every operation with the reference as `arke bench` and `arke tune` do, at shapes whose extents
 * are no multiples of the number of ranks. The ranks then have outputs of different extents.
 */
import { describe, expect, it } from 'vitest'
import { operations } from '../../src/ops/operations.ts'
import { deviationOf } from '../../src/runs/contest.ts'
import { openWorld } from '../../src/index.ts'

const cells = operations.flatMap((definition) =>
  definition.points.odd.flatMap(({ shape }) =>
    Object.entries({ '': [''], ...definition.layouts }).flatMap(([option, values]) =>
      option === '' && definition.layouts
        ? []
        : values.map((value) => ({ definition, shape, layout: option === '' ? {} : { [option]: value } })),
    ),
  ),
)

describe.each(cells)('$definition.name of $shape with $layout', ({ definition, shape, layout }) => {
  it('has the reference of every rank, of all rows and of some', async () => {
    await using world = await openWorld({ target: 'wasm', ranks: 3, workers: 1, heap: 1 << 24 })
    const [variant] = definition.variants
    const operation = definition.make(world, {
      ...definition.defaults,
      ...layout,
      shape,
      dtype: 'f32',
      variant,
    })
    const contents: unknown = operation.random(1)
    operation.fill(contents as never)
    for (const rows of [undefined, [0, 1, 5]]) {
      const references = new Map<number, Float64Array>()
      const deviation = await deviationOf(world, operation as never, contents, references, rows)
      expect(deviation).toBeLessThanOrEqual(operation.tolerance)
      expect(references.size).toBe(3)
    }
  })
})
