/**
 * Runs collectives on the targets that execute kernels: 1 to 8 ranks, every dtype, repeated launches, with the
 * guaranteed bits. If ARKE_STRESS=1 is set, more cases run.
 */
import { describe } from 'vitest'
import { openWorld } from '../../../src/index.ts'
import { everything, fewerOn, worldSizes } from '../../targets/primitives/harness.ts'
import { realTargets } from '../../targets/differential/targets.ts'
import { collectives, small, type Case } from './scenarios.ts'
import { itForSome } from '../../long.ts'

const targets = await realTargets()
const launches = everything ? 50 : 8

describe.skipIf(targets.length === 0).each(targets)('on %s', (target) => {
  describe.each(Object.entries(collectives))('%s', (name, run) => {
    // Targets that compile per world size alternate between two world sizes.
    const turn = Object.keys(collectives).indexOf(name)
    const sizes = fewerOn(target, worldSizes, [1 + (turn % 4), 5 + ((turn + 2) % 4)])
    itForSome(sizes, (ranks) => (target === 'native' ? ranks < 5 : ranks === 3 || ranks === 8))(
      'on %i ranks',
      async (ranks) => {
        const dtype = (['f32', 'bf16', 'f16'] as const)[ranks % 3]
        const cases: Case[] = [
          { ...small, dtype, elements: 1003, tile: 64, grid: 'resident', launches, seed: ranks },
          { ...small, dtype, elements: ranks - 1, tile: 4, grid: 'resident', launches: 3, seed: ranks + 8 },
        ]
        const world = await openWorld({ target, ranks })
        try {
          for (const one of cases) await run(world, one)
        } finally {
          await world.close()
        }
      },
    )
  })
})
