/**
 * Tests that the roles of a program run concurrently, synchronise at barriers, and can read scalars computed before the
 * roles started.
 */
import { expect, it } from 'vitest'
import { i32, kernel, openWorld, tensor } from '../../../../src/index.ts'
import { realTargets } from '../../differential/targets.ts'

const ringed = kernel(
  'ringed',
  { x: tensor(i32, 2), y: tensor(i32, 2), z: tensor(i32, 1) },
  (t, { x, y, z }) => {
    const ring = t.shared(i32, [2, 8])
    const [full, empty] = [t.barriers(2), t.barriers(2)]
    const base = t.program.mul(4)
    t.roles({
      produce: () =>
        t.for(4, (k) => {
          t.wait(empty.at(k.mod(2)), k.div(2).sub(1))
          t.copyAsync(x.pick(base.add(k)).tile([0], [8]), ring.pick(k.mod(2)), full.at(k.mod(2)))
          t.arrive(full.at(k.mod(2)))
        }),
      consume: () => {
        const sum = t.for(4, t.zeros(i32, [8]), (k, acc) => {
          t.wait(full.at(k.mod(2)), k.div(2))
          const next = acc.add(t.load(ring.pick(k.mod(2))).mul(2))
          t.arrive(empty.at(k.mod(2)))
          return next
        })
        t.store(y.pick(t.program).tile([0], [8]), sum)
      },
    })
    const sums = t.shared(i32, [2])
    const part = (me: number) => () => {
      const own = t.for(3, t.arange(8), (k, acc) => acc.mul(k.add(me + 1)).add(base))
      t.store(sums.at([me]), own.sum())
      t.barrier()
      if (me === 1) t.store(z.at([t.program]), t.load(sums.at([0])).sub(t.load(sums.at([1]))))
      t.barrier()
    }
    t.roles({ left: part(0), right: part(1) })
  },
)

it.each(await realTargets())(
  'on %s a role passes tiles through a ring, and all roles synchronise',
  async (target) => {
    const world = await openWorld({ target, ranks: 2, heap: 1 << 20, workers: 2, timeout: 20_000 })
    const programs = 6
    const x = world.from(i32, [4 * programs, 8], (rank) =>
      Array.from({ length: 32 * programs }, (_, i) => i + rank),
    )
    const [y, z] = [world.empty(i32, [programs, 8]), world.empty(i32, [programs])]
    for (let launch = 0; launch < 5; launch++) world.launch(ringed, { x, y, z }, { grid: programs })
    for (let rank = 0; rank < 2; rank++) {
      const sums = Array.from({ length: programs * 8 }, (_, i) => {
        const [program, column] = [Math.floor(i / 8), i % 8]
        return [0, 1, 2, 3].reduce((sum, k) => sum + 2 * ((4 * program + k) * 8 + column + rank), 0)
      })
      expect([...(await world.read(y, rank))]).toEqual(sums)
      const total = (me: number, base: number): number =>
        Array.from({ length: 8 }, (_, j) =>
          [0, 1, 2].reduce((value, k) => value * (k + me + 1) + base, j),
        ).reduce((a, b) => a + b)
      const differences = Array.from(
        { length: programs },
        (_, program) => total(0, 4 * program) - total(1, 4 * program),
      )
      expect([...(await world.read(z, rank))]).toEqual(differences)
    }
    await world.close()
  },
)
