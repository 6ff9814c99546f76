/** Tests the numbers that operations report, and the errors for invalid options. */
import { describe, expect, it } from 'vitest'
import { allGatherGemm, allGatherGemmOperation } from '../../src/ops/allGatherGemm/index.ts'
import { matrixProduct } from '../../src/ops/gathered/reference.ts'
import { flashDecode, flashDecodeOperation } from '../../src/ops/flashDecode/index.ts'
import { attentionOf } from '../../src/ops/flashDecode/reference.ts'
import { randomNumbers } from '../../src/operation/definition.ts'
import { openWorld } from '../../src/world/open.ts'
import { expectClose } from '../../src/world/world.ts'

const tiles = { BM: 4, BN: 4, BK: 4, stages: 2 }

describe('references', () => {
  it('match the definition of a product', () => {
    expect([...matrixProduct([1, 2, 3, 4, 5, 6], [1, 0, 0, 1, 2, 2], { M: 2, N: 2, K: 3 })]).toEqual([
      7, 8, 16, 17,
    ])
  })

  it('match the definition of attention, and yield zeros without tokens', () => {
    const extents = { batch: 1, heads: 1, G: 1, D: 1, tokens: 2, scale: Math.log(2) }
    // The scores 1 and 3 are exponents of base 2, so the weights over two ranks are 2 / 10 and 8 / 10.
    const contents = { q: [1], k: [[1, 9], [3, 9]], v: [[10, 99], [20, 99]] } // prettier-ignore
    expect(attentionOf({ ...contents, lengths: [[1], [1]] }, extents)[0]).toBeCloseTo(18, 12)
    expect(attentionOf({ ...contents, lengths: [[0], [1]] }, extents)[0]).toBeCloseTo(20, 12)
    expect([...attentionOf({ ...contents, lengths: [[0], [0]] }, extents)]).toEqual([0])
  })
})

describe('rows of a reference', () => {
  it('equal the rows of the whole reference', () => {
    const [a, b] = [randomNumbers('f32', 20, 1), randomNumbers('f32', 12, 2)]
    const shape = { M: 5, N: 3, K: 4 }
    const whole = matrixProduct(a, b, shape)
    expect([...matrixProduct(a, b, shape, [3, 0])]).toEqual([...whole.slice(9, 12), ...whole.slice(0, 3)])
    const extents = { batch: 2, heads: 2, G: 3, D: 4, tokens: 5, scale: 0.5 }
    const contents = {
      q: randomNumbers('f32', 48, 3),
      k: [4, 5].map((seed) => randomNumbers('f32', 80, seed)),
      v: [6, 7].map((seed) => randomNumbers('f32', 80, seed)),
      lengths: [
        [5, 2],
        [1, 4],
      ],
    }
    const all = attentionOf(contents, extents)
    expect([...attentionOf(contents, extents, [10, 4])]).toEqual([...all.slice(40, 44), ...all.slice(16, 20)])
  })
})

describe('random contents', () => {
  it('repeat after about a million, with a period that is no multiple of a usual length', () => {
    const numbers = randomNumbers('f32', 3_000_000, 3)
    expect(numbers.subarray(0, 1000)).toEqual(randomNumbers('f32', 1000, 3))
    for (const at of [999_999, 1_048_576, 2_097_152, 2_999_999])
      expect(numbers[at]).toBe(numbers[at % 1_048_573])
  })

  it('are the same for the same seed, and spread between -1 and 1', () => {
    const numbers = randomNumbers('f32', 4000, 3)
    expect(numbers).toEqual(randomNumbers('f32', 4000, 3))
    expect(numbers).not.toEqual(randomNumbers('f32', 4000, 4))
    expect(Math.min(...numbers)).toBeLessThan(-0.99)
    expect(Math.max(...numbers)).toBeGreaterThan(0.99)
    expect(Math.abs(numbers.reduce((sum, x) => sum + x, 0) / 4000)).toBeLessThan(0.05)
  })
})

describe('traffic', () => {
  const shape = { M: 6, N: 8, K: 10 }
  it.each([
    // Along K, each of two ranks receives the other half of A, 6 x 5 elements. `pull` receives it once per column of
    // tiles, of which there are two.
    ['bsp', 'K', 120, 2],
    ['pull', 'K', 240, 1],
    ['push', 'K', 120, 2],
    ['fused', 'M', 120, 1],
  ] as const)('of All-Gather + GEMM, %s along %s', async (variant, shard, remoteBytes, launches) => {
    const world = await openWorld({ ranks: 2 })
    const { traffic } = allGatherGemm(world, { shape, dtype: 'f32', variant, shard, tiles })
    expect(traffic).toEqual({ remoteBytes, leastRemoteBytes: 120, flops: 960, launches })
  })

  it('of Flash Decode', async () => {
    const world = await openWorld({ ranks: 3 })
    const options = {
      shape: { batch: 2, queryHeads: 4, kvHeads: 2, D: 8, tokens: 16 },
      dtype: 'bf16',
      variant: 'bsp',
      tiles: { splits: 2 },
    } as const
    // In this example, each of two ranks sends 2 x 2 tiles of 2 heads. Each head of a partial result has 8 sums, a maximum and a sum,
    // in f32. With one owner per tile, a rank receives the partial results of two tiles, and for the other tiles 2 x 8 results in
    // bf16.
    const ofTile = 2 * 10 * 4
    expect(flashDecode(world, options).traffic).toEqual({
      remoteBytes: 2 * (2 * 4 * ofTile),
      leastRemoteBytes: 2 * 2 * ofTile + 2 * 16 * 2,
      flops: 4 * 2 * 4 * 16 * 8,
      launches: 3,
    })
    // With work stealing, the last of four tiles is divided into two, so three whole tiles and two pieces are sent.
    const stealing = flashDecode(world, { ...options, variant: 'fused' })
    expect(stealing.traffic.remoteBytes).toBe(2 * (3 + 2) * ofTile)
  })
})

describe('options', () => {
  it('that are invalid are rejected', async () => {
    const world = await openWorld({ ranks: 2 })
    const gemm = { ...allGatherGemmOperation.defaults, tiles }
    const decode = flashDecodeOperation.defaults
    expect(() => allGatherGemm(world, { ...gemm, shape: { M: 0, N: 1, K: 1 } })).toThrow(
      /M is 0; .* at least 1/,
    )
    expect(() => allGatherGemm(world, { ...gemm, variant: 'magic' as never })).toThrow(
      /no magic; choose one of bsp, pull, push, fused/,
    )
    expect(() => allGatherGemm(world, { ...gemm, grid: 2, senders: 2 })).toThrow(
      /leave no program to multiply/,
    )
    expect(() => flashDecode(world, { ...decode, shape: { ...decode.shape, kvHeads: 5 } })).toThrow(
      /32 query heads do not share 5 kv heads evenly/,
    )
    expect(() => flashDecode(world, { ...decode, owners: true, stealing: true })).toThrow(
      /stealing needs ranks with cheap access .* no fetching and splits > 0; this is check, with owners/,
    )
    for (const option of [{ owners: true }, { stealing: true }, { fetching: true }])
      expect(() => flashDecode(world, { ...decode, ...option, variant: 'bsp' })).toThrow(
        `flashDecode: ${Object.keys(option)[0]} is an option of fused only, not of bsp`,
      )
    for (const option of [{ senders: 1 }, { flagPer: 'tile' as const }])
      expect(() => allGatherGemm(world, { ...gemm, ...option, variant: 'push' })).toThrow(
        `allGatherGemm: ${Object.keys(option)[0]} is an option of fused only, not of push`,
      )
    expect(() => allGatherGemm(world, { ...gemm, ownFirst: true, variant: 'pull' })).toThrow(
      'allGatherGemm: ownFirst is an option of push and fused only, not of pull',
    )
    const small = flashDecode(world, {
      ...decode,
      shape: { batch: 1, queryHeads: 1, kvHeads: 1, D: 1, tokens: 2 },
    })
    const contents = small.random(1)
    expect(() => small.fill({ ...contents, lengths: [[1], [3]] })).toThrow(
      /lengths 3 of rank 1; each must be a whole number from 0 to 2 tokens/,
    )
  })
})

describe('packed weights', () => {
  it.each(allGatherGemmOperation.variants)('serve %s until new weights are filled in', async (variant) => {
    const world = await openWorld({ ranks: 2 })
    const shape = { M: 3, N: 5, K: 6 }
    const operation = allGatherGemm(world, { shape, dtype: 'f32', variant, shard: 'K', tiles, grid: 1 })
    for (const seed of [1, 2]) {
      const contents = operation.random(seed)
      operation.fill(contents)
      if (seed === 1) await operation.pack()
      operation.launch()
      expectClose(await operation.result(1), operation.reference(contents, 1), { atol: 1e-5 })
    }
    await world.close()
  })
})
