/** Tests loads, stores, copies, gets and puts: every dtype, mask, size and world size, at the edge of a tensor. */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, type Program, type Ref, type Tensor, type Value } from '../../../src/index.ts'
import type { StorageDType } from '../../../src/ir/dtype.ts'
import {
  fewerOn,
  itForSizes,
  isOn,
  limitOf,
  masks,
  numberAt,
  onWorld,
  poison,
  range,
  storage,
  targets,
  worldSizes,
  type MaskKind,
} from './harness.ts'

const length = 20
const allSizes = [1, 4, 7, 16, 33]
const ways = [
  'load and store',
  'load with other',
  'copy',
  'get',
  'put',
  'through shared',
  'elements',
] as const
type Way = (typeof ways)[number]
interface Move {
  readonly way: Way
  readonly mask: MaskKind
  readonly size: number
}
const movesOf = (sizes: readonly number[]): readonly Move[] =>
  ways.flatMap((way) => masks.flatMap((mask) => sizes.map((size) => ({ way, mask, size }))))
const other = 12
/** The index of the last tile, which extends past the end of the tensor unless its size divides the length. */
const lastTile = (size: number): number => Math.ceil(length / size) - 1

type Lanes = Value<'bool', 1>
type Line = Tensor<StorageDType, 1>

function recordMove(
  t: Program,
  { way, mask, size }: Move,
  from: Line,
  to: (rank?: 'next') => Line,
  staged: Ref,
): void {
  const next = t.rank.add(1).mod(t.world)
  const at = [lastTile(size)] as const
  const lanes: Lanes = t.arange(size).lt(limitOf(mask))
  const masked = mask === 'none' ? {} : { mask: lanes }
  const [source, target] = [from.tile(at, [size]), to().tile(at, [size])]
  switch (way) {
    case 'load and store':
      return t.store(target, t.load(source, masked) as Value<StorageDType, 1>, masked)
    case 'load with other':
      return t.store(target, t.load(source, { mask: lanes, other }) as Value<StorageDType, 1>)
    case 'copy':
      return t.copy(source, target, masked)
    case 'get':
      return t.get(from.on(next).tile(at, [size]), target, masked)
    case 'put':
      return t.put(source, to('next').tile(at, [size]), masked)
    case 'through shared':
      t.copy(source, staged as never)
      return t.copy(staged as never, target, masked)
    case 'elements': {
      const rest = Math.min(size, length - lastTile(size) * size)
      const places = t.arange(rest).add(lastTile(size) * size)
      const few = mask === 'none' ? {} : { mask: t.arange(rest).lt(limitOf(mask)) }
      return t.store(to().at([places]), t.load(from.at([places]), few) as Value<StorageDType, 1>, few)
    }
    default:
      return way satisfies never
  }
}

const moving = (dtype: StorageDType, sizes: readonly number[]) =>
  kernel('moving', { from: tensor(dtype, 1), to: tensor(dtype, 2) }, (t, { from, to }) => {
    const staged = new Map(sizes.map((size) => [size, t.shared(dtype, [size])]))
    const next = t.rank.add(1).mod(t.world)
    movesOf(sizes).forEach((move, row) =>
      recordMove(
        t,
        move,
        from as Line,
        (rank) => (rank === 'next' ? to.on(next) : to).pick(row) as Line,
        staged.get(move.size)!,
      ),
    )
  })

/** The expected contents, on rank `rank`, of the row of `to` that a load, store or copy has written. */
function expectedRow(dtype: StorageDType, { way, mask, size }: Move, rank: number, ranks: number): number[] {
  const source = way === 'get' ? (rank + 1) % ranks : way === 'put' ? (rank + ranks - 1) % ranks : rank
  const start = lastTile(size) * size
  return range(length).map((i) => {
    const lane = i - start
    if (lane < 0 || lane >= size) return poison
    if (isOn(mask, lane)) return numberAt(dtype, source, i)
    return way === 'load with other' ? other : poison
  })
}

describe.each(targets)('on %s', (target) => {
  itForSizes(target, fewerOn(target, worldSizes, [1, 3, 5, 8]))(
    '%i ranks move every dtype in every way, under every mask',
    async (ranks) => {
      await onWorld(target, ranks, async (world) => {
        // Tests each dtype on two world sizes. On `native`, each world size tests only one dtype.
        const sizes = fewerOn(target, allSizes, [7, 33])
        const moves = movesOf(sizes)
        const few = (['f32', 'f16', 'u8', 'i64'] as const)[Math.floor(ranks / 2) % 4]
        const tested = fewerOn<StorageDType>(
          target,
          storage.filter((_, i) => i % 4 === ranks % 4),
          [few],
        )
        for (const dtype of tested) {
          const from = world.from(dtype, [length], (rank) =>
            range(length).map((i) => numberAt(dtype, rank, i)),
          )
          const to = world.full(dtype, [moves.length, length], poison)
          world.launch(moving(dtype, sizes), { from, to } as never, { grid: 1 })
          for (let rank = 0; rank < ranks; rank++) {
            const got = await world.read(to, rank)
            moves.forEach((move, row) =>
              expect(
                [...got.subarray(row * length, (row + 1) * length)],
                `${dtype}, ${move.way}, mask ${move.mask}, ${move.size} lanes, rank ${rank}`,
              ).toEqual(expectedRow(dtype, move, rank, ranks)),
            )
          }
        }
      })
    },
  )
})

const [height, width] = [5, 7]
const matrixViews = kernel(
  'matrixViews',
  { x: tensor('f32', 2), deep: tensor('i32', 4), y: tensor('f32', 3), z: tensor('i32', 3) },
  (t, { x, deep, y, z }) => {
    const staged = t.shared('f32', [4, 4])
    const stages = t.shared('f32', [2, 4, 4])
    const put = (row: number, value: Value<'f32', 2>): void =>
      t.store(y.pick(row).tile([0, 0], [value.shape[0], value.shape[1]]), value)
    put(0, t.load(x.tile([1, 1], [4, 4]))) // This tile extends past both edges.
    put(1, t.load(x.slice(0, 1, 3).slice(1, 2, 4).tile([0, 0], [4, 4]))) // This tile extends past the edge of a slice.
    put(2, t.load(x.rows(t.arange(4).mul(2).mod(5)).tile(1, 4))) // The gathered rows extend past the right edge.
    put(3, t.load(x.at([t.arange(3).expand(1), t.arange(4).mul(2).mod(7).expand(0)])))
    t.copy(x.tile([0, 1], [4, 4]), staged)
    put(4, t.load(staged.transpose()))
    t.copy(x.tile([1, 0], [4, 4]), stages.pick(1))
    t.copy(stages.pick(1), y.pick(5).tile([0, 0], [4, 4]))
    t.store(y.pick(6).pick(2).tile([0], [4]), t.load(staged.at([t.arange(4), t.arange(4)])))
    t.store(y.at([7, 4, 6]), t.load(x.on(t.world - 1).at([4, 6])))
    t.copy(deep.pick(1).pick(2).tile([0, 0], [2, 3]), z.pick(0).tile([0, 0], [2, 3]))
    t.store(z.at([1, 0, 0]), deep.dim(2).mul(10).add(x.dim(1)))
  },
)

describe.each(targets)('views on %s', (target) => {
  it('access the same elements as plain indexing', async () => {
    await onWorld(target, 2, async (world) => {
      const at = (i: number, j: number): number => (i < height && j < width ? 10 * i + j + 1 : 0)
      const x = world.from(
        'f32',
        [height, width],
        range(height * width).map((k) => at(Math.floor(k / width), k % width)),
      )
      const deep = world.from('i32', [2, 3, 2, 3], range(36))
      const y = world.full('f32', [8, 8, 8], poison)
      const z = world.full('i32', [2, 2, 3], poison)
      world.launch(matrixViews, { x, deep, y, z }, { grid: 1 })
      const expected = (rows: number, columns: number, f: (i: number, j: number) => number): number[] =>
        range(64).map((k) => {
          const [i, j] = [Math.floor(k / 8), k % 8]
          return i < rows && j < columns ? f(i, j) : poison
        })
      const got = await world.read(y, 1)
      const slot = (row: number): number[] => [...got.subarray(row * 64, (row + 1) * 64)]
      expect(slot(0)).toEqual(expected(4, 4, (i, j) => at(4 + i, 4 + j)))
      expect(slot(1)).toEqual(expected(4, 4, (i, j) => (i < 3 ? at(1 + i, 2 + j) : 0)))
      expect(slot(2)).toEqual(expected(4, 4, (i, j) => at((2 * i) % 5, 4 + j)))
      expect(slot(3)).toEqual(expected(3, 4, (i, j) => at(i, (2 * j) % 7)))
      expect(slot(4)).toEqual(expected(4, 4, (i, j) => at(j, 4 + i)))
      expect(slot(5)).toEqual(expected(4, 4, (i, j) => at(4 + i, j)))
      const diagonal = range(4).map((i) => at(i, 4 + i))
      expect(slot(6)).toEqual(range(64).map((k) => (k >= 16 && k < 20 ? diagonal[k - 16] : poison)))
      expect(slot(7)).toEqual(range(64).map((k) => (k === 4 * 8 + 6 ? at(4, 6) : poison)))
      const cells = await world.read(z, 0)
      expect([...cells]).toEqual([30, 31, 32, 33, 34, 35, 27, poison, poison, poison, poison, poison])
    })
  })
})
