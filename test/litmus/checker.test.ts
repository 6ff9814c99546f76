/**
 * Compares the checker's exhaustive search with the axiomatic enumerator, which shares no code with it. The checker and the
 * axioms must give the same outcomes and report the same races, for every program of the suite and for random programs.
 */
import { describe, expect, it } from 'vitest'
import { explore } from '../../src/targets/check/explore.ts'
import { enumerate } from './axiomatic.ts'
import { litmusScenario } from './kernel.ts'
import type { LitmusProgram } from './program.ts'
import type { LitmusCase } from './cross.ts'
import { randomPrograms } from './randomPrograms.ts'
import { litmusSuite, loadBuffering, loadBufferingExcluded } from './suite.ts'
import { itForSome, long } from '../long.ts'

interface Verdict {
  readonly outcomes: readonly string[]
  readonly clean: readonly string[]
  readonly weakRace: boolean
  readonly scopeRace: boolean
}

async function search(program: LitmusProgram, preemptions: number): Promise<Verdict> {
  const { scenario, ranks } = litmusScenario(program)
  const { findings, results, complete } = await explore(scenario, {
    ranks,
    preemptions,
    limit: 200_000,
    keepGoing: true,
  })
  expect(complete, `${program.name}: the search was cut off`).toBe(true)
  const unexpected = findings.filter((finding) => finding.kind !== 'race' && finding.kind !== 'scope-race')
  expect(unexpected, program.name).toEqual([])
  const sorted = (list: readonly { value: unknown }[]): string[] =>
    [...new Set(list.map(({ value }) => String(value)))].sort()
  return {
    outcomes: sorted(results),
    clean: sorted(results.filter((result) => result.clean)),
    weakRace: findings.some((finding) => finding.kind === 'race'),
    scopeRace: findings.some((finding) => finding.kind === 'scope-race'),
  }
}

async function compare(program: LitmusProgram): Promise<void> {
  const expected = enumerate(program)
  const actual = await search(program, Infinity)
  const context = `${program.name}\n${JSON.stringify(program, undefined, 1)}`
  expect({ weakRace: actual.weakRace, scopeRace: actual.scopeRace }, context).toEqual({
    weakRace: expected.weakRace,
    scopeRace: expected.scopeRace,
  })
  // A program with a weak race has no defined outcome. The checker's race-free executions of such a program must have
  // the outcomes of the model.
  if (expected.weakRace) expect(actual.clean, context).toEqual([...expected.raceFreeOutcomes].sort())
  else expect(actual.outcomes, context).toEqual([...expected.outcomes].sort())
}

/**
 * Programs with four agents have about a thousand interleavings each. By default, the tests run every variant in one
 * layout and every layout with one variant. ARKE_STRESS=1 runs all combinations.
 */
const isUsual = ({ program, variant, layout }: LitmusCase): boolean =>
  program.agents.length < 4 || variant === 'relAcq' || layout === 'ranks.system'
const everything = process.env.ARKE_STRESS === '1'
const suite = everything ? litmusSuite : litmusSuite.filter(isUsual)
const shapes = [...new Set(suite.map(({ shape }) => shape))]
/** Shapes for which checking all programs takes over a second. */
const longShapes = new Set(['CoRR2', 'MP-store', 'MP-add', 'ISA2', 'IRIW', 'WRC'])

describe('the exhaustive search equals the axiomatic enumeration', () => {
  itForSome(shapes, (shape) => !longShapes.has(shape))('%s', async (shape) => {
    const cases = suite.filter((one) => one.shape === shape)
    expect(cases.length).toBeGreaterThan(0)
    for (const { program } of cases) await compare(program)
  })

  it('on random programs', long, async () => {
    for (const program of randomPrograms(250, 2024)) await compare(program)
  })

  it('on a few random programs', async () => {
    for (const program of randomPrograms(30, 2024)) await compare(program)
  })
})

describe('bounds of the search', () => {
  const expectTwoToSuffice = async (tried: readonly LitmusCase[]): Promise<void> => {
    expect(tried.length).toBeGreaterThan(0)
    for (const { program } of tried) {
      const bounded = await search(program, 2)
      const expected = enumerate(program)
      if (!expected.weakRace) expect(bounded.outcomes, program.name).toEqual([...expected.outcomes].sort())
    }
  }
  const acrossRanks = suite.filter(({ layout }) => layout === 'ranks.system')

  it('needs no more than two preemptions for the suite', long, () =>
    // Programs with four agents are checked in two variants: the one with the most outcomes and the one with the most
    // steps.
    expectTwoToSuffice(
      acrossRanks.filter(
        ({ program, variant }) =>
          everything || program.agents.length < 4 || variant === 'relaxed' || variant === 'seqCst',
      ),
    ),
  )

  it('needs no more than two preemptions for programs of two agents', () =>
    expectTwoToSuffice(acrossRanks.filter(({ program }) => program.agents.length === 2)))

  it('leaves load buffering out, as documented', async () => {
    for (const { program } of loadBuffering) {
      const { outcomes } = await search(program, Infinity)
      expect(
        outcomes.some((outcome) => outcome.startsWith(loadBufferingExcluded)),
        program.name,
      ).toBe(false)
    }
  })
})
