/**
 * Operations whose producers are split into strands, as on a GPU, under the checker: with all waits, and without those of the strand
 * that goes ahead. A kernel in which that strand needs them shows that the checker sees it.
 */
import { describe, expect, it } from 'vitest'
import { f32 } from '../../src/index.ts'
import type { KernelIR } from '../../src/ir/node.ts'
import { splitProducer } from '../../src/ir/passes/ahead.ts'
import { lower } from '../../src/ir/stages.ts'
import { flags, kernel, tensor } from '../../src/lang/kernel.ts'
import { allGatherGemm, type AllGatherGemmOptions } from '../../src/ops/allGatherGemm/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'
import { repeated } from './clean.ts'

/** Splits what it can, each kernel once, and counts. */
function splitting(waits: 'kept' | 'settled') {
  const made = new Map<KernelIR, KernelIR>()
  let count = 0
  const stage = (recorded: KernelIR): KernelIR => {
    const known = made.get(recorded)
    if (known) return known
    const split = splitProducer(lower(recorded), waits)
    if (split) count++
    made.set(recorded, split ?? lower(recorded))
    return made.get(recorded)!
  }
  return { stage, count: () => count }
}

async function findings(subject: Scenario, waits: 'kept' | 'settled', ranks: number): Promise<string[]> {
  const { stage, count } = splitting(waits)
  const random = await explore(subject, { ranks, stage, schedules: 8 })
  const search = await explore(subject, { ranks, stage, preemptions: 1, limit: 8 })
  expect(count()).toBeGreaterThan(0)
  return [...random.findings, ...search.findings].map(formatFinding)
}

const forms = ['kept', 'settled'] as const
type Given = Pick<AllGatherGemmOptions, 'variant' | 'shard'> & Partial<AllGatherGemmOptions>
const given: readonly Given[] = [
  ...(['K', 'M'] as const).flatMap((shard) =>
    (['bsp', 'pull'] as const).map((variant) => ({ variant, shard })),
  ),
  { variant: 'push', shard: 'K', ownFirst: false },
  { variant: 'fused', shard: 'K', flagPer: 'shard', inOrder: true },
]

describe.each(forms)('strands with waits %s', (waits) => {
  it.each(
    given.map(
      (one) => [`${one.variant} along ${one.shard}, a flag per ${one.flagPer ?? 'tile'}`, one] as const,
    ),
  )('are clean in %s', async (_, one) => {
    const tiles = { BM: 2, BN: 4, BK: 2, stages: 2 }
    const shape = { M: 3, N: 5, K: 6 }
    const subject = repeated(
      3,
      (world) => allGatherGemm(world, { shape, dtype: 'f32', tiles, grid: 2, ...one }),
      { factor: 'a', tolerance: 1e-5, launches: 2 },
    )
    expect(await findings(subject, waits, 3)).toEqual([])
  })
})

/** The flag that is waited for in one turn tells of what is copied in the next: here the strand ahead needs its wait. */
const both = kernel(
  'both',
  { a: tensor(f32, 2), b: tensor(f32, 2), c: tensor(f32, 2), ready: flags() },
  (t, { a, b, c, ready }) => {
    const [as, bs] = [t.shared(f32, [1, 2]), t.shared(f32, [2, 4])]
    const sum = t.pipeline([2], t.zeros(f32, [1, 4]), ([k], acc) => {
      t.copy(b.tile([k, 0], [2, 4]), bs)
      t.wait(ready)
      t.copy(a.tile([0, k], [1, 2]), as)
      return t.dot(as, bs, acc)
    })
    t.store(c.tile([0, 0], [1, 4]), sum)
  },
)
const send = kernel('send', { b: tensor(f32, 2), ready: flags() }, (t, { b, ready }) => {
  const peer = t.rank.add(1).mod(t.world)
  t.store(b.on(peer).tile([1, 0], [2, 4]), t.constant(f32, 2))
  t.signal(ready.on(peer))
})
const receiving = scenario('receiving', { ranks: 2 }, async (world) => {
  const [a, b, c] = [world.full(f32, [1, 4], 1), world.zeros(f32, [4, 4]), world.zeros(f32, [1, 4])]
  const ready = world.flags([])
  world.launch(send, { b, ready }, { grid: 1, stream: world.stream() })
  world.launch(both, { a, b, c, ready }, { grid: 1 })
  await world.synchronize()
  return [...(await world.read(c, 0))]
})

describe('a flag that tells of what the first strand copies next', () => {
  it('is waited for by it', async () => {
    expect(await findings(receiving, 'kept', 2)).toEqual([])
  })

  it('is missed without', async () => {
    const [found] = await findings(receiving, 'settled', 2)
    expect(found).toContain('race')
  })
})
