/** Tests operations that authors define: their results, their defaults, and the mistakes that are rejected. */
import { defineOperation, explore, f32, kernel, openWorld, scenariosOf, tensor } from 'arke'
import { describe, expect, it } from 'vitest'
import { isOperation } from '../../src/operation/definition.ts'

const scale = kernel(
  'scale',
  { x: tensor(f32, 2), y: tensor(f32, 2) },
  { ROWS: 2 },
  (t, { x, y }, { ROWS }) =>
    t.persistent(y.tiles([ROWS, 4]), (tile, at) => t.store(tile, t.load(x.tile(at, [ROWS, 4])).mul(3))),
)

/** The test operation computes y = 3 x on every rank; the reference has another factor if one is given. */
const triple = (factor = 3, step = 'scale') =>
  defineOperation({
    name: 'triple',
    shape: { rows: 5, columns: 6 },
    dtypes: ['f32'],
    aliases: { r: 'rows' },
    tiles: () => ({ ROWS: 2 }),
    candidates: () => [{ ROWS: 2 }, { ROWS: 4 }],
    inputs: (world, { shape: { rows, columns } }) => ({ x: world.zeros(f32, [rows, columns]) }),
    output: (world, { shape: { rows, columns } }) => world.empty(f32, [rows, columns]),
    variants: {
      bsp: ({ world, inputs: { x }, output: y, tiles, options }) => [
        { name: 'scale', launch: () => world.launch(scale, { x, y }, { ...options, meta: tiles }) },
      ],
      fused: ({ world, inputs: { x }, output: y, tiles, options }) => [
        {
          name: 'scale',
          launch: () => world.launch(scale, { x, y }, { ...options, meta: tiles }),
        },
      ],
    },
    limit: { step, name: 'the kernel alone' },
    reference: ({ x }, { rank, shape: { columns } }, row) =>
      Array.from({ length: columns }, (_, column) => factor * x[rank][row * columns + column]),
    tolerance: () => 1e-6,
    flops: ({ shape: { rows, columns } }) => rows * columns,
    remoteBytes: () => 0,
  })

describe('a defined operation', () => {
  it('has the interface of a shipped one, with defaults', () => {
    const operation = triple()
    expect(isOperation(operation)).toBe(true)
    expect(operation).toMatchObject({
      title: 'triple',
      variants: ['bsp', 'fused'],
      fused: ['fused'],
      defaults: { shape: { rows: 5, columns: 6 }, dtype: 'f32', variant: 'fused' },
      packs: false,
      measurements: [],
    })
  })

  it.each(['bsp', 'fused', 'auto'] as const)('computes its reference as %s', async (variant) => {
    await using world = await openWorld({ target: 'wasm', ranks: 3, workers: 1 })
    const operation = triple().make(world, { shape: { rows: 7, columns: 5 }, dtype: 'f32', variant })
    for (const seed of [1, 2]) {
      const contents = operation.random(seed)
      operation.fill(contents)
      operation.launch()
      for (const rank of world.localRanks) {
        const found = await operation.result(rank)
        expect(found).toEqual(
          Float64Array.from(contents.x[rank] as Float32Array, (value) => Math.fround(3 * value)),
        )
        const expected = operation.reference(contents, rank)
        expected.forEach((value, i) => expect(Math.abs(value - found[i])).toBeLessThan(operation.tolerance))
        // The rows of the reference do not depend on which rows the caller asks for.
        expect(operation.reference(contents, rank, [6, 2])).toEqual(
          Float64Array.of(...expected.subarray(30, 35), ...expected.subarray(10, 15)),
        )
      }
    }
    // The contents of different ranks and seeds differ.
    const [one, two] = [operation.random(1), operation.random(2)]
    expect(new Set([one.x[0], one.x[1], two.x[0]].map((numbers) => numbers[0])).size).toBe(3)
  })

  it('tries the default tiles first, and no tiles twice', async () => {
    await using world = await openWorld({ ranks: 1 })
    const { tiling, defaults } = triple()
    expect(tiling(world, defaults).candidates()).toEqual([{ ROWS: 2 }, { ROWS: 4 }])
  })

  it('has scenarios that are clean, and that notice a wrong result', async () => {
    const options = { ranks: 2, options: { shape: { rows: 3, columns: 5 }, grid: 1 } }
    for (const one of scenariosOf(triple(), options))
      expect((await explore(one, { ranks: 2, schedules: 3 })).findings).toEqual([])
    const [wrong] = scenariosOf(triple(2), options)
    await using world = await openWorld({ ranks: 2 })
    await expect(wrong.run(world)).rejects.toThrow(/triple bsp: element 0 of rank 0 is .*, expected /)
    expect(wrong.site?.position?.file).toBe(import.meta.filename)
  })

  it('rejects extents, dtypes and variants that it does not have', async () => {
    await using world = await openWorld({ ranks: 1 })
    const { make, defaults } = triple()
    const made = (change: object) => () => make(world, { ...defaults, ...change })
    expect(made({ shape: { rows: 0, columns: 1 } })).toThrow('triple: rows is 0; it must be a whole number')
    expect(made({ dtype: 'bf16' })).toThrow('triple: dtype bf16; the kernels accept f32')
    expect(made({ variant: 'fast' })).toThrow('triple: there is no fast; choose one of bsp, fused')
  })
})

describe('a record that is incomplete', () => {
  const none = () => 0
  const methods = {
    inputs: none,
    output: none,
    reference: none,
    tolerance: none,
    flops: none,
    remoteBytes: none,
  }
  const whole = { name: 'x', shape: {}, variants: { bsp: none }, limit: { step: 'a', name: 'b' }, ...methods }
  const define = (change: object) => () => defineOperation({ ...whole, ...change } as never)
  it('is rejected with the field that is missing', () => {
    expect(define({ name: 'two words' })).toThrow(
      'defineOperation: the name of the operation is "two words", but must be a single word',
    )
    expect(define({ variants: { fused: none } })).toThrow(
      'x has no variant bsp, with which the others are compared; it has fused',
    )
    expect(define({ variants: undefined })).toThrow('it has none')
    expect(define({ reference: undefined })).toThrow('defineOperation: x has no function reference')
    expect(define({ limit: undefined })).toThrow('x has no limit.step')
    expect(define({})).not.toThrow()
  })

  it('is rejected at its line if the limit is no step of bsp', async () => {
    await using world = await openWorld({ ranks: 1 })
    const operation = triple(3, 'scales')
    const { shape, dtype } = operation.defaults
    const make = (variant: 'bsp' | 'fused') => () => operation.make(world, { shape, dtype, variant })
    expect(make('bsp')).toThrow(
      /^test\/operation\/define\.test\.ts:16:3: triple: limit\.step is "scales", but the steps of bsp are scale$/,
    )
    // The steps of the variant `bsp` are known only once the operation is allocated as `bsp`.
    expect(make('fused')).not.toThrow()
  })
})
