/**
 * Random numbers on every target, and as CUDA C++ that runs on this CPU: the known answers that Random123 publishes for
 * philox4x32-10, and other counters and keys compared with the definition of Philox in BigInt.
 */
import { describe, expect, it } from 'vitest'
import { kernel, tensor, u32, type Kernel, type Program, type World } from '../../../src/index.ts'
import { cudaOnCpu, onWorld, places, poison, range } from './harness.ts'
import { long } from '../../long.ts'

/** Test vectors of Random123 (kat_vectors): counter, key and block. */
const known = `
00000000 00000000 00000000 00000000 00000000 00000000 6627e8d5 e169c58d bc57ac4c 9b00dbd8
ffffffff ffffffff ffffffff ffffffff ffffffff ffffffff 408f276d 41c83b0e a20bc7c6 6d5451fd
243f6a88 85a308d3 13198a2e 03707344 a4093822 299f31d0 d16cfe09 94fdcceb 5001e420 24126ea1
`
  .trim()
  .split('\n')
  .map((row) => row.split(' ').map((word) => parseInt(word, 16)))

/** Computes Philox4x32-10 as its authors define it. */
function block(counter: readonly number[], key: readonly number[]): number[] {
  let x = counter.map(BigInt)
  let k = key.map(BigInt)
  const low = (word: bigint): bigint => BigInt.asUintN(32, word)
  for (let round = 0; round < 10; round++) {
    const [left, right] = [0xd2511f53n * x[0], 0xcd9e8d57n * x[2]]
    x = [(right >> 32n) ^ x[1] ^ k[0], low(right), (left >> 32n) ^ x[3] ^ k[1], low(left)]
    k = [low(k[0] + 0x9e3779b9n), low(k[1] + 0xbb67ae85n)]
  }
  return x.map(Number)
}

const run = <T>(target: string, use: (world: World) => Promise<T>): Promise<T> => onWorld(target, 1, use)

/** One block per element, of counters and keys from memory. */
const blocks = kernel(
  'blocks',
  { counters: tensor(u32, 2), keys: tensor(u32, 2), out: tensor(u32, 2) },
  { count: 1 },
  (t, { counters, keys, out }, { count }) => {
    t.for(3, (row) => {
      const key = [t.load(keys.at([row, 0])), t.load(keys.at([row, 1]))] as const
      const lanes = t.arange(count)
      const word = (n: number) => t.load(counters.at([row.mul(count).add(lanes), n]))
      const words = t.random4(u32, key, [word(0), word(1), word(2), word(3)])
      for (const [n, made] of words.entries()) t.store(out.at([row.mul(count).add(lanes), n]), made)
    })
  },
)

const uniform = kernel(
  'uniform',
  { x: tensor('f32', 2), y: tensor('f32', 2), bits: tensor(u32, 1) },
  (t, { x, y, bits }) => {
    const at = t.arange(5).mul(7).expand(1).add(t.arange(7).expand(0))
    t.store(x.tile([0, 0], [5, 7]), t.random('f32', 2 ** 40 + 3, at))
    t.store(y.tile([0, 0], [5, 7]), t.random4('f32', [t.rank.add(9), 1], [at, 0, 5])[2])
    t.store(bits.at([0]), t.random(u32, 12, t.constant('i32', -1)))
  },
) as unknown as Kernel

describe.each(places)('on %s', (target) => {
  it('blocks are those that Random123 publishes, also in vectors', async () => {
    const count = target === 'native' || target === cudaOnCpu ? 37 : 9
    const counters = known.flatMap((row) =>
      range(count).map((i) => [(row[0] + i) % 2 ** 32, ...row.slice(1, 4)]),
    )
    const expected = known.flatMap((row) =>
      range(count).map((i) =>
        i === 0 ? row.slice(6) : block([(row[0] + i) % 2 ** 32, ...row.slice(1, 4)], row.slice(4, 6)),
      ),
    )
    const got = await run(target, async (world) => {
      const args = {
        counters: world.from(u32, [3 * count, 4], counters.flat()),
        keys: world.from(
          u32,
          [3, 2],
          known.flatMap((row) => row.slice(4, 6)),
        ),
        out: world.full(u32, [3 * count, 4], poison),
      }
      world.launch(blocks, args, { grid: 1, meta: { count } })
      return [...(await world.read(args.out, 0))]
    })
    expect(got).toEqual(expected.flat())
  })

  it(
    'a f32 has the upper 24 bits of a word, and a seed has two words',
    target === cudaOnCpu ? long : {},
    async () => {
      const [x, y, bits] = await run(target, async (world) => {
        const x = world.full('f32', [5, 7], poison)
        const y = world.full('f32', [5, 7], poison)
        const bits = world.full(u32, [1], poison)
        world.launch(uniform, { x, y, bits } as never, { grid: 1 })
        return [
          [...(await world.read(x, 0))],
          [...(await world.read(y, 0))],
          [...(await world.read(bits, 0))],
        ]
      })
      const fraction = (word: number): number => Math.floor(word / 256) / 2 ** 24
      expect(x).toEqual(range(35).map((i) => fraction(block([i, 0, 0, 0], [3, 256])[0])))
      expect(y).toEqual(range(35).map((i) => fraction(block([i, 0, 5, 0], [9, 1])[2])))
      expect(bits).toEqual([block([0xffffffff, 0, 0, 0], [12, 0])[0]])
    },
  )
})

describe('recording refuses', () => {
  const made = (use: (t: Program) => void) => () =>
    void kernel('refused', {}, (t) => use(t)).record({ world: 1 })
  it('words of other dtypes, too many words, and seeds that are not exact', () => {
    expect(made((t) => t.random('f32', 1, t.arange(4).to('i64') as never))).toThrow(/not of i64: cast first/)
    expect(made((t) => t.random('f32', [1, 2, 3] as never, t.arange(4)))).toThrow(/the seed has 3 words/)
    expect(made((t) => t.random('f32', [] as never, t.arange(4)))).toThrow(/the seed has 0 words/)
    expect(made((t) => t.random('f32', 2 ** 53, t.arange(4)))).toThrow(/the seed 9007199254740992/)
    expect(made((t) => t.random('f32', 1, [t.arange(4), 2 ** 32]))).toThrow(/does not fit u32/)
    expect(made((t) => t.random('i32' as never, 1, t.arange(4)))).toThrow(/makes u32 or f32, not i32/)
  })
})
