/**
 * Tests conflicts inside one operation: its lanes (elements) act concurrently, so two accesses of one element by
 * different lanes have no order.
 */
import { describe, expect, it } from 'vitest'
import { f32, i32, kernel, tensor, type Arguments, type Program } from '../../src/index.ts'
import { explore } from '../../src/targets/check/explore.ts'
import type { Finding } from '../../src/targets/check/findings.ts'
import { scenario } from '../../src/world/world.ts'

const params = { x: tensor(i32, 1), y: tensor(f32, 2) }

async function findings(body: (t: Program, args: Arguments<typeof params>) => void): Promise<Finding[]> {
  const subject = kernel('lanes', params, body)
  const found: Finding[] = []
  for (const stage of ['recorded', 'lowered'] as const) {
    const run = scenario('lanes', { ranks: 1 }, async (world) => {
      const x = world.arange(i32, [16], { name: 'x' })
      const y = world.arange(f32, [8, 8], { name: 'y' })
      world.launch(subject, { x, y }, { grid: 1 })
      await world.synchronize()
    })
    const explored = await explore(run, { ranks: 1, stage, preemptions: 0 })
    if (stage === 'recorded') found.push(...explored.findings)
    else expect(explored.findings.length).toBe(found.length)
  }
  return found
}

describe('a store', () => {
  it.each([
    ['of different values to one element', undefined],
    ['with an order', 'relaxed' as const],
  ])('%s is reported', async (_, order) => {
    const [found, ...rest] = await findings((t, { x }) =>
      t.store(x.at([t.arange(8).div(2)]), t.arange(8), order && { order }),
    )
    expect(rest).toEqual([])
    expect(found.kind).toBe('race')
    expect(found.message).toContain(
      'lanes 0 and 1 of this store write different values (0 and 1) to x[0] of rank 0',
    )
    expect(found.parties).toHaveLength(1)
  })

  it('of the same value to one element is not reported', async () => {
    expect(await findings((t, { x }) => t.store(x.at([t.arange(8).div(2)]), t.arange(8).div(2)))).toEqual([])
  })

  it('is checked only for lanes that are not masked out', async () => {
    expect(
      await findings((t, { x }) => {
        const lane = t.arange(8)
        t.store(x.at([lane.div(2)]), lane, { mask: lane.mod(2).eq(1) })
      }),
    ).toEqual([])
  })

  it('to gathered rows is reported if two indices are equal', async () => {
    const found = await findings((t, { y }) => {
      const tile = t.load(y.tile([0, 0], [4, 8]))
      t.store(y.rows(t.arange(4).div(2)).tile(0, 8), tile)
    })
    expect(found.map(({ kind }) => kind)).toEqual(['race'])
  })

  it('is not reported if atomics add to one element', async () => {
    expect(await findings((t, { x }) => void t.atomic.add(x.at([t.arange(8).div(2)]), t.arange(8)))).toEqual(
      [],
    )
  })
})

describe('a copy', () => {
  it('whose source and target overlap is reported', async () => {
    const [found, ...rest] = await findings((t, { x }) =>
      t.copy(x.slice(0, 0, 8).tile([0], [8]), x.slice(0, 1, 8).tile([0], [8])),
    )
    expect(rest).toEqual([])
    expect(found.kind).toBe('race')
    expect(found.message).toContain('the source and the target of this copy overlap: x[1] of rank 0')
  })

  it('whose source and target overlap in shared memory is reported, too', async () => {
    const found = await findings((t, { y }) => {
      const tile = t.shared(f32, [4, 4])
      t.copy(y.tile([0, 0], [4, 4]), tile)
      t.copy(tile.transpose(), tile)
    })
    expect(found.map(({ kind }) => kind)).toEqual(['race'])
  })

  it('without overlap, or of elements onto themselves, is not reported', async () => {
    expect(
      await findings((t, { x, y }) => {
        t.copy(x.tile([0], [8]), x.tile([1], [8]))
        t.copy(y.tile([0, 0], [4, 4]), y.tile([0, 1], [4, 4]))
        t.copy(x.tile([0], [8]), x.tile([0], [8]))
      }),
    ).toEqual([])
  })
})
