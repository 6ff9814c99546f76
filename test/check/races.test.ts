/**
 * Checks random programs of writes, reads, signals and waits, whose happens-before order is known in advance. Each flag
 * of a random program is signalled once, so happens-before does not depend on the schedule. The checker must report a
 * race exactly if an independent computation of happens-before finds one, and must name two accesses that this
 * computation finds unordered. Programs without a race must give correct results.
 */
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { flags, i32, kernel, tensor } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'

type Scope = 'device' | 'system'
interface Step {
  readonly agent: number
  readonly kind: 'write' | 'read' | 'signal' | 'wait'
  /** The index of the location that the step accesses, or of the flag that it signals or awaits. */
  readonly what: number
  readonly scope: Scope
}
interface RandomProgram {
  readonly agents: readonly { readonly rank: number; readonly program: number }[]
  readonly steps: readonly Step[]
}

const locations = 3

/** Generates steps that cannot block in the generated order, because each wait comes after the signal of its flag. */
const randomProgram: fc.Arbitrary<RandomProgram> = fc
  .record({
    layout: fc.constantFrom([0, 1], [0, 0], [0, 1, 2], [0, 0, 1], [0, 1, 1, 2]),
    draws: fc.array(fc.tuple(fc.nat(7), fc.nat(9), fc.nat(9), fc.integer({ min: 0, max: 5 })), {
      minLength: 3,
      maxLength: 14,
    }),
  })
  .map(({ layout, draws }) => {
    const agents = layout.map((rank, i) => ({
      rank,
      program: layout.slice(0, i).filter((other) => other === rank).length,
    }))
    let signalled = 0
    const steps = draws.map(([who, kind, what, scope]): Step => {
      const base = { agent: who % agents.length, scope: scope === 0 ? 'device' : 'system' } as const
      if (kind < 3) return { ...base, kind: 'write', what: what % locations }
      if (kind < 5) return { ...base, kind: 'read', what: what % locations }
      if (kind < 7 || signalled === 0) return { ...base, kind: 'signal', what: signalled++ }
      return { ...base, kind: 'wait', what: what % signalled }
    })
    return { agents, steps }
  })

interface Verdict {
  readonly race: boolean
  readonly scopeRace: boolean
}

/** The transitive closure of program order and signal-to-wait edges. */
function orderOf({ agents, steps }: RandomProgram): { before: boolean[][]; scopeRace: boolean } {
  const n = steps.length
  const before = Array.from({ length: n }, () => new Array<boolean>(n).fill(false))
  const covers = (scope: Scope, a: number, b: number): boolean =>
    scope === 'system' || agents[a].rank === agents[b].rank
  let scopeRace = false
  for (let j = 0; j < n; j++) {
    for (let i = 0; i < j; i++) {
      const [a, b] = [steps[i], steps[j]]
      if (a.agent === b.agent) before[i][j] = true
      if (a.kind === 'signal' && b.kind === 'wait' && a.what === b.what && a.agent !== b.agent) {
        if (covers(a.scope, a.agent, b.agent) && covers(b.scope, b.agent, a.agent)) before[i][j] = true
      }
    }
    for (let k = j - 1; k >= 0; k--)
      if (before[k][j]) for (let i = 0; i < k; i++) if (before[i][k]) before[i][j] = true
  }
  for (let j = 0; j < n; j++)
    for (let i = 0; i < j; i++) {
      const [a, b] = [steps[i], steps[j]]
      if (
        a.kind === 'signal' &&
        b.kind === 'wait' &&
        a.what === b.what &&
        a.agent !== b.agent &&
        !before[i][j]
      )
        scopeRace = true
    }
  return { before, scopeRace }
}

function verdictOf(program: RandomProgram): Verdict {
  const { before, scopeRace } = orderOf(program)
  const { steps } = program
  const race = steps.some((a, i) =>
    steps.some(
      (b, j) =>
        i < j &&
        a.agent !== b.agent &&
        (a.kind === 'write' || b.kind === 'write') &&
        (a.kind === 'write' || a.kind === 'read') &&
        (b.kind === 'write' || b.kind === 'read') &&
        a.what === b.what &&
        !before[i][j],
    ),
  )
  return { race, scopeRace }
}

function asScenario({ agents, steps }: RandomProgram): { subject: Scenario; ranks: number } {
  const ranks = Math.max(...agents.map(({ rank }) => rank)) + 1
  const programs = Math.max(...agents.map((agent) => agent.program)) + 1
  const body = kernel(
    'random',
    { cells: tensor(i32, 1), sink: tensor(i32, 2), set: flags(1) },
    (t, { cells, sink, set }) => {
      agents.forEach(({ rank, program: number }, agent) => {
        t.if(t.rank.eq(rank).and(t.program.eq(number)), () => {
          steps.forEach((step, i) => {
            if (step.agent !== agent) return
            const { scope } = step
            if (step.kind === 'write') t.store(cells.on(0).at([step.what]), i + 1)
            else if (step.kind === 'read') t.store(sink.at([number, i]), t.load(cells.on(0).at([step.what])))
            else if (step.kind === 'signal') t.signal(set.on(0).at([step.what]), { scope })
            else t.wait(set.on(0).at([step.what]), { scope })
          })
        })
      })
    },
  )
  const subject = scenario('random', { ranks }, async (world) => {
    const cells = world.zeros(i32, [locations])
    const sink = world.empty(i32, [programs, steps.length])
    world.launch(body, { cells, sink, set: world.flags([steps.length]) }, { grid: programs })
    return [...(await world.read(cells, 0))]
  })
  return { subject, ranks }
}

async function check(program: RandomProgram): Promise<Verdict & { finals: unknown[]; others: string[] }> {
  const { subject, ranks } = asScenario(program)
  const random = await explore(subject, { ranks, schedules: 5, seed: 77, keepGoing: true })
  const all = await explore(subject, { ranks, preemptions: 0, keepGoing: true, limit: 500 })
  const findings = [...random.findings, ...all.findings]
  return {
    race: findings.some(({ kind }) => kind === 'race'),
    scopeRace: findings.some(({ kind }) => kind === 'scope-race'),
    finals: random.results.map(({ value }) => value),
    others: findings.filter(({ kind }) => kind !== 'race' && kind !== 'scope-race').map(formatFinding),
  }
}

describe('random programs of writes, reads, signals and waits', () => {
  it('race exactly if happens-before leaves two accesses unordered', async () => {
    const seen = { race: 0, scopeRace: 0, clean: 0 }
    await fc.assert(
      fc.asyncProperty(randomProgram, async (program) => {
        const expected = verdictOf(program)
        const { race, scopeRace, finals, others } = await check(program)
        expect({ race, scopeRace, others }).toEqual({ ...expected, others: [] })
        if (expected.race) seen.race++
        else if (expected.scopeRace) seen.scopeRace++
        else {
          seen.clean++
          const last = (cell: number): number =>
            program.steps.findLastIndex((step) => step.kind === 'write' && step.what === cell) + 1
          for (const final of finals)
            expect(final).toEqual(Array.from({ length: locations }, (_, cell) => last(cell)))
        }
      }),
      { numRuns: 400, seed: 20 },
    )
    // The generator must produce both programs with a race and programs without.
    expect(Math.min(seen.race, seen.scopeRace, seen.clean)).toBeGreaterThan(5)
  })

  it('have the same findings and results in a search with and without the reduction', async () => {
    await fc.assert(
      fc.asyncProperty(randomProgram, async (program) => {
        const { subject, ranks } = asScenario(program)
        const [reduced, full] = await Promise.all(
          [true, false].map((reduce) => explore(subject, { ranks, preemptions: 2, keepGoing: true, reduce })),
        )
        expect([reduced.complete, full.complete]).toEqual([true, true])
        const kinds = ({ findings }: typeof full): string[] =>
          [...new Set(findings.map(({ kind }) => kind))].sort()
        expect(kinds(reduced)).toEqual(kinds(full))
        const clean = ({ results }: typeof full): string[] =>
          [...new Set(results.filter((result) => result.clean).map(({ value }) => String(value)))].sort()
        if (full.findings.length === 0) expect(clean(reduced)).toEqual(clean(full))
        expect(reduced.schedules).toBeLessThanOrEqual(2 * full.schedules)
      }),
      { numRuns: 60, seed: 21 },
    )
  })
})
