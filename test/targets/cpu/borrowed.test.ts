/**
 * Tests shared tiles that are read in place from their source tensor: which tiles qualify, and that results do not change.
 */
import { describe, expect, it } from 'vitest'
import {
  expectClose,
  f32,
  flags,
  kernel,
  openWorld,
  scalar,
  i32,
  tensor,
  type OpenOptions,
} from '../../../src/index.ts'
import { walk } from '../../../src/ir/node.ts'
import { randomNumbers } from '../../../src/operation/definition.ts'
import type { Machine } from '../../../src/targets/cpu/code.ts'
import type { CpuFacts } from '../../../src/targets/cpu/facts.ts'
import { borrowedTiles } from '../../../src/targets/cpu/lower/borrowed.ts'
import { realTargets } from '../differential/targets.ts'
import { itForSome } from '../../long.ts'

const machine: Machine = {
  name: 'native',
  lanes: 8,
  rows: 6,
  columns: 2,
  prefetches: true,
  l1: 32 << 10,
  l2: 512 << 10,
}
const [G, D, BN] = [3, 32, 16]

const changes = [
  'none',
  'another column',
  'many rows',
  'written',
  'filled twice',
  'read otherwise',
  'signalled between',
  'signalled in a branch',
  'counted between',
  'masked',
  'read first',
  'other block',
  'remote',
] as const
type Change = (typeof changes)[number]

/** This kernel computes scores of queries and keys, and their products with values: attention without its softmax. */
const scoring = (change: Change, dtype: 'f32' | 'bf16' | 'f16' = 'f32') => {
  const rows = change === 'many rows' ? 16 : G
  const params = {
    q: tensor(dtype, 2),
    k: tensor(dtype, 2),
    v: tensor(dtype, 2),
    out: tensor(f32, 2),
    count: tensor(i32, 1),
    turns: scalar(i32),
    done: flags(),
  }
  return kernel('scoring', params, (t, { q, k, v, out, count, turns, done }) => {
    const [ks, vs] = [t.shared(dtype, [BN, D]), t.shared(dtype, [BN, D])]
    const query = t.load(q.tile([0, 0], [rows, D]))
    const from = change === 'remote' ? k.on(t.rank.add(1).mod(t.world)) : k
    const column = change === 'another column' ? turns.sub(turns) : 0
    const sum = t.for(turns, t.zeros(f32, [rows, D]), (n, acc) => {
      const early =
        change === 'read first' ? t.dot(query, ks.transpose(), t.zeros(f32, [rows, BN])).mul(0) : undefined
      const mask = change === 'masked' ? { mask: t.arange(D).lt(D).expand(0).broadcast([BN, D]) } : {}
      if (change === 'filled twice') t.copy(v.tile([n, 0], [BN, D]), ks)
      t.copy(from.tile([n, column], [BN, D]), ks, mask)
      t.copy(v.tile([n, 0], [BN, D]), vs)
      if (change === 'written') t.store(k.tile([n, 0], [BN, D]), t.constant(f32, 9).to(dtype))
      if (change === 'signalled between') t.signal(done)
      if (change === 'signalled in a branch') t.if(turns.lt(0), () => t.signal(done))
      if (change === 'counted between') t.atomic.add(count.at([0]), 1)
      const zeros = t.zeros(f32, [rows, BN])
      const scores =
        change === 'other block'
          ? t.if(
              turns.gt(0),
              () => t.dot(query, ks.transpose(), zeros),
              () => zeros.add(1),
            )
          : t.dot(query, ks.transpose(), zeros)
      const more =
        change === 'read otherwise'
          ? t.load(ks).to(f32).sum(0).expand(0).broadcast([rows, D]).mul(0)
          : undefined
      const next = t.dot((early ? scores.add(early) : scores).to(dtype), vs, acc)
      return more ? next.add(more) : next
    })
    t.store(out.tile([0, 0], [rows, D]), sum)
  })
}

const borrowedOf = (change: Change, options: Partial<CpuFacts> = {}, dtype?: 'f16'): number[] => {
  const ir = scoring(change, dtype).record({ world: 2 })
  const tiles = [...walk(ir.body)].filter(({ op }) => op === 'shared')
  const found = borrowedTiles(ir, { machine, ...options })
  return tiles.flatMap((tile, n) => (found.has(tile) ? [n] : []))
}

describe('a shared tile', () => {
  it('is borrowed if few rows multiply it, unless the results could change', () => {
    const [keys, values] = [0, 1]
    expect(borrowedOf('none')).toEqual([keys, values])
    expect(borrowedOf('another column')).toEqual([values])
    expect(borrowedOf('many rows')).toEqual([])
    expect(borrowedOf('written')).toEqual([values])
    expect(borrowedOf('filled twice')).toEqual([values])
    expect(borrowedOf('read otherwise')).toEqual([values])
    for (const change of ['signalled between', 'signalled in a branch', 'counted between'] as const)
      expect([change, borrowedOf(change)]).toEqual([change, []])
    expect(borrowedOf('masked')).toEqual([values])
    expect(borrowedOf('read first')).toEqual([values])
    expect(borrowedOf('other block')).toEqual([values])
    expect(borrowedOf('remote')).toEqual([keys, values])
    expect(borrowedOf('none', { packed: new Set(['v']) })).toEqual([keys])
  })

  it('is copied if a timeline must show the remote copy, or if every row would widen it again', () => {
    expect(borrowedOf('remote', { record: true })).toEqual([1])
    expect(borrowedOf('none', { record: true })).toEqual([0, 1])
    expect(borrowedOf('none', {}, 'f16')).toEqual([1])
  })
})

/**
 * The changed kernels that can run on real targets: all except the one in which a program signals a flag more
 * than once.
 */
const runnable = changes.filter((one) => one !== 'signalled between')
const targets = (await realTargets()).filter((target) => target !== 'cuda')

describe.each(targets)('on %s', (target) => {
  itForSome(
    [
      ['whole tiles', 3 * BN, D],
      ['an end within a tile', 2 * BN + 5, D],
      ['fewer rows than a tile', 3, D],
      ['rows that are longer than the tile', 2 * BN, D + 16],
      ['rows that are shorter', 2 * BN, D - 3],
    ] as const,
    (_, place) => target === 'wasm' || place === 1,
  )('multiplies %s', async ([, length, width]) => {
    const world = await openWorld({ target, ranks: 2 } as OpenOptions)
    try {
      for (const dtype of ['f32', 'bf16', 'f16'] as const)
        for (const change of dtype === 'f32' ? runnable : (['none'] as const)) {
          const rows = change === 'many rows' ? 16 : G
          const made = (height: number, seed: number): Float32Array =>
            randomNumbers(dtype, height * width, seed)
          const [q, k, v, other] = [made(rows, 1), made(length, 2), made(length, 3), made(length, 4)]
          const at = (x: Float32Array, row: number, column: number): number =>
            row < x.length / width && column < width ? x[row * width + column] : 0
          const args = {
            q: world.from(dtype, [rows, width], () => q),
            k: world.from(dtype, [length, width], (rank) => (rank === 0 ? k : other)),
            v: world.from(dtype, [length, width], () => v),
            out: world.zeros(f32, [rows, D]),
            count: world.zeros(i32, [1]),
            turns: Math.ceil(length / BN),
            done: world.flags([]),
          }
          world.launch(scoring(change, dtype), args, { grid: 1 })
          const unit = { f32: 2 ** -24, bf16: 2 ** -8, f16: 2 ** -11 }[dtype]
          for (const rank of [0, 1]) {
            const keys = (rank === 0) === (change === 'remote') ? other : k
            const expected = new Float64Array(rows * D)
            for (let i = 0; i < rows; i++)
              for (let n = 0; n < length; n++) {
                let score = 0
                for (let d = 0; d < D; d++) score += at(q, i, d) * at(keys, n, d)
                for (let d = 0; d < D; d++) expected[i * D + d] += score * at(v, n, d)
              }
            expectClose(await world.read(args.out, rank), expected, { atol: 2 * D * length * unit })
          }
          for (const x of [args.q, args.k, args.v, args.out]) world.free(x)
        }
    } finally {
      await world.close()
    }
  })
})

it.each(targets)('constants can be operands of products on %s', async (target) => {
  const world = await openWorld({ target, ranks: 1 })
  try {
    const twos = kernel('twos', { x: tensor(f32, 2), out: tensor(f32, 2) }, (t, { x, out }) => {
      const tile = t.shared(f32, [16, 16])
      t.copy(x.tile([0, 0], [16, 16]), tile)
      t.store(out.tile([0, 0], [2, 16]), t.dot(t.full(f32, [2, 16], 2), tile, t.zeros(f32, [2, 16])))
    })
    const [x, out] = [world.full(f32, [16, 16], 3), world.zeros(f32, [2, 16])]
    world.launch(twos, { x, out }, { grid: 1 })
    expect([...(await world.read(out, 0))]).toEqual(new Array<number>(32).fill(2 * 3 * 16))
  } finally {
    await world.close()
  }
})
