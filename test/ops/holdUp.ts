/** A kernel that keeps a rank busy for a number of loop iterations. */
import { f32, i32, kernel, scalar, tensor } from '../../src/index.ts'

export const holdUp = kernel(
  'holdUp',
  { place: tensor(f32, 1), turns: scalar(i32) },
  (t, { place, turns }) => {
    t.store(
      place.at([0]),
      t.for(turns, t.constant(f32, 1), (_, x) => x.mul(0.5).add(0.5)),
    )
  },
)
