/**
 * Tests the nine atomics, and strong loads and stores: every dtype, order, scope, mask and size, on one rank and from
 * all ranks at once.
 */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, type Program, type Ref, type Value } from '../../../src/index.ts'
import {
  fewerOn,
  itForEach,
  isOn,
  limitOf,
  masks,
  numberAt,
  onWorld,
  orders,
  poison,
  range,
  scopes,
  storage,
  targets,
  worldSizes,
  type MaskKind,
} from './harness.ts'
import { itForSome } from '../../long.ts'

const atomics = ['add', 'sub', 'xchg', 'min', 'max', 'and', 'or', 'xor', 'cas'] as const
type Atomic = (typeof atomics)[number]
const integers = ['i32', 'u32', 'i64'] as const
type AtomicDType = (typeof integers)[number] | 'f32'
const dtypesOf = (op: Atomic): readonly AtomicDType[] =>
  ['and', 'or', 'xor', 'cas'].includes(op) ? integers : [...integers, 'f32']

/** The new value after an atomic, computed with plain numbers. */
function meaning(op: Atomic, dtype: AtomicDType, old: number, value: number): number {
  const wrapped = (x: bigint): number =>
    Number(dtype === 'u32' ? BigInt.asUintN(32, x) : BigInt.asIntN(dtype === 'i32' ? 32 : 64, x))
  const bits = (f: (a: bigint, b: bigint) => bigint): number => wrapped(f(BigInt(old), BigInt(value)))
  switch (op) {
    case 'add':
      return dtype === 'f32' ? Math.fround(old + value) : bits((a, b) => a + b)
    case 'sub':
      return dtype === 'f32' ? Math.fround(old - value) : bits((a, b) => a - b)
    case 'xchg':
      return value
    case 'min':
      return Math.min(old, value)
    case 'max':
      return Math.max(old, value)
    case 'and':
      return bits((a, b) => a & b)
    case 'or':
      return bits((a, b) => a | b)
    case 'xor':
      return bits((a, b) => a ^ b)
    case 'cas': // This atomic compares with the operand and stores 77.
      return old === value ? 77 : old
    default:
      return op satisfies never
  }
}

interface Case {
  readonly order: (typeof orders)[number]
  readonly scope: (typeof scopes)[number]
  readonly mask: MaskKind
  /** The number of elements; 0 means a scalar reference. */
  readonly size: number
}
const sizes = [0, 1, 4, 7]
/** All combinations of order and scope, and all combinations of mask and size. */
const allCases: readonly Case[] = range(48).map((i) => ({
  order: orders[i % 4],
  scope: scopes[Math.floor(i / 4) % 3],
  mask: masks[Math.floor(i / 12)],
  size: sizes[(i + Math.floor(i / 4)) % 4],
}))
const width = 7
const extreme = { i32: 2 ** 31 - 2, u32: 2 ** 32 - 2, i64: 2 ** 40, f32: 2 ** 20 }

/**
 * The initial contents and the operand of each lane. Some of the operands are equal, and some are close to where
 * integers wrap.
 */
const startOf = (dtype: AtomicDType, row: number, lane: number): number =>
  (row + lane) % 3 === 0 ? extreme[dtype] : Math.abs(numberAt(dtype, row, lane))
const operandOf = (row: number, lane: number): number => Math.abs(numberAt('u32', row, lane))

type Act = (at: Ref, ...rest: readonly unknown[]) => Value
const act = (t: Program, op: Atomic, at: Ref, value: Value, options: object): Value =>
  op === 'cas'
    ? (t.atomic.cas as Act).call(t.atomic, at, value, 77, options)
    : (t.atomic[op] as Act).call(t.atomic, at, value, options)

const table = (op: Atomic, dtype: AtomicDType, cases: readonly Case[]) =>
  kernel(
    `table_${op}_${dtype}`,
    { cells: tensor(dtype, 2), operands: tensor(dtype, 2), before: tensor(dtype, 2) },
    (t, { cells, operands, before }) => {
      const next = t.rank.add(1).mod(t.world)
      cases.forEach(({ order, scope, mask, size }, row) => {
        // Scopes below `system` do not include other ranks.
        const where = scope === 'system' ? cells.on(next) : cells
        const lanes = t.arange(Math.max(size, 1))
        const limited = mask === 'none' ? {} : { mask: size === 0 ? undefined : lanes.lt(limitOf(mask)) }
        const places: Ref = size === 0 ? where.at([row, 0]) : where.at([row, lanes])
        const from: Ref = size === 0 ? operands.at([row, 0]) : operands.at([row, lanes])
        const to: Ref = size === 0 ? before.at([row, 0]) : before.at([row, lanes])
        const old = act(t, op, places, t.load(from as never), { order, scope, ...limited })
        t.store(to as never, old as never, limited as never)
      })
    },
  )

describe.each(targets)('atomics on %s', (target) => {
  const cases = atomics.flatMap((op) => dtypesOf(op).map((dtype) => [op, dtype] as const))
  // On the checker, the short tests have all cases; on wasm, one dtype for each op; and on native, one case.
  const isShort = ([op, dtype]: (typeof cases)[number], place: number): boolean => {
    if (target === 'native') return place === 0
    const all = dtypesOf(op)
    return target !== 'wasm' || dtype === all[atomics.indexOf(op) % all.length]
  }
  itForSome(cases, isShort)(
    '%s of %s leaves and yields what it says, in every order, scope, mask and size',
    async ([op, dtype]) => {
      const turn = atomics.indexOf(op) + 3 * dtypesOf(op).indexOf(dtype)
      const ranks = 1 + (turn % 8)
      // Each combination tests a different fifth of the cases.
      const cases = fewerOn(
        target,
        allCases,
        allCases.filter((_, i) => i % 5 === turn % 5),
      )
      await onWorld(target, ranks, async (world) => {
        const fill = (f: (row: number, lane: number) => number): number[] =>
          range(cases.length * width).map((i) => f(Math.floor(i / width), i % width))
        const shape = [cases.length, width]
        const cells = world.from(
          dtype,
          shape,
          fill((row, lane) => startOf(dtype, row, lane)),
        )
        const operands = world.from(dtype, shape, (rank) => fill((row, lane) => operandOf(row + rank, lane)))
        const before = world.full(dtype, shape, poison)
        world.launch(table(op, dtype, cases), { cells, operands, before } as never, { grid: 1 })
        for (let rank = 0; rank < ranks; rank++) {
          const [left, yielded] = [await world.read(cells, rank), await world.read(before, rank)]
          cases.forEach(({ order, scope, mask, size }, row) => {
            const by = scope === 'system' ? (rank + ranks - 1) % ranks : rank
            const takesPart = (lane: number): boolean =>
              lane < Math.max(size, 1) && (size === 0 || isOn(mask, lane))
            const line = (of: Float64Array): number[] => [...of.subarray(row * width, (row + 1) * width)]
            const name = `${order}, ${scope}, mask ${mask}, ${size} lanes, rank ${rank} of ${ranks}`
            expect(line(left), name).toEqual(
              range(width).map((lane) => {
                const old = startOf(dtype, row, lane)
                return takesPart(lane) ? meaning(op, dtype, old, operandOf(row + by, lane)) : old
              }),
            )
            expect(line(yielded), name).toEqual(
              range(width).map((lane) => (takesPart(lane) ? startOf(dtype, row, lane) : poison)),
            )
          })
        }
      })
    },
  )

  itForSome(
    fewerOn(target, worldSizes, [8, 1]),
    (ranks) => ranks === 8 || (ranks === 3 && target !== 'native'),
  )('from %i ranks and several programs at once lose nothing', async (ranks) => {
    const rounds = 10
    await onWorld(target, ranks, async (world) => {
      for (const dtype of [...integers, 'f32'] as const) {
        const crowd = kernel('crowd', { cells: tensor(dtype, 1) }, (t, { cells }) => {
          const on = cells.on(0)
          const mine = t.rank.mul(t.programs).add(t.program).add(1).to(dtype)
          t.for(rounds, () => {
            t.atomic.add(on.at([0]) as Ref<'i32', 0>, mine as Value<'i32', 0>)
            t.atomic.sub(on.at([1]) as Ref<'i32', 0>, 1, { order: 'acqRel' })
            t.atomic.max(on.at([2]) as Ref<'i32', 0>, mine as Value<'i32', 0>, { order: 'release' })
            t.atomic.min(on.at([3]) as Ref<'i32', 0>, mine as Value<'i32', 0>, { order: 'acquire' })
          })
        })
        const grid = 3
        const cells = world.from(dtype, [4], [0, 10_000, 0, 1000])
        world.launch(crowd, { cells } as never, { grid })
        const agents = ranks * grid
        expect([...(await world.read(cells, 0))], dtype).toEqual([
          (rounds * agents * (agents + 1)) / 2,
          10_000 - rounds * agents,
          agents,
          1,
        ])
      }
    })
  })

  it('compare-and-swap works as a lock', async () => {
    const lock = kernel('lock', { lock: tensor('u32', 1), count: tensor('i32', 1) }, (t, { lock, count }) => {
      const [taken, cell] = [lock.on(0).at([0]), count.on(0).at([0])]
      t.for(5, () => {
        t.while(
          t.constant('u32', 1),
          (seen) => seen.ne(0),
          () => t.atomic.cas(taken, 0, 1, { order: 'acquire' }),
        )
        t.store(cell, t.load(cell).add(1))
        t.store(taken, 0, { order: 'release' })
      })
    })
    await onWorld(target, 4, async (world) => {
      const args = { lock: world.zeros('u32', [1]), count: world.zeros('i32', [1]) }
      world.launch(lock, args, { grid: 1 })
      expect((await world.read(args.count, 0))[0]).toBe(20)
    })
  })
})

const strong = (dtype: (typeof storage)[number]) =>
  kernel(`strong_${dtype}`, { from: tensor(dtype, 2), to: tensor(dtype, 2) }, (t, { from, to }) => {
    let row = 0
    for (const scope of scopes)
      for (const mask of masks)
        for (const size of [1, 4, 7]) {
          const lanes = t.arange(size)
          const limited = mask === 'none' ? {} : { mask: lanes.lt(limitOf(mask)) }
          const order = (['relaxed', 'acquire'] as const)[row % 2]
          const loaded = t.load(from.at([row, lanes]) as Ref<'f32', 1>, { order, scope, ...limited })
          const kept = (['relaxed', 'release'] as const)[(row + 1) % 2]
          t.store(to.at([row, lanes]) as Ref<'f32', 1>, loaded, { order: kept, scope, ...limited })
          row++
        }
  })

describe.each(targets)('strong loads and stores on %s', (target) => {
  itForEach(target, storage)('move %s in every order, scope, mask and size', async (dtype) => {
    const rows = scopes.length * masks.length * 3
    await onWorld(target, 2, async (world) => {
      const from = world.from(dtype, [rows, 8], (rank) =>
        range(rows * 8).map((i) => numberAt(dtype, rank, i)),
      )
      const to = world.full(dtype, [rows, 8], poison)
      world.launch(strong(dtype), { from, to } as never, { grid: 1 })
      for (const rank of [0, 1]) {
        const got = await world.read(to, rank)
        range(rows).forEach((row) => {
          const mask = masks[Math.floor(row / 3) % masks.length]
          const size = [1, 4, 7][row % 3]
          expect([...got.subarray(row * 8, row * 8 + 8)], `row ${row}`).toEqual(
            range(8).map((i) => (i < size && isOn(mask, i) ? numberAt(dtype, rank, row * 8 + i) : poison)),
          )
        })
      }
    })
  })
})
