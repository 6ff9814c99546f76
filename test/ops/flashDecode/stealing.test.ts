/**
 * A rank that has finished its own work computes the attention for tiles of other ranks. The test gives rank 0 a
 * different query, which users may not do, so that the result of a tile shows which rank computed it. Rank 0 holds no
 * tokens, so that only one rank computes each tile.
 */
import { describe, expect, it } from 'vitest'
import { f32, openWorld } from '../../../src/index.ts'
import { flashDecode, type FlashDecode } from '../../../src/ops/flashDecode/index.ts'
import { explore } from '../../../src/targets/check/explore.ts'
import { formatFinding } from '../../../src/targets/check/findings.ts'
import { scenario, type World } from '../../../src/world/world.ts'
import { realTargets } from '../../targets/differential/targets.ts'
import { holdUp } from '../holdUp.ts'

const targets = (await realTargets()).filter((target) => target !== 'cuda')

interface Drawn {
  readonly byRank0: number
  readonly byOwner: number
}

/**
 * Fills the KV cache. Returns a function that executes the operation once and counts how many tiles of rank 1 each rank
 * computed.
 */
function counting(world: World, operation: FlashDecode): () => Promise<Drawn> {
  const { batch, kvHeads, queryHeads, D, tokens } = operation.shape
  const random = operation.random(1)
  const contents = { ...random, lengths: [0, tokens].map((length) => new Int32Array(batch).fill(length)) }
  const other = Float32Array.from(contents.q, (x) => -x)
  operation.fill(contents)
  world.write(operation.inputs.q, 0, other)
  const ofOwner = operation.reference(contents, 0)
  const ofRank0 = operation.reference({ ...contents, q: other }, 0)
  const height = (queryHeads / kvHeads) * D
  return async () => {
    operation.launch()
    const [result, same] = [await operation.result(0), await operation.result(1)]
    expect(same).toEqual(result)
    let [byOwner, byRank0] = [0, 0]
    for (let from = 0; from < result.length; from += height) {
      const isOf = (expected: Float64Array): boolean =>
        expected
          .slice(from, from + height)
          .every((x, i) => Math.abs(x - result[from + i]) < operation.tolerance)
      expect(isOf(ofOwner)).not.toBe(isOf(ofRank0))
      if (isOf(ofOwner)) byOwner++
      else byRank0++
    }
    return { byOwner, byRank0 }
  }
}

describe('stealing', () => {
  const shape = { batch: 1, queryHeads: 3, kvHeads: 3, D: 2, tokens: 4 }

  it.each([
    [undefined, true],
    [false, false],
  ])('as %s is taken under the checker: %s', async (stealing, isTaken) => {
    let [byOwner, byRank0] = [0, 0]
    const subject = scenario('stealing', { ranks: 2 }, async (world) => {
      const options = { shape, dtype: 'f32', variant: 'fused', tiles: { BN: 2, splits: 1 }, grid: 1 } as const
      const count = counting(world, flashDecode(world, { ...options, stealing }))
      for (let launch = 0; launch < 3; launch++) {
        const drawn = await count()
        byOwner += drawn.byOwner
        byRank0 += drawn.byRank0
      }
    })
    const { findings } = await explore(subject, { ranks: 2, schedules: 20 })
    expect(findings.map(formatFinding)).toEqual([])
    expect(byOwner + byRank0).toBe(20 * 3 * shape.kvHeads)
    expect(byOwner).toBeGreaterThan(0)
    expect(byRank0 > 0).toBe(isTaken)
  })

  it.each(targets)('on %s takes work from a rank that is late', async (target) => {
    const world = await openWorld({ target, ranks: 2 })
    try {
      const shape = { batch: 1, queryHeads: 8, kvHeads: 8, D: 16, tokens: 2048 }
      const options = { shape, dtype: 'f32', variant: 'fused', tiles: { splits: 1 } } as const
      const count = counting(world, flashDecode(world, options))
      const place = world.zeros(f32, [1])
      let stolen = 0
      for (let launch = 0; launch < 200 && stolen === 0; launch++) {
        world.launch(holdUp, { place, turns: 20_000 }, { grid: 1, ranks: [1] })
        stolen += (await count()).byRank0
      }
      expect(stolen).toBeGreaterThan(0)
    } finally {
      await world.close()
    }
  })
})
