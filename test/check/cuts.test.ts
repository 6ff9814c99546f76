/** A search or a run that ends early says so: "complete" means that every schedule within the bound was seen. */
import { describe, expect, it } from 'vitest'
import { i32, kernel, tensor, u32 } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { formatFinding } from '../../src/targets/check/findings.ts'
import { scenario, type Scenario } from '../../src/world/world.ts'

/**
 * Rank 0 adds to a counter `turns` times and then stores; rank 1 stores if it finds the counter complete. The two stores race
 * if rank 1 runs after rank 0, which takes no preemption.
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

/** Both ranks count up together until the sum reaches the goal: a loop that has an effect in every turn. */
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

  it('is incomplete where an agent in an endless loop had to let the others move', async () => {
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

  it('is incomplete where a run had more scheduling points than it may have, and that is no finding', async () => {
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
      // Runs that are all cut show nothing new.
      expect(schedules).toBeLessThan(20)
    }
  })

  it('reports ranks that never stop changing what the other waits for', async () => {
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
