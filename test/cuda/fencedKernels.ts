/**
 * Kernels, with scenarios, in which engines of a GPU (such as the TMA) access data that threads wrote before a barrier.
 */
import { bf16, expectClose, f32, kernel, scenario, tensor, type Scenario } from '../../src/index.ts'

const side = 64
const shape = [side, side] as const
const params = { a: tensor(bf16, 2), c: tensor(f32, 2) }

const afterBarrier = kernel('afterBarrier', params, (t, { a, c }) => {
  const tile = t.shared(bf16, shape)
  t.store(tile, t.load(a.tile([0, 0], shape)))
  t.barrier()
  t.store(c.tile([0, 0], shape), t.dot(tile, tile.transpose(), t.zeros(f32, shape)))
})

/** The barrier between the store of the tile and the product separates accesses of another tile. */
const afterOther = kernel('afterOther', params, (t, { a, c }) => {
  const [tile, other] = [t.shared(bf16, shape), t.shared(f32, [side])]
  t.store(tile, t.load(a.tile([0, 0], shape)))
  t.store(other, t.arange(side).to(f32))
  const turned = t.load(
    other.at([
      t
        .arange(side)
        .neg()
        .add(side - 1),
    ]),
  )
  const product = t.dot(tile, tile.transpose(), t.zeros(f32, shape))
  t.store(c.tile([0, 0], shape), product.add(turned.expand(0)))
})

const byRole = (meets: boolean) =>
  kernel(meets ? 'meetingRoles' : 'arrivingRole', params, (t, { a, c }) => {
    const [tile, other] = [t.shared(bf16, shape), t.shared(f32, [side])]
    const full = t.barriers(1)
    t.roles({
      fill: {
        warps: 4,
        body() {
          t.store(tile, t.load(a.tile([0, 0], shape)))
          t.store(other, t.arange(side).to(f32))
          t.store(
            c.pick(side).tile([0], [side]),
            t.load(
              other.at([
                t
                  .arange(side)
                  .neg()
                  .add(side - 1),
              ]),
            ),
          )
          if (meets) t.barrier()
          else t.arrive(full.at(0))
        },
      },
      multiply: {
        warps: 4,
        body() {
          if (meets) t.barrier()
          else t.wait(full.at(0), 0)
          t.store(c.tile([0, 0], shape), t.dot(tile, tile.transpose(), t.zeros(f32, shape)))
        },
      },
    })
  })

const beforeRoles = kernel('beforeRoles', params, (t, { a, c }) => {
  const tile = t.shared(bf16, shape)
  t.store(tile, t.load(a.tile([0, 0], shape)))
  t.roles({
    multiply: {
      warps: 4,
      body: () => t.store(c.tile([0, 0], shape), t.dot(tile, tile.transpose(), t.zeros(f32, shape))),
    },
    other: { warps: 4, body: () => t.store(c.at([side, 0]), 1) },
  })
})

/** TMA stores a fragment over elements that threads have written. */
const overElements = kernel('overElements', params, (t, { a, c }) => {
  const tile = t.shared(bf16, shape)
  t.store(c.at([3, 5]), 7)
  t.copy(a.tile([0, 0], shape), tile)
  t.barrier()
  t.store(c.tile([0, 0], shape), t.dot(tile, tile.transpose(), t.zeros(f32, shape)))
})

const subject = (one: typeof afterBarrier): Scenario =>
  scenario(one.name, { ranks: 1 }, async (world) => {
    const values = Array.from({ length: side * side }, (_, i) => ((i * 7) % 5) - 2)
    const a = world.from(bf16, shape, values, { name: 'a' })
    const c = world.zeros(f32, [side + 1, side], { name: 'c' })
    world.launch(one, { a, c }, { grid: 1 })
    const added = one === afterOther ? (column: number): number => side - 1 - column : (): number => 0
    const products = Array.from({ length: side * side }, (_, at) => {
      const [i, j] = [Math.floor(at / side), at % side]
      let sum = added(j)
      for (let k = 0; k < side; k++) sum += values[i * side + k] * values[j * side + k]
      return sum
    })
    expectClose((await world.read(c, 0)).subarray(0, side * side), products)
  })

export const fencedScenarios = [
  afterBarrier,
  afterOther,
  byRole(false),
  byRole(true),
  beforeRoles,
  overElements,
].map(subject)
