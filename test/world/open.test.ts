/** Tests that `openWorld` opens a world by the name of its target, and throws findings of the checker. */
import { f32, FindingsError, flags, kernel, openWorld, scenario, tensor, WorldError } from 'arke'
import { describe, expect, it } from 'vitest'

const racing = kernel('racing', { x: tensor(f32, 1) }, (t, { x }) => {
  t.store(x.on(0).at([0]), 1)
})
const stuck = kernel('stuck', { ready: flags() }, (t, { ready }) => {
  t.wait(ready)
})
const fine = kernel('fine', { x: tensor(f32, 1) }, (t, { x }) => {
  t.store(x.at([0]), t.rank.to(f32))
})

describe('openWorld', () => {
  it('opens the checker by default', async () => {
    const world = await openWorld({ ranks: 3 })
    expect([world.target, world.ranks]).toEqual(['check', 3])
    const x = world.empty(f32, [1])
    world.launch(fine, { x }, { grid: 1 })
    expect([...(await world.read(x, 2))]).toEqual([2])
    await world.close()
  })

  it('lists the targets', async () => {
    await expect(openWorld({ ranks: 2, target: 'tpu' })).rejects.toThrow(
      'there is no target "tpu"; choose one of check, wasm, native, cuda',
    )
    await expect(openWorld({ ranks: 2, target: 'toString' })).rejects.toThrow(WorldError)
  })

  it.each([0, 65, 1.5, NaN])('rejects a world of %s ranks', async (ranks) => {
    await expect(openWorld({ ranks })).rejects.toThrow('it must have 1 to 64')
  })
})

describe.each([0, -1, 1.5, NaN])('a residency of %s programs', (residency) => {
  const message = `a residency of ${residency} programs: it must be a whole number, 1 or more`
  it('is rejected by openWorld', async () => {
    await expect(openWorld({ ranks: 1, residency })).rejects.toThrow(message)
  })
  it('is rejected by scenario at its line', () => {
    const make = () => scenario('small', { residency }, () => Promise.resolve())
    expect(make).toThrow(message)
    expect(make).toThrow(/^test\/world\/open\.test\.ts:\d+:\d+: /)
  })
})

describe('a scenario', () => {
  it.each([0, -1, 1.5, 65])('of %s ranks is rejected at its line', (ranks) => {
    const make = () => scenario('odd', { ranks: [2, ranks] }, () => Promise.resolve())
    expect(make).toThrow(`a world of ${ranks} ranks: it must have 1 to 64`)
    expect(make).toThrow(/^test\/world\/open\.test\.ts:\d+:\d+: /)
  })
  it('needs a number of ranks', () => {
    expect(() => scenario('none', { ranks: [] }, () => Promise.resolve())).toThrow(
      'the scenario none has an empty list of world sizes: give at least one number of ranks',
    )
  })
})

describe('a finding of the checker', () => {
  it('is thrown by close', async () => {
    const world = await openWorld({ ranks: 2 })
    world.launch(racing, { x: world.empty(f32, [1], { name: 'x' }) }, { grid: 1 })
    const error: unknown = await world.close().catch((thrown: unknown) => thrown)
    expect(error).toBeInstanceOf(FindingsError)
    expect((error as FindingsError).findings.map(({ kind }) => kind)).toEqual(['race'])
    expect((error as FindingsError).message).toMatch(
      /race in racing: two accesses of x\[0\] of rank 0[^]*open\.test\.ts:6:5 {2}rank 0, program 0 writes/,
    )
  })

  it('is thrown before results are returned, and again by close', async () => {
    const world = await openWorld({ ranks: 2 })
    const x = world.empty(f32, [1], { name: 'x' })
    world.launch(racing, { x }, { grid: 1 })
    await expect(world.read(x, 0)).rejects.toThrow('race in racing')
    await expect(world.close()).rejects.toThrow('race in racing')
  })

  it('may end the run: a deadlock, or a grid that does not fit', async () => {
    const deadlock = await openWorld({ ranks: 1 })
    deadlock.launch(stuck, { ready: deadlock.flags() }, { grid: 1 })
    await expect(deadlock.synchronize()).rejects.toThrow(/deadlock in stuck[^]*open\.test\.ts:9:5/)
    await expect(deadlock.close()).rejects.toThrow(/deadlock in stuck/)
    const small = await openWorld({ ranks: 1, residency: 2 })
    expect(() => small.launch(stuck, { ready: small.flags() }, { grid: 3 })).toThrow(/residency in stuck/)
  })
})

describe('the seed', () => {
  it('chooses the schedule', async () => {
    const draw = kernel('draw', { place: tensor(f32, 1) }, (t, { place }) => {
      t.atomic.xchg(place.on(0).at([0]), t.rank.to(f32))
    })
    const outcome = async (seed: number): Promise<number> => {
      const world = await openWorld({ ranks: 4, seed })
      const place = world.zeros(f32, [1])
      world.launch(draw, { place }, { grid: 1 })
      const [left] = await world.read(place, 0)
      return left
    }
    const outcomes = await Promise.all(Array.from({ length: 20 }, (_, seed) => outcome(seed)))
    expect(new Set(outcomes).size).toBeGreaterThan(1)
    expect(await Promise.all(Array.from({ length: 20 }, (_, seed) => outcome(seed)))).toEqual(outcomes)
  })
})
