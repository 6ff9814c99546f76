/**
 * Tests that lowered loads, stores, copies and atomics produce the same contents as the checker: every dtype, masks,
 * edges, gathered rows.
 */
import { describe, expect, it } from 'vitest'
import { dtypes, round, type DType, type StorageDType } from '../../../../src/ir/dtype.ts'
import { f32, i32, kernel, tensor, type World } from '../../../../src/index.ts'
import { onBoth, platforms } from '../harness.ts'

const storage = (Object.keys(dtypes) as DType[]).filter((dtype): dtype is StorageDType => dtype !== 'bool')
const numbers = (dtype: StorageDType, count: number, seed = 1): number[] =>
  Array.from({ length: count }, (_, i) =>
    round(dtype, (((i + seed) * 37) % 101) - (dtype === 'u8' || dtype === 'u32' ? 0 : 50)),
  )

describe.each(platforms())('memory on $name', (platform) => {
  const expectSame = async (
    ranks: number,
    run: (world: World) => Promise<readonly Float64Array[]>,
  ): Promise<void> => {
    const { expected, actual } = await onBoth(platform, ranks, run)
    expect(actual).toEqual(expected)
  }

  it.each(storage)(
    'tiles of %s past the edges: loaded and stored, copied, through shared memory',
    async (dtype) => {
      const program = kernel(
        'edges',
        { x: tensor(dtype, 2), y: tensor(dtype, 2), z: tensor(dtype, 2), w: tensor(dtype, 2) },
        (t, { x, y, z, w }) => {
          const held = t.shared(dtype, [4, 6])
          t.persistent(x.tiles([4, 6]), (xi, at) => {
            t.store(y.tile(at, [4, 6]), t.load(xi))
            t.copy(xi, z.tile(at, [4, 6]))
            t.copy(xi, held)
            t.copy(held, w.tile(at, [4, 6]))
          })
        },
      )
      await expectSame(1, async (world) => {
        const x = world.from(dtype, [7, 11], numbers(dtype, 77))
        const [y, z, w] = [0, 1, 2].map(() => world.empty(dtype, [7, 11]))
        world.launch(program, { x, y, z, w }, { grid: 2 })
        return Promise.all([y, z, w].map((one) => world.read(one, 0)))
      })
    },
  )

  it('masks that are on, off and ragged, with `other` where they are off', async () => {
    const program = kernel(
      'masks',
      { x: tensor(f32, 2), y: tensor(f32, 3), n: tensor(i32, 1) },
      (t, { x, y, n }) => {
        t.for(3, (k) => {
          const mask = t
            .arange(9)
            .lt(t.load(n.at([k])))
            .expand(0)
            .broadcast([5, 9])
          const some = t.load(x.tile([0, 0], [5, 9]), { mask, other: -1 })
          t.store(y.pick(k).tile([0, 0], [5, 9]), some)
          t.store(y.pick(k.add(3)).tile([0, 0], [5, 9]), some, { mask })
          t.copy(x.tile([0, 0], [5, 9]), y.pick(k.add(6)).tile([0, 0], [5, 9]), { mask })
        })
      },
    )
    await expectSame(1, async (world) => {
      const x = world.from(f32, [4, 8], numbers('f32', 32))
      const y = world.full(f32, [9, 5, 9], 7)
      world.launch(program, { x, y, n: world.from(i32, [3], [0, 9, 5]) }, { grid: 1 })
      return [await world.read(y, 0)]
    })
  })

  it('views: slices, picks, gathered rows, single elements, transposed and staged tiles', async () => {
    const program = kernel(
      'views',
      { x: tensor(f32, 3), at: tensor(i32, 1), out: tensor(f32, 3) },
      (t, { x, at, out }) => {
        const held = t.shared(f32, [2, 4, 6])
        const rows = t.load(at.tile([0], [4]))
        const one = x.pick(1)
        t.copy(one.rows(rows).tile(1, 6), held.pick(1))
        t.store(out.pick(0).tile([0, 0], [6, 4]), t.load(held.pick(1).transpose()))
        t.store(
          out.pick(1).tile([0, 0], [4, 6]),
          t.load(one.slice(0, 2, 5).slice(1, 3, 7).tile([0, 0], [4, 6])),
        )
        t.store(out.pick(2).tile([0, 0], [4, 6]), t.load(one.rows(rows).tile(0, 6)).add(t.load(held.pick(1))))
        const [i, j] = [rows.expand(1).broadcast([4, 3]), t.arange(3).expand(0).broadcast([4, 3])]
        t.store(out.pick(3).at([i, j]), t.load(one.at([i, j])).mul(2))
        t.store(held.pick(0).at([t.arange(4), t.arange(4)]), t.full(f32, [4], 5))
        t.store(out.pick(4).at([0, 0]), t.load(held.pick(0).at([2, 2])))
      },
    )
    await expectSame(1, async (world) => {
      const x = world.from(f32, [2, 8, 11], numbers('f32', 176))
      const out = world.zeros(f32, [5, 8, 8])
      world.launch(program, { x, at: world.from(i32, [4], [3, 0, 7, 5]), out }, { grid: 1 })
      return [await world.read(out, 0)]
    })
  })

  it('every rank reads from the next rank and writes to the previous one', async () => {
    const program = kernel(
      'peers',
      { x: tensor(f32, 2), y: tensor(f32, 2), z: tensor(f32, 2) },
      (t, { x, y, z }) => {
        const next = t.rank.add(1).mod(t.world)
        t.copy(x.on(next).tile([0, 0], [4, 4]), y.tile([0, 0], [4, 4]))
        t.store(z.on(next).tile([0, 0], [4, 4]), t.load(x.tile([0, 0], [4, 4])).add(1))
      },
    )
    await expectSame(3, async (world) => {
      const x = world.from(f32, [3, 5], (rank) => numbers('f32', 15, rank))
      const [y, z] = [world.full(f32, [3, 5], 0), world.full(f32, [3, 5], 0)]
      world.launch(program, { x, y, z }, { grid: 1 })
      return Promise.all([0, 1, 2].flatMap((rank) => [world.read(y, rank), world.read(z, rank)]))
    })
  })

  it.each(['i32', 'u32', 'i64', 'f32'] as const)(
    'masked atomics on %s that return the old value',
    async (dtype) => {
      const all = [
        'add',
        'sub',
        'xchg',
        'min',
        'max',
        ...(dtype === 'f32' ? [] : ['and', 'or', 'xor', 'cas']),
      ]
      const program = kernel(
        'atomics',
        { x: tensor(dtype, 2), v: tensor(dtype, 1), before: tensor(dtype, 2) },
        (t, { x, v, before }) => {
          const values = t.load(v.tile([0], [5]))
          all.forEach((name, i) => {
            const place = x.pick(i).tile([0], [5])
            const operands = name === 'cas' ? [t.load(x.pick(i).tile([0], [5])), values] : [values]
            const atomic = t.atomic as unknown as Record<string, (...rest: unknown[]) => never>
            const mask = t.arange(5).ne(3)
            t.store(
              before.pick(i).tile([0], [5]),
              atomic[name](place, ...operands, { mask, order: 'acqRel' }),
            )
          })
        },
      )
      await expectSame(1, async (world) => {
        const x = world.from(dtype, [all.length, 5], numbers(dtype, all.length * 5))
        const before = world.full(dtype, [all.length, 5], 0)
        world.launch(program, { x, v: world.from(dtype, [5], numbers(dtype, 5, 17)), before }, { grid: 1 })
        return [await world.read(x, 0), await world.read(before, 0)]
      })
    },
  )

  it.each(storage)('ordered loads and stores of %s', async (dtype) => {
    const program = kernel('ordered', { x: tensor(dtype, 1), y: tensor(dtype, 1) }, (t, { x, y }) => {
      t.store(y.at([0]), t.load(x.at([1]), { order: 'acquire' }), { order: 'release' })
      t.store(y.at([t.arange(4).add(1)]), t.load(x.at([t.arange(4)]), { order: 'relaxed' }), {
        order: 'relaxed',
      })
    })
    await expectSame(1, async (world) => {
      const [x, y] = [world.from(dtype, [5], numbers(dtype, 5)), world.full(dtype, [5], 0)]
      world.launch(program, { x, y }, { grid: 1 })
      return [await world.read(y, 0)]
    })
  })
})
