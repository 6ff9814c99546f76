/**
 * Runs an operation many times in a row, with no host wait and no reset in between, while ranks are delayed at random.
 * Between two executions each rank's own kernels change the sign of an input and add the result to a total. The weight of
 * a result depends on the execution, so one stale tile in any execution is detected at the end.
 */
import { expect } from 'vitest'
import {
  f32,
  kernel,
  scalar,
  tensor,
  type Program,
  type Ref,
  type SymmetricTensor,
  type Tensor,
  type World,
} from '../../src/index.ts'
import type { Operation } from '../../src/operation/definition.ts'
import { randomNumbers } from '../targets/differential/choices.ts'
import { holdUp } from './holdUp.ts'

/** Kernels that modify a rank's copy of a tensor, row by row. */
export interface OwnKernels {
  negate(world: World, x: SymmetricTensor): void
  add(world: World, x: SymmetricTensor, total: SymmetricTensor, weight: number): void
}
type Row<R extends 2 | 4> = (x: Tensor<'f32', R>) => Ref<'f32', 1>

function ownKernels<R extends 2 | 4>(
  rank: R,
  forEachRow: (t: Program, x: Tensor<'f32', R>, body: (row: Row<R>) => void) => void,
): OwnKernels {
  const negate = kernel('negate', { x: tensor(f32, rank) }, (t, { x }) =>
    forEachRow(t, x, (row) => t.store(row(x), t.load(row(x)).mul(-1))),
  )
  const params = { x: tensor(f32, rank), total: tensor(f32, rank), weight: scalar(f32) }
  const add = kernel('add', params, (t, { x, total, weight }) =>
    forEachRow(t, x, (row) => t.store(row(total), t.load(row(total)).add(t.load(row(x)).mul(weight)))),
  )
  return {
    negate: (world, x) => world.launch(negate, { x: x as SymmetricTensor<'f32'> }, { grid: 1 }),
    add: (world, x, total, weight) => {
      const args = { x: x as SymmetricTensor<'f32'>, total: total as SymmetricTensor<'f32'>, weight }
      world.launch(add, args, { grid: 1 })
    },
  }
}
const widest = 64
export const ofMatrices = ownKernels(2, (t, x, body) =>
  t.for(x.dim(0), (i) => body((y) => y.pick(i).tile([0], [widest]))),
)
export const ofHeads = ownKernels(4, (t, x, body) =>
  t.for(x.dim(0), (b) =>
    t.for(x.dim(1), (h) =>
      t.for(x.dim(2), (i) => body((y) => y.pick(b).pick(h).pick(i).tile([0], [widest]))),
    ),
  ),
)

export async function endure<C>(
  world: World,
  operation: Operation<C>,
  { negate, add }: OwnKernels,
  factor: SymmetricTensor,
  result: SymmetricTensor,
  launches = 1000,
): Promise<void> {
  const next = randomNumbers(world.ranks)
  const contents = operation.random(3)
  operation.fill(contents)
  const place = world.zeros(f32, [1])
  const total = world.zeros(f32, result.shape)
  let sum = 0
  for (let n = 0; n < launches; n++) {
    for (let rank = 0; rank < world.ranks; rank++)
      if (next() < 0.3)
        world.launch(holdUp, { place, turns: Math.floor(next() ** 4 * 40_000) }, { grid: 1, ranks: [rank] })
    const weight = 1 + (n % 7)
    negate(world, factor)
    operation.launch()
    add(world, result, total, weight)
    sum += n % 2 === 0 ? -weight : weight
  }
  for (let rank = 0; rank < world.ranks; rank++) {
    const expected = operation.reference(contents, rank)
    // Padding at the end of a result is not compared.
    const actual = (await world.read(total, rank)).slice(0, expected.length)
    // A stale tile causes an error of twice its weight. The rounding errors of a thousand sums are much smaller.
    const largest = expected.reduce((most, x) => Math.max(most, Math.abs(x)), 0)
    const off = actual.reduce((most, x, i) => Math.max(most, Math.abs(x - sum * expected[i])), 0)
    expect(off, `rank ${rank} of ${world.ranks}`).toBeLessThan(largest * 0.02)
  }
}
