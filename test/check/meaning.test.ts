/** Tests that correct kernels give the same results in the checker, on recorded and on lowered IR, as plain TypeScript. */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { f32, i32, kernel, tensor, u32, type Fragment, type Program } from '../../src/index.ts'
import type { DType, StorageDType } from '../../src/ir/dtype.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { scenario, type World } from '../../src/world/world.ts'

/** Runs a host program once per IR stage and returns its result. Any finding fails the test. */
export async function onBothStages(
  ranks: number,
  run: (world: World) => Promise<unknown>,
): Promise<unknown[]> {
  const values: unknown[] = []
  for (const stage of ['recorded', 'lowered'] as const) {
    const { findings, results } = await explore(scenario('meaning', { ranks }, run), {
      ranks,
      stage,
      schedules: 1,
    })
    expect(findings, stage).toEqual([])
    values.push(results[0].value)
  }
  return values
}

/** An expression over two inputs, represented as data. */
type Expression =
  | { readonly op: 'x' | 'y' }
  | { readonly op: 'constant'; readonly value: number }
  | { readonly op: 'add' | 'sub' | 'mul' | 'min' | 'max'; readonly a: Expression; readonly b: Expression }
  | { readonly op: 'neg' | 'abs'; readonly a: Expression }
  | { readonly op: 'choose'; readonly a: Expression; readonly b: Expression; readonly c: Expression }

const { expression } = fc.letrec<{ expression: Expression }>((tie) => ({
  expression: fc.oneof(
    { maxDepth: 4, withCrossShrink: true },
    fc.record({ op: fc.constantFrom('x' as const, 'y' as const) }),
    fc.record({ op: fc.constant('constant' as const), value: fc.integer({ min: -9, max: 9 }) }),
    fc.record({
      op: fc.constantFrom('add', 'sub', 'mul', 'min', 'max'),
      a: tie('expression'),
      b: tie('expression'),
    }),
    fc.record({ op: fc.constantFrom('neg', 'abs'), a: tie('expression') }),
    fc.record({
      op: fc.constant('choose'),
      a: tie('expression'),
      b: tie('expression'),
      c: tie('expression'),
    }),
  ) as fc.Arbitrary<Expression>,
}))

/** Records the expression as if it were f32. The dtype of the inputs decides the actual dtype of the expression. */
type Numbers = Fragment<'f32', 2>

function record(t: Program, dtype: 'f32' | 'i32', e: Expression, x: Numbers, y: Numbers): Fragment<'f32', 2> {
  const go = (inner: Expression): Fragment<'f32', 2> => record(t, dtype, inner, x, y)
  switch (e.op) {
    case 'x':
      return x
    case 'y':
      return y
    case 'constant':
      return t.full(dtype, [3, 5] as const, e.value) as Fragment<'f32', 2>
    case 'neg':
      return go(e.a).neg()
    case 'abs':
      return go(e.a).abs()
    case 'choose':
      return go(e.a).lt(go(e.b)).select(go(e.b), go(e.c))
    default:
      return go(e.a)[e.op](go(e.b))
  }
}

/** Evaluates the expression on numbers, with the arithmetic of each dtype written out. */
function compute(dtype: 'f32' | 'i32', e: Expression, x: number, y: number): number {
  const wrap = dtype === 'f32' ? Math.fround : (value: number) => value | 0
  const go = (inner: Expression): number => compute(dtype, inner, x, y)
  switch (e.op) {
    case 'x':
      return x
    case 'y':
      return y
    case 'constant':
      return e.value
    case 'neg':
      return wrap(-go(e.a))
    case 'abs':
      return wrap(Math.abs(go(e.a)))
    case 'choose':
      return go(e.a) < go(e.b) ? go(e.b) : go(e.c)
    case 'add':
      return wrap(go(e.a) + go(e.b))
    case 'sub':
      return wrap(go(e.a) - go(e.b))
    case 'mul':
      return dtype === 'i32'
        ? Number(BigInt.asIntN(32, BigInt(go(e.a)) * BigInt(go(e.b))))
        : wrap(go(e.a) * go(e.b))
    case 'min':
      return Math.min(go(e.a), go(e.b))
    case 'max':
      return Math.max(go(e.a), go(e.b))
  }
}

describe('elementwise kernels', () => {
  it.each(['f32', 'i32'] as const)('equal the expression they record, in %s', async (dtype) => {
    await fc.assert(
      fc.asyncProperty(
        expression,
        fc.array(fc.integer({ min: -50, max: 50 }), { minLength: 30, maxLength: 30 }),
        async (e, data) => {
          const evaluate = kernel(
            'evaluate',
            { x: tensor(dtype, 2), y: tensor(dtype, 2), out: tensor(dtype, 2) },
            (t, { x, y, out }) => {
              const value = record(
                t,
                dtype,
                e,
                t.load(x.tile([0, 0], [3, 5])) as never,
                t.load(y.tile([0, 0], [3, 5])) as never,
              )
              t.store(out.tile([0, 0], [3, 5]), value as never)
            },
          )
          const values = data.map((value) => (dtype === 'f32' ? Math.fround(value / 7) : value))
          const [x, y] = [values.slice(0, 15), values.slice(15)]
          const expected = x.map((one, i) => compute(dtype, e, one, y[i]) + 0)
          const run = async (world: World): Promise<number[]> => {
            const out = world.empty(dtype, [3, 5])
            world.launch(
              evaluate,
              { x: world.from(dtype, [3, 5], x), y: world.from(dtype, [3, 5], y), out },
              { grid: 1 },
            )
            return [...(await world.read(out, 0))].map((value) => value + 0)
          }
          for (const actual of await onBothStages(1, run)) expect(actual).toEqual(expected)
        },
      ),
      { numRuns: 60 },
    )
  })
})

describe('tiles', () => {
  const dtypes: readonly StorageDType[] = [
    'f32',
    'f16',
    'bf16',
    'f8e4m3',
    'f8e5m2',
    'i8',
    'u8',
    'i32',
    'u32',
    'i64',
  ]
  it.each(dtypes)('of %s are copied through shared memory and registers, edges masked', async (dtype) => {
    await fc.assert(
      fc.asyncProperty(
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 9 }),
        fc.integer({ min: 1, max: 3 }),
        async (rows, columns, ranks) => {
          const roundTrip = kernel(
            'roundTrip',
            { x: tensor(dtype, 2), out: tensor(dtype, 2) },
            (t, { x, out }) => {
              const tile = t.shared(dtype, [4, 3])
              t.persistent(x.tiles([4, 3]), (from, [i, j]) => {
                t.copy(from, tile)
                const peer = t.rank.add(1).mod(t.world)
                t.store(out.on(peer).tile([i, j], [4, 3]), t.load(tile))
              })
            },
          )
          const data = (rank: number): number[] =>
            Array.from({ length: rows * columns }, (_, i) => (i * 5 + rank) % 8)
          const run = async (world: World): Promise<number[][]> => {
            const out = world.empty(dtype, [rows, columns])
            world.launch(roundTrip, { x: world.from(dtype, [rows, columns], data), out }, { grid: 2 })
            return Promise.all(
              Array.from({ length: ranks }, async (_, rank) => [...(await world.read(out, rank))]),
            )
          }
          const expected = Array.from({ length: ranks }, (_, rank) => data((rank + ranks - 1) % ranks))
          for (const actual of await onBothStages(ranks, run)) expect(actual).toEqual(expected)
        },
      ),
      { numRuns: 12 },
    )
  })
})

describe('atomics', () => {
  const ops = {
    add: (old: number, value: number) => old + value,
    sub: (old: number, value: number) => old - value,
    min: (old: number, value: number) => Math.min(old, value),
    max: (old: number, value: number) => Math.max(old, value),
    and: (old: number, value: number) => old & value,
    or: (old: number, value: number) => old | value,
    xor: (old: number, value: number) => old ^ value,
  }
  const orders = ['relaxed', 'acquire', 'release', 'acqRel'] as const

  it.each(Object.keys(ops) as (keyof typeof ops)[])(
    '%s from every rank loses nothing, at every order',
    async (op) => {
      for (const ranks of [1, 2, 3, 8])
        for (const order of orders) {
          const update = kernel(
            'update',
            { cell: tensor(i32, 1), mine: tensor(i32, 1) },
            (t, { cell, mine }) => {
              t.atomic[op as 'add'](cell.on(0).at([0]), t.load(mine.at([0])), { order })
            },
          )
          const operand = (rank: number): number[] => [(rank * 37 + 11) & 0x7f]
          const run = async (world: World): Promise<number> => {
            const cell = world.full(i32, [1], 100)
            world.launch(update, { cell, mine: world.from(i32, [1], operand) }, { grid: 1 })
            return (await world.read(cell, 0))[0]
          }
          const expected = Array.from({ length: ranks }, (_, rank) => operand(rank)[0]).reduce(ops[op], 100)
          expect(await onBothStages(ranks, run)).toEqual([expected, expected])
        }
    },
  )

  it('xchg and cas give a token to exactly one program', async () => {
    const ranks = 4
    const grab = kernel('grab', { token: tensor(u32, 1), won: tensor(u32, 2) }, (t, { token, won }) => {
      t.store(won.at([0, 0]), t.atomic.xchg(token.on(0).at([0]), 0))
      t.store(won.at([0, 1]), t.atomic.cas(token.on(0).at([1]), 7, t.rank.to(u32).add(100)))
    })
    const { findings, results } = await explore(
      scenario('grab', { ranks }, async (world) => {
        const token = world.from(u32, [2], [1, 7])
        const won = world.empty(u32, [1, 2])
        world.launch(grab, { token, won }, { grid: 1 })
        const reads = await Promise.all(Array.from({ length: ranks }, (_, rank) => world.read(won, rank)))
        const final = await world.read(token, 0)
        const winner = reads.findIndex((read) => read[1] === 7)
        return {
          exchanged: reads.filter((read) => read[0] === 1).length,
          swapped: reads.filter((read) => read[1] === 7).length,
          final: final[1] - winner,
        }
      }),
      { ranks, schedules: 300 },
    )
    expect(findings).toEqual([])
    for (const { value } of results) expect(value).toEqual({ exchanged: 1, swapped: 1, final: 100 })
  })

  it('act only on lanes where the mask is true', async () => {
    const update = kernel('update', { cells: tensor(i32, 1) }, (t, { cells }) => {
      const i = t.arange(8)
      t.atomic.add(cells.on(0).at([i]), i, { mask: i.mod(2).eq(0) })
    })
    const run = async (world: World): Promise<number[]> => {
      const cells = world.zeros(i32, [7])
      world.launch(update, { cells }, { grid: 1 })
      return [...(await world.read(cells, 0))]
    }
    // Index 7 is outside the tensor, but the lane with index 7 is masked out.
    expect(await onBothStages(3, run)).toEqual([
      [0, 0, 6, 0, 12, 0, 18],
      [0, 0, 6, 0, 12, 0, 18],
    ])
  })
})

describe('masks', () => {
  it('leave out lanes of loads, stores, gets and puts', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(fc.boolean(), { minLength: 6, maxLength: 6 }), async (lanes) => {
        const masked = kernel(
          'masked',
          {
            x: tensor(f32, 1),
            on: tensor(i32, 1),
            loaded: tensor(f32, 1),
            got: tensor(f32, 1),
            sent: tensor(f32, 1),
          },
          (t, { x, on, loaded, got, sent }) => {
            const i = t.arange(6)
            const peer = t.rank.add(1).mod(t.world)
            const mask = t.load(on.at([i])).ne(0)
            t.store(loaded.at([i]), t.load(x.at([i]), { mask, other: -1 }))
            t.get(x.on(peer).at([i]), got.at([i]), { mask })
            t.put(x.at([i]), sent.on(peer).at([i]), { mask })
          },
        )
        const data = (rank: number): number[] => Array.from({ length: 6 }, (_, i) => 10 * (rank + 1) + i)
        const run = async (world: World): Promise<number[][]> => {
          const args = {
            x: world.from(f32, [6], data),
            on: world.from(i32, [6], lanes.map(Number)),
            loaded: world.full(f32, [6], -2),
            got: world.full(f32, [6], -2),
            sent: world.full(f32, [6], -2),
          }
          world.launch(masked, args, { grid: 1 })
          return Promise.all(
            [args.loaded, args.got, args.sent].map(async (out) => [...(await world.read(out, 0))]),
          )
        }
        const pick = (rank: number, off: number): number[] =>
          lanes.map((lane, i) => (lane ? data(rank)[i] : off))
        for (const actual of await onBothStages(2, run))
          expect(actual).toEqual([pick(0, -1), pick(1, -2), pick(1, -2)])
      }),
      { numRuns: 20 },
    )
  })
})

/** Makes the type checker verify that the list of dtypes above is complete. */
export type Covered = Exclude<DType, 'bool'>
