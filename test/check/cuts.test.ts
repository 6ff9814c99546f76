/**
 * Tests that a search or a run that stops at a limit reports that it was cut short. "Complete" means that every
 * schedule within the bound was explored.
 */
import { describe, expect, it } from 'vitest'
import { i32, kernel, tensor, u32 } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'

/**
 * In this kernel, rank 0 adds to a counter `turns` times and then stores to an element. Rank 1 stores to the same
 * element if the counter has reached `turns`. The two stores race if rank 1 runs after rank 0, which needs no
 * preemption.
 */
function lateRace(turns: number): Scenario {
  const late = kernel('late', { count: tensor(i32, 1), cell: tensor(i32, 1) }, (t, { count, cell }) => {
    t.if(
      t.rank.eq(0),
      () => {
        t.for(turns, () => void t.atomic.add(count.on(0).at([0]), 1))
        t.store(cell.on(0).at([0]), 0)
      },
      () => {
        const seen = t.atomic.add(count.on(0).at([0]), 0)
        t.if(seen.eq(turns), () => t.store(cell.on(0).at([0]), 1))
      },
    )
  })
  return scenario('late race', { ranks: 2 }, async (world) => {
    const count = world.zeros(i32, [1], { name: 'count' })
    world.launch(late, { count, cell: world.zeros(i32, [1], { name: 'cell' }) }, { grid: 1 })
    await world.synchronize()
  })
}

describe('a rank that makes 1,000 atomic additions first', () => {
  it('does not hide a race behind them', async () => {
    for (const turns of [10, 1000]) {
      const { findings } = await explore(lateRace(turns), { ranks: 2, preemptions: 0 })
      expect(findings.map(({ kind }) => kind)).toEqual(['race'])
    }
  })
})

/**
 * In this kernel, both ranks increment one counter until it reaches the goal. Every iteration of the loop has an
 * effect.
 */
function countedTogether(goal: number): Scenario {
  const together = kernel('together', { count: tensor(i32, 1) }, (t, { count }) => {
    t.while(
      t.constant(i32, 0),
      (seen) => seen.lt(goal),
      () => t.atomic.add(count.on(0).at([0]), 1),
    )
  })
  return scenario('counted together', { ranks: 2 }, async (world) => {
    world.launch(together, { count: world.zeros(i32, [1], { name: 'count' }) }, { grid: 1 })
    await world.synchronize()
  })
}

describe('an exploration', () => {
  it('is complete when nothing was left out', async () => {
    const { findings, complete, cuts } = await explore(lateRace(0), { ranks: 2, preemptions: 0 })
    expect(findings).toHaveLength(1)
    expect([complete, cuts]).toEqual([false, []])
    const clean = await explore(countedTogether(3), { ranks: 2, preemptions: 1 })
    expect([clean.findings, clean.complete, clean.cuts]).toEqual([[], true, []])
  })

  it('is incomplete if an agent in an unbounded loop was forced to yield', async () => {
    const { findings, complete, cuts } = await explore(countedTogether(1000), {
      ranks: 2,
      preemptions: 0,
      limit: 50,
    })
    expect(findings.map(formatFinding)).toEqual([])
    expect(complete).toBe(false)
    expect(cuts).toContain('fairness')
  })

  it('is incomplete at its limit', async () => {
    const { complete, cuts } = await explore(countedTogether(20), { ranks: 2, preemptions: 2, limit: 3 })
    expect([complete, cuts]).toEqual([false, ['limit']])
  })

  it('is incomplete, without a finding, if a run exceeded its limit of scheduling points', async () => {
    const busy = kernel('busy', { count: tensor(u32, 1) }, (t, { count }) => {
      t.for(3000, () => void t.atomic.add(count.on(0).at([0]), 1))
    })
    const subject = scenario('busy', { ranks: 2 }, async (world) => {
      world.launch(busy, { count: world.zeros(u32, [1]) }, { grid: 1 })
      await world.synchronize()
    })
    for (const how of [{ preemptions: 0 }, { schedules: 1000 }]) {
      const { findings, complete, cuts, schedules } = await explore(subject, {
        ranks: 2,
        stepLimit: 2000,
        ...how,
      })
      expect(findings.map(formatFinding)).toEqual([])
      expect([complete, cuts]).toEqual([false, ['steps']])
      // If every run stops at its limit of steps, further runs show nothing new.
      expect(schedules).toBeLessThan(20)
    }
  })

  it('reports a livelock of ranks that keep changing the value that the other rank waits for', async () => {
    const swap = kernel('swap', { cell: tensor(i32, 1) }, (t, { cell }) => {
      t.while(
        t.constant(i32, 0),
        (seen) => seen.ge(0),
        () => t.atomic.xchg(cell.on(0).at([0]), t.rank),
      )
    })
    const subject = scenario('swap', { ranks: 2 }, async (world) => {
      world.launch(swap, { cell: world.zeros(i32, [1]) }, { grid: 1 })
      await world.synchronize()
    })
    const { findings } = await explore(subject, { ranks: 2, schedules: 3, stepLimit: 2000 })
    expect(findings.map(({ kind }) => kind)).toEqual(['livelock'])
  })
})
