/**
 * Tests that the search skips only interleavings that are equivalent to explored interleavings.
 */
import { describe, expect, it } from 'vitest'
import { f32, flags, kernel, tensor } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import { scenario } from '../../src/world/world.ts'

describe('the search', () => {
  it('finds a barrier whose phase completes before a waiter has returned, even without data', async () => {
    // In this kernel, the second arrival may come before the worker has observed the first phase. The worker then waits
    // for a phase that is already over.
    const overtaken = kernel('overtaken', { go: flags(0) }, (t, { go }) => {
      const full = t.barriers(1)
      t.if(
        t.rank.eq(1),
        () => t.signal(go.on(0)),
        () =>
          t.roles({
            first: () => t.arrive(full.at(0)),
            second: () => {
              t.wait(go)
              t.arrive(full.at(0))
            },
            worker: () => {
              t.wait(full.at(0), 0)
              t.wait(full.at(0), 1)
            },
          }),
      )
    })
    const run = scenario('overtaken', { ranks: 2 }, async (world) => {
      const go = world.flags([], { name: 'go' })
      world.launch(overtaken, { go }, { grid: 1 })
      await world.synchronize()
    })
    const { findings } = await explore(run, { ranks: 2, preemptions: 2 })
    expect(findings.map(({ kind }) => kind)).toEqual(['phase'])
    expect(findings[0].parties.map(({ who }) => who)).toEqual([
      'rank 0, program 0, worker',
      'rank 0, program 0, second',
    ])
  })

  it('tries both orders of two strong stores that a third agent compares', async () => {
    const last = kernel('last', { cell: tensor(f32, 1), done: flags(1) }, (t, { cell, done }) => {
      t.if(
        t.rank.lt(2),
        () => {
          t.store(cell.on(2).at([0]), t.rank.add(1).to(f32), { order: 'relaxed' })
          t.signal(done.on(2).at([t.rank]))
        },
        () => t.for(2, (source) => t.wait(done.at([source]))),
      )
    })
    const run = scenario('last', { ranks: 3 }, async (world) => {
      const cell = world.zeros(f32, [1], { name: 'cell' })
      const done = world.flags([2], { name: 'done' })
      world.launch(last, { cell, done }, { grid: 1 })
      return (await world.read(cell, 2))[0]
    })
    const { results, complete } = await explore(run, { ranks: 3, preemptions: 2 })
    expect(complete).toBe(true)
    expect(new Set(results.map(({ value }) => value))).toEqual(new Set([1, 2]))
  })
})
