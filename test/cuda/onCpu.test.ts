/**
 * Random kernels, emitted as CUDA C++ and run on this CPU thread by thread, must agree with the checker. ARKE_KERNELS
 * sets the number of kernels per class, ARKE_SEED the seed.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { worlds, type OpenOptions } from '../../src/world/open.ts'
import { genes } from '../targets/differential/choices.ts'
import { compareTargets } from '../targets/differential/compare.ts'
import { generate } from '../targets/differential/generator.ts'
import { Refusals } from '../targets/differential/refusals.ts'
import { NotOnCpu, openOnCpu, unavailable } from './onCpu/onCpu.ts'
import { long } from '../long.ts'

const why = unavailable()
if (why) console.info(`emitted kernels cannot run on this machine: ${why}`)
;(worlds as Record<string, unknown>).cuda = ({ ranks, onPrint }: OpenOptions) => openOnCpu(ranks, { onPrint })

describe.skipIf(why !== undefined).each(['exact', 'bounded'] as const)('%s kernels for a GPU', (kind) => {
  const expectSame = async (runs: number): Promise<void> => {
    let compared = 0
    const refusals = new Refusals()
    await fc.assert(
      fc.asyncProperty(genes(400), fc.nat(1000), async (list, inputs) => {
        try {
          await compareTargets(generate(list, kind), ['check', 'cuda'], inputs)
          compared++
        } catch (error) {
          if (refusals.allows(error) || error instanceof NotOnCpu) return
          throw error
        }
      }),
      {
        seed: Number(process.env.ARKE_SEED ?? 41),
        numRuns: runs,
        endOnFailure: process.env.ARKE_SHRINK !== '1',
      },
    )
    expect(compared).toBeGreaterThan(runs / 2)
  }
  it('give on this CPU what they give in the checker', long, () =>
    expectSame(Number(process.env.ARKE_KERNELS ?? 12)),
  )
  it('give on this CPU what they give in the checker, two of them', () => expectSame(2))
})
