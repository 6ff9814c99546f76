/**
 * Tests copies in flight on every target, and on a GPU also the fences that copies by TMA need. Copies that threads
 * make, including those by cp.async, also run as CUDA C++ on this CPU.
 */
import { describe, expect, it } from 'vitest'
import { fencedScenarios } from '../../cuda/fencedKernels.ts'
import {
  contents,
  expected,
  fetchings,
  fetchingOperands,
  multiplying,
  sending,
  storing,
} from '../../cuda/inFlightKernels.ts'
import { cudaOnCpu, itForEach, onWorld, places, targets } from './harness.ts'
import { itForSome } from '../../long.ts'

describe.each(targets)('copies in flight on %s', (target) => {
  itForEach(target, [sending, storing, multiplying, fetchingOperands, ...fencedScenarios])(
    '$name',
    ({ ranks: [ranks], run }) =>
      onWorld(target, ranks, async (world) => {
        for (let launch = 0; launch < 3; launch++) await run(world)
      }),
  )
})

describe.each(places)('copies into shared tiles on %s', (target) => {
  // Rows of 12, 10 and 9 f32 are multiples of 16, 8 and 4 bytes. The short tests try the first and the last on CUDA C++.
  const isShort = (one: (typeof fetchings)[number], place: number): boolean =>
    target === cudaOnCpu ? one !== fetchings[1] : target !== 'native' || place === 0
  itForSome(fetchings, isShort)('$name', ({ ranks: [ranks], run }) =>
    onWorld(target, ranks, async (world) => {
      for (let launch = 0; launch < 2; launch++) await run(world)
    }),
  )
})

describe.each(places)('copies by threads on %s', (target) => {
  it('have the expected results', () =>
    onWorld(target, 2, async (world) => expect(await contents(world)).toEqual(expected)))
})
