/** The timeline row of a rank with several processors, compared with a count of the processors at every nanosecond. */
import fc from 'fast-check'
import { expect, it } from 'vitest'
import { mostCommonParts } from '../../src/report/mostCommon.ts'
import { type Part, partNames } from '../../src/taxes/ledger.ts'
import { type Intervals, unionOf } from '../../src/timeline/intervals.ts'

const LENGTH = 40

it('shows the part in which most processors are', () => {
  const processor = fc.array(fc.constantFrom<Part>('compute', 'wait', 'vacant', 'gap'), {
    minLength: LENGTH,
    maxLength: LENGTH,
  })
  fc.assert(
    fc.property(fc.array(processor, { minLength: 1, maxLength: 5 }), (processors) => {
      const shown = mostCommonParts(
        processors.map((own) => ({
          parts: Object.fromEntries(
            partNames.map((part) => [
              part,
              unionOf(own.flatMap((at, time) => (at === part ? [time, time + 1] : []))),
            ]),
          ) as Record<Part, Intervals>,
        })),
      )
      for (let time = 0; time < LENGTH; time++) {
        const votes = (part: Part): number => processors.filter((own) => own[time] === part).length
        const most = Math.max(...partNames.map(votes))
        const found = partNames.filter((part) =>
          shown[part].some((from, i) => i % 2 === 0 && from <= time && time < shown[part][i + 1]),
        )
        expect(found).toEqual([partNames.find((part) => votes(part) === most)])
      }
    }),
    { seed: 9, numRuns: 100 },
  )
})
