/**
 * Corrupted traces never crash or hang the audit, and never make it use unbounded memory. The short test tries 15
 * traces, and the long tests 60 and 1,000. `ARKE_FUZZ=10000 npx vitest run test/audit/fuzz.test.ts` tries 10,000 traces, and
 * `ARKE_FUZZ_SEED` selects other corruptions.
 */
import { describe, expect, it } from 'vitest'
import { haveRealTraces } from './corpus.ts'
import { fuzz } from './fuzz.ts'
import { long } from '../long.ts'

const count = Number(process.env.ARKE_FUZZ ?? 1000)
const seed = Number(process.env.ARKE_FUZZ_SEED ?? 1)
if (!haveRealTraces)
  console.log('the real traces are not beside this checkout: only generated ones are corrupted')

async function expectSurvived(count: number): Promise<void> {
  const { failures, outcomes, memory } = await fuzz(count, seed)
  const repeat = failures
    .slice(0, 10)
    .map(
      ({ index, outcome, what, problem }) =>
        `${outcome}: ${what}\n${problem}\nagain: npx tsx test/audit/fuzz.ts --seed ${seed} --only ${index}`,
    )
  expect(repeat).toEqual([])
  // Most corrupted traces are still partly readable.
  expect(outcomes.audited).toBeGreaterThan(count / 2)
  expect(memory).toBeLessThan(900)
}

describe('corrupted traces', () => {
  it(`15 of seed ${seed}`, () => expectSurvived(15))
  it(`60 of seed ${seed}`, long, () => expectSurvived(60))
  it(`${count} of seed ${seed}`, { ...long, timeout: 60_000 + count * 200 }, () => expectSurvived(count))
})
