/** Copies in flight on every target: on a GPU by TMA. Copies that threads make also run as CUDA C++ on this CPU. */
import { describe, expect, it } from 'vitest'
import { contents, expected, multiplying, sending, storing } from '../../cuda/inFlightKernels.ts'
import { itForEach, onWorld, places, targets } from './harness.ts'

describe.each(targets)('copies in flight on %s', (target) => {
  itForEach(target, [sending, storing, multiplying])('$name', ({ ranks: [ranks], run }) =>
    onWorld(target, ranks, async (world) => {
      for (let launch = 0; launch < 3; launch++) await run(world)
    }),
  )
})

describe.each(places)('copies by threads on %s', (target) => {
  it('have the expected results', () =>
    onWorld(target, 2, async (world) => expect(await contents(world)).toEqual(expected)))
})
