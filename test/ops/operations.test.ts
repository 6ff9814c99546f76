/** The shipped operations under the checker, recorded and lowered: no finding, and what a float64 reference gives. */
import { describe, expect, it } from 'vitest'
import { bf16, f32, i32 } from '../../src/index.ts'
import { allGatherGemmPull } from '../../src/ops/allGatherGemm/pull.ts'
import { publish } from '../../src/ops/allGatherGemm/publish.ts'
import { flashDecodeFused } from '../../src/ops/flashDecode/fused.ts'
import { gemm } from '../../src/ops/gemm.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { expectClose, scenario, type World } from '../../src/world/world.ts'

/** Quarters between -1 and 1: exact in bf16. */
const numbers = (count: number, seed: number): number[] =>
  Array.from({ length: count }, (_, i) => (((i * 7 + seed * 5 + ((i * i) % 3)) % 9) - 4) / 4)

async function expectClean(ranks: number, run: (world: World) => Promise<void>): Promise<void> {
  const subject = scenario('operation', { ranks }, run)
  for (const stage of ['recorded', 'lowered'] as const) {
    const random = await explore(subject, { ranks, stage, schedules: 40 })
    expect(random.findings.map(formatFinding), stage).toEqual([])
    const search = await explore(subject, { ranks, stage, preemptions: 1, limit: 60 })
    expect(search.findings.map(formatFinding), stage).toEqual([])
  }
}

function product(a: readonly number[], b: readonly number[], m: number, n: number, k: number): number[] {
  return Array.from({ length: m * n }, (_, at) => {
    const [i, j] = [Math.floor(at / n), at % n]
    let sum = 0
    for (let l = 0; l < k; l++) sum += a[i * k + l] * b[l * n + j]
    return sum
  })
}

describe('operations under the checker', () => {
  it.each([
    [5, 7, 6],
    [1, 3, 9],
    [4, 4, 2],
  ])('gemm of %i x %i x %i', async (m, n, k) => {
    const [a, b] = [numbers(m * k, 1), numbers(k * n, 2)]
    await expectClean(1, async (world) => {
      const c = world.empty(bf16, [m, n])
      const args = { a: world.from(bf16, [m, k], a), b: world.from(bf16, [k, n], b), c }
      world.launch(gemm, args, { grid: 2, meta: { BM: 4, BN: 4, BK: 4, stages: 2 } })
      expectClose(await world.read(c, 0), product(a, b, m, n, k), 1 / 32)
    })
  })

  it.each([1, 2, 3])(
    'All-Gather+GEMM pull on %i ranks, K of a rank not a multiple of a tile',
    async (ranks) => {
      const [m, n, k] = [5, 3, 3]
      const slice = (rank: number): number[] => numbers(m * k, rank)
      const weights = (rank: number): number[] => numbers(k * ranks * n, rank + 9)
      const gathered = Array.from({ length: m * k * ranks }, (_, at) => {
        const [i, l] = [Math.floor(at / (k * ranks)), at % (k * ranks)]
        return slice(Math.floor(l / k))[i * k + (l % k)]
      })
      await expectClean(ranks, async (world) => {
        const [ready, done] = [world.flags(), world.flags([ranks])]
        const [a, c] = [world.empty(bf16, [m, k]), world.empty(bf16, [m, n])]
        const source = world.from(bf16, [m, k], slice)
        const b = world.from(bf16, [k * ranks, n], weights)
        for (let launch = 0; launch < 2; launch++) {
          world.launch(publish, { source, a, ready, done }, { grid: 1 })
          const meta = { BM: 4, BN: 2, BK: 2, slices: Math.ceil(k / 2), stages: 2 }
          world.launch(allGatherGemmPull, { a, b, c, ready, done }, { grid: 2, meta })
        }
        for (let rank = 0; rank < ranks; rank++)
          expectClose(await world.read(c, rank), product(gathered, weights(rank), m, n, k * ranks), 1 / 16)
      })
    },
  )

  it.each([1, 2, 3])(
    'fused Flash Decode on %i ranks, ragged and empty shards, three launches',
    async (ranks) => {
      const [batch, heads, G, D, BN, capacity, scale] = [2, 1, 2, 4, 3, 5, 0.5]
      const lengthOf = (rank: number, b: number): number =>
        rank === 1 && b === 0 ? 0 : [5, 2, 4][(rank + b) % 3]
      const queries = numbers(batch * heads * G * D, 3)
      const keysOf = (rank: number): number[] => numbers(batch * heads * capacity * D, rank + 20)
      const valuesOf = (rank: number): number[] => numbers(batch * heads * capacity * D, rank + 40)
      const attend = (b: number, g: number): number[] => {
        const tokens = Array.from({ length: ranks }, (_, rank) =>
          Array.from({ length: lengthOf(rank, b) }, (_, s) => ({ rank, at: (b * capacity + s) * D })),
        ).flat()
        const weight = tokens.map(({ rank, at }) => {
          let dot = 0
          for (let d = 0; d < D; d++) dot += queries[(b * G + g) * D + d] * keysOf(rank)[at + d]
          return Math.exp(dot * scale)
        })
        const total = weight.reduce((sum, one) => sum + one, 0)
        return Array.from({ length: D }, (_, d) =>
          tokens.reduce((sum, { rank, at }, i) => sum + (weight[i] / total) * valuesOf(rank)[at + d], 0),
        )
      }
      await expectClean(ranks, async (world) => {
        const shape = [batch, heads, capacity, D]
        const out = world.empty(bf16, [batch, heads, G, D])
        const args = {
          q: world.from(bf16, [batch, heads, G, D], queries),
          k: world.from(bf16, shape, keysOf),
          v: world.from(bf16, shape, valuesOf),
          lengths: world.from(i32, [batch], (rank) => [lengthOf(rank, 0), lengthOf(rank, 1)]),
          out,
          inbox: world.empty(f32, [2, ranks * batch * heads, G, D]),
          stats: world.empty(f32, [2, ranks * batch * heads, 2, G]),
          arrived: world.flags([ranks, batch, heads]),
          done: world.flags([ranks]),
        }
        for (let launch = 0; launch < 3; launch++)
          world.launch(flashDecodeFused, args, { grid: 1, meta: { G, D, BN, stages: 2, scale } })
        for (let b = 0; b < batch; b++) {
          const owner = b % ranks
          const mine = (await world.read(out, owner)).subarray(b * G * D, (b + 1) * G * D)
          expectClose(mine, [...attend(b, 0), ...attend(b, 1)], 0.02)
        }
      })
    },
  )
})
