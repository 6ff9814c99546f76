/**
 * 15: rank groups. One training step of a linear layer on 2 x 2 ranks: two tensor-parallel groups, each of which holds
 * the whole layer and its own data, and two data-parallel groups, whose ranks hold the same rows of the layer.
 *
 *            tensor-parallel
 *   data 0   rank 0   rank 1
 *   data 1   rank 2   rank 3
 *
 * Each rank multiplies its columns of the input by its rows of the weights. The ranks of a tensor-parallel group add
 * their partial outputs. Each rank then computes its rows of the gradient, and the ranks of a data-parallel group add
 * their gradients. A group is used like a world: `t.rank` and `t.world` refer to the group, and a collective takes the
 * group in place of the world. Every rank is in one tensor-parallel and in one data-parallel group. No barrier
 * separates the launches, since each collective synchronises the ranks of its own group.
 *
 *   x   [K]: this rank's columns of the input of its data
 *   w   [K, N]: this rank's rows of the weights
 *   h   [N]: the output
 *   g   [K x N]: the gradient of w, where the gradient of the output is the output itself
 */
import { expectClose, f32, kernel, scenario, tensor } from 'arke'
import { allReduce } from 'arke/ops'
import { show } from './show.ts'

const [K, N] = [2, 3]

export const multiply = kernel(
  'multiply',
  { x: tensor(f32, 1), w: tensor(f32, 2), h: tensor(f32, 1) },
  (t, { x, w, h }) => {
    const sum = t.for(x.dim(0), t.zeros(f32, [N]), (k, sum) =>
      sum.add(t.load(w.pick(k).tile([0], [N])).mul(t.load(x.at([k])))),
    )
    t.store(h.tile([0], [N]), sum)
  },
)

export const outerProduct = kernel(
  'outerProduct',
  { x: tensor(f32, 1), h: tensor(f32, 1), g: tensor(f32, 1) },
  (t, { x, h, g }) =>
    t.for(x.dim(0), (k) => t.store(g.tile([k], [N]), t.load(h.tile([0], [N])).mul(t.load(x.at([k]))))),
)

const inputOf = (rank: number): number[] => Array.from({ length: K }, (_, k) => rank + k + 1)
/** The two ranks of a data-parallel group hold equal weights. */
const weightsOf = (rank: number): number[] => Array.from({ length: K * N }, (_, i) => (rank % 2) * 10 + i)
const steps = 2

export const trainingStep = scenario('a step on 2 x 2 ranks', { ranks: 4 }, async (world) => {
  const x = world.from(f32, [K], inputOf, { name: 'x' })
  const w = world.from(f32, [K, N], weightsOf, { name: 'w' })
  const [h, g] = [world.empty(f32, [N], { name: 'h' }), world.empty(f32, [K * N], { name: 'g' })]
  const sumIn = (members: readonly number[], elements: number) =>
    allReduce(world.group(members), { dtype: f32, elements, variant: 'oneShot', grid: 1 })
  const outputs = [sumIn([0, 1], N), sumIn([2, 3], N)]
  const gradients = [sumIn([0, 2], K * N), sumIn([1, 3], K * N)]
  for (let step = 0; step < steps; step++) {
    world.launch(multiply, { x, w, h }, { grid: 1 })
    for (const sum of outputs) sum.launch(h)
    world.launch(outerProduct, { x, h, g }, { grid: 1 })
    for (const sum of gradients) sum.launch(g)
  }

  const output = (data: number, n: number): number =>
    [2 * data, 2 * data + 1].reduce(
      (sum, rank) => sum + inputOf(rank).reduce((dot, x, k) => dot + x * weightsOf(rank)[k * N + n], 0),
      0,
    )
  const gradient = (part: number, k: number, n: number): number =>
    [0, 1].reduce((sum, data) => sum + inputOf(2 * data + part)[k] * output(data, n), 0)
  const lines: string[] = []
  for (const rank of world.localRanks) {
    const found = await world.read(g, rank)
    const wanted = Array.from({ length: K * N }, (_, i) => gradient(rank % 2, Math.floor(i / N), i % N))
    expectClose(found, wanted)
    lines.push(`rank ${rank} has the gradient ${found.join(' ')}`)
  }
  return lines
})

await show(import.meta.url, trainingStep)
