/**
 * Tests with the tag `long` run only in `npm run test:long`. `npm test` runs all other tests. Every behaviour with long
 * tests keeps at least one short test, which tries fewer cases of the same behaviour.
 */
import { it } from 'vitest'

export const long = { tags: ['long'] }

/** Declares one test per case, as `it.for` does. Cases that are not `isShort` get the tag `long`. */
export const itForSome =
  <const T>(cases: readonly T[], isShort: (one: T, index: number) => boolean) =>
  (name: string, run: (one: T) => unknown): void => {
    it.for(cases.filter(isShort))(name, async (one) => void (await run(one)))
    it.for(cases.filter((one, index) => !isShort(one, index)))(
      name,
      long,
      async (one) => void (await run(one)),
    )
  }

/** Declares two tests of one property: a short test with a quarter of the runs, and a long test with all runs. */
export const itForRuns = (name: string, runs: number, check: (runs: number) => unknown): void => {
  it(name, async () => void (await check(Math.ceil(runs / 4))))
  it(`${name} (all seeds)`, long, async () => void (await check(runs)))
}
