/**
 * argmax, argmin, cumsum, reshape and interleave on every target, and as CUDA C++ that runs on this CPU, compared with
 * plain loops: odd shapes, both axes, every dtype, ties, NaN and signed zeros.
 */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, type Kernel, type Value, type World } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import { itForSome, long } from '../../long.ts'
import { call } from '../differential/entries.ts'
import { cudaOnCpu, onWorld, places, poison, range } from './harness.ts'

const shapes = [[1], [7], [33], [1, 5], [5, 1], [3, 4], [8, 16], [5, 37], [17, 6]] as const
type Shape = readonly number[]
const count = (shape: Shape): number => shape.reduce((product, extent) => product * extent, 1)
const dtypes = ['f32', 'i32', 'u32', 'i64'] as const
type DType = (typeof dtypes)[number]

/** Few different values, so that there are ties; for f32 also NaN, infinities and both zeros. */
function inputs(dtype: DType, size: number, seed: number): number[] {
  let state = seed
  return range(size).map((i) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0
    const small = (state >>> 20) % 9
    if (dtype === 'u32') return small === 0 ? 0xfffffff0 : small
    if (dtype !== 'f32') return small - 4
    if (i % 11 === 5) return [NaN, Infinity, -Infinity, -0, 0][(state >>> 8) % 5]
    return Math.fround((small - 4) / 3)
  })
}

/**
 * Every case once, each with one dtype: the dtypes take turns. For targets that compile each case with a compiler, all
 * combinations would take minutes.
 */
const inTurn = (all: readonly DType[], casesOf: (dtype: DType) => readonly Case[]): Case[] =>
  all.flatMap((dtype, turn) => casesOf(dtype).filter((_, i) => i % all.length === turn))

/** The indices of the elements of each row or column along an axis. */
function linesOf(shape: Shape, axis: number): number[][] {
  const columns = shape[shape.length - 1]
  if (shape.length === 1 || axis === 1)
    return range(count(shape) / columns).map((row) => range(columns).map((k) => row * columns + k))
  return range(columns).map((column) => range(shape[0]).map((k) => k * columns + column))
}

/** Implements NumPy's rule for argmax: the first NaN, and if there is none, the first of the largest. */
function argReference(data: readonly number[], sign: 1 | -1): number {
  const nan = data.findIndex(Number.isNaN)
  if (nan >= 0) return nan
  const most = Math.max(...data.map((x) => sign * x))
  return data.findIndex((x) => sign * x === most)
}
const wrap = (dtype: DType, x: number): number =>
  dtype === 'f32' ? Math.fround(x) : dtype === 'i32' ? x | 0 : dtype === 'u32' ? x >>> 0 : x

interface Case {
  readonly op: string
  readonly dtype: DType
  readonly shape: Shape
  readonly axis: number
}
const cases = (dtype: DType): Case[] =>
  shapes.flatMap((shape) =>
    range(shape.length).flatMap((axis) =>
      ['argmax', 'argmin', 'cumsum'].map((op) => ({ op, dtype, shape, axis })),
    ),
  )

function expected({ op, dtype, shape, axis }: Case, data: readonly number[]): number[] {
  const lines = linesOf(shape, axis)
  if (op !== 'cumsum')
    return lines.map((line) =>
      argReference(
        line.map((i) => data[i]),
        op === 'argmax' ? 1 : -1,
      ),
    )
  const out = [...data]
  for (const line of lines) line.slice(1).forEach((i, k) => (out[i] = wrap(dtype, out[line[k]] + data[i])))
  return out
}

/**
 * A kernel that loads a fragment from the start of a tensor, applies `compute`, and stores the result at the start of
 * another tensor.
 */
function made(
  name: string,
  from: StorageDType,
  to: StorageDType,
  shape: Shape,
  compute: (value: Value) => Value,
): Kernel {
  const rank = shape.length as 1
  return kernel(name, { x: tensor(from, rank), y: tensor(to, 1) }, (t, { x, y }) => {
    const at = shape.map(() => 0)
    const value = compute(t.load(x.tile(at as [number], shape as readonly [number])) as Value)
    const size = count(value.shape)
    if (value.shape.length === 0) return t.store(y.at([0]), value as never)
    const flat = value.shape.length === 1 ? t.arange(size) : undefined
    const rows = (): Value =>
      t.arange(value.shape[0]).mul(value.shape[1]).expand(1).add(t.arange(value.shape[1]).expand(0)) as Value
    t.store(y.at([(flat ?? rows()) as never]) as never, value as never)
  }) as unknown as Kernel
}

async function run(
  target: string,
  one: Kernel,
  from: StorageDType,
  to: StorageDType,
  shape: Shape,
  data: readonly number[],
): Promise<number[]> {
  return onWorld(target, 1, async (world) => {
    const x = world.from(from, shape, data)
    const y = world.full(to, [2 * count(shape)], poison)
    world.launch(one, { x, y } as never, { grid: 1 })
    return [...(await world.read(y, 0))]
  })
}

describe.each(places)('on %s', (target) => {
  // As CUDA C++ on this CPU, the short tests have one op per kernel, and all ops together in large tiles.
  const longOnCuda = target === cudaOnCpu ? long : {}
  // For targets on which a kernel is compiled for a second, the short suite runs a few cases. The compiler NVRTC needs a quarter of
  // that time.
  const compiles = target === 'native' || target === cudaOnCpu
  const every = compiles ? 17 : target === 'cuda' ? 5 : 1
  const some = <T>(all: readonly T[]): readonly T[] => all.filter((_, i) => i % every === 3 % every)

  const check = async (all: readonly Case[]): Promise<void> => {
    for (const one of all) {
      const { op, dtype, shape, axis } = one
      const data = inputs(dtype, count(shape), count(shape) + axis + op.length)
      const to = op === 'cumsum' ? dtype : 'i32'
      const got = await run(
        target,
        made(op, dtype, to, shape, (x) => call(x, op, axis)),
        dtype,
        to,
        shape,
        data,
      )
      const wanted = expected(one, data)
      const rest = new Array<number>(got.length - wanted.length).fill(poison)
      expect(got, `${op} of ${dtype}[${shape.join('x')}] along ${axis}`).toEqual([...wanted, ...rest])
    }
  }
  itForSome(dtypes, (dtype) => !compiles || dtype === 'f32')('argmax, argmin and cumsum of %s', (dtype) =>
    check(some(cases(dtype))),
  )
  if (compiles)
    it('argmax, argmin and cumsum of every shape', { ...long, timeout: 600_000 }, () =>
      check(inTurn(dtypes, cases)),
    )

  const storage = ['f32', 'f16', 'bf16', 'f8e4m3', 'i8', 'u8', 'i32', 'i64'] as const
  const shapesMoved = [
    { shape: [12], to: [3, 4] },
    { shape: [6, 10], to: [4, 15] },
    { shape: [8, 16], to: [128] },
    { shape: [1, 7], to: [7, 1] },
  ]
  const moves = storage.flatMap((dtype) => shapesMoved.map((one) => ({ dtype, ...one })))
  const checkMoves = async (all: typeof moves): Promise<void> => {
    for (const { dtype, shape, to } of all) {
      const data = range(count(shape)).map((i) => (i * 5) % 16)
      const message = `${dtype}[${shape.join('x')}]`
      const same = await run(
        target,
        made('reshape', dtype, dtype, shape, (x) => (x as Value<typeof dtype, 1>).reshape(to)),
        dtype,
        dtype,
        shape,
        data,
      )
      expect(same.slice(0, data.length), `reshape ${message}`).toEqual(data)
      const turns = await run(
        target,
        made('interleave', dtype, dtype, shape, (x) =>
          (x as Value<typeof dtype, 1>).interleave(negated(x) as Value<typeof dtype, 1>),
        ),
        dtype,
        dtype,
        shape,
        data,
      )
      const wanted = data.flatMap((x) => [x, dtype === 'u8' ? (1 - x) & 255 : 1 - x])
      expect(turns, `interleave ${message}`).toEqual(wanted)
    }
  }
  it('reshape and interleave of every dtype', longOnCuda, () => checkMoves([...some(moves)]))
  if (compiles)
    it('reshape and interleave of every dtype and shape', { ...long, timeout: 600_000 }, () =>
      checkMoves(moves.filter((_, i) => (i + Math.floor(i / shapesMoved.length)) % 2 === 0)),
    )

  it('are used where their results are needed in other layouts', longOnCuda, async () => {
    const one = kernel(
      'mixed',
      { x: tensor('f32', 2), y: tensor('f32', 2), z: tensor('i32', 1) },
      (t, { x, y, z }) => {
        const tile = t.load(x.tile([0, 0], [16, 24]))
        const sums = tile.cumsum(1)
        const best = tile.mul(2).argmax(1)
        t.store(z.tile([0], [16]), best)
        const isBest = t
          .arange(24)
          .expand(0)
          .broadcast([16, 24])
          .eq(best.expand(1).broadcast([16, 24]))
        t.store(
          y.tile([0, 0], [16, 24]),
          isBest.select(sums.sub(sums.maximum(1).expand(1)), tile.transpose().reshape([16, 24])),
        )
      },
    ) as unknown as Kernel
    const data = inputs('i32', 384, 5)
    const use = async (world: World): Promise<number[]> => {
      const x = world.from('f32', [16, 24], data)
      const y = world.full('f32', [16, 24], poison)
      const z = world.full('i32', [16], poison)
      world.launch(one, { x, y, z } as never, { grid: 1 })
      return [...(await world.read(y, 0)), ...(await world.read(z, 0))]
    }
    const lines = linesOf([16, 24], 1)
    const best = lines.map((line) =>
      argReference(
        line.map((i) => data[i]),
        1,
      ),
    )
    const sums = expected({ op: 'cumsum', dtype: 'f32', shape: [16, 24], axis: 1 }, data)
    const wanted = range(384).map((i) => {
      const row = Math.floor(i / 24)
      if (best[row] === i % 24) return sums[i] - Math.max(...lines[row].map((k) => sums[k]))
      return data[(i % 16) * 24 + Math.floor(i / 16)]
    })
    expect(await onWorld(target, 1, use)).toEqual([...wanted, ...best])
  })

  it('are used one after another in large tiles, whose elements would not fit in shared memory together', async () => {
    const wide = kernel(
      'wide',
      { x: tensor('f32', 2), y: tensor('f32', 2), best: tensor('i32', 2), z: tensor('f32', 2) },
      (t, { x, y, best, z }) => {
        const tile = t.load(x.tile([0, 0], [128, 128]))
        t.for(2, (k) => {
          const sums = tile.add(k.to('f32')).cumsum(1)
          t.store(best.pick(k).tile([0], [128]), tile.argmax(1).add(sums.argmin(0)))
          t.store(y.tile([k, 0], [64, 256]), sums.reshape([64, 256]))
        })
        t.store(z.tile([0, 0], [128, 256]), tile.interleave(tile.neg()))
      },
    ) as unknown as Kernel
    const side = 128
    const data = inputs('i32', side * side, 7)
    const use = async (world: World): Promise<number[][]> => {
      const x = world.from('f32', [side, side], data)
      const y = world.full('f32', [side, 2 * side], poison)
      const best = world.full('i32', [2, side], poison)
      const z = world.full('f32', [side, 2 * side], poison)
      world.launch(wide, { x, y, best, z } as never, { grid: 1 })
      return Promise.all([y, best, z].map(async (one) => [...(await world.read(one, 0))]))
    }
    const [rows, columns] = [linesOf([side, side], 1), linesOf([side, side], 0)]
    const of = (numbers: readonly number[]) => (line: readonly number[]) => line.map((i) => numbers[i])
    const sums = range(2).map((k) =>
      expected(
        { op: 'cumsum', dtype: 'f32', shape: [side, side], axis: 1 },
        data.map((one) => one + k),
      ),
    )
    const best = sums.flatMap((numbers) =>
      range(side).map((i) => argReference(of(data)(rows[i]), 1) + argReference(of(numbers)(columns[i]), -1)),
    )
    const [y, found, z] = await onWorld(target, 1, use)
    expect(y).toEqual(sums.flat())
    expect(found).toEqual(best)
    expect(z).toEqual(data.flatMap((one) => [one, -one]))
  })
})

/** Computes 1 - x, in the dtype of x. */
function negated(x: Value): Value {
  const wide = x.dtype === 'i64' ? 'i64' : x.dtype.includes('f') ? 'f32' : 'i32'
  return call(call(x.to(wide), 'neg'), 'add', 1).to(x.dtype) as Value
}
