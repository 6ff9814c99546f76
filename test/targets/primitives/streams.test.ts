/** Tests that events order launches of the default stream and of other streams, on every target. */
import { describe, expect, it } from 'vitest'
import { i32, kernel, scalar, tensor } from '../../../src/index.ts'
import { onWorld, targets } from './harness.ts'

/** Counts for a while, and then sets x to a number that the next launch doubles. */
const set = kernel('set', { x: tensor(i32, 1), value: scalar(i32) }, (t, { x, value }) => {
  const turns = t.for(1000, t.constant(i32, 0), (i, sum) =>
    sum.add(
      t
        .load(x.at([1]))
        .add(i)
        .mod(2),
    ),
  )
  t.store(x.at([0]), value.add(turns).sub(turns))
})
const double = kernel('double', { x: tensor(i32, 1) }, (t, { x }) =>
  t.store(x.at([0]), t.load(x.at([0])).mul(2)),
)

describe.each(targets)('the default stream on %s', (target) => {
  it.each(['default', 'other'] as const)(
    'orders launches by events: the %s stream goes first',
    async (first) => {
      await onWorld(target, 2, async (world) => {
        const x = world.zeros(i32, [2])
        const other = world.stream()
        const [one, two] = first === 'default' ? [world.defaultStream, other] : [other, world.defaultStream]
        // On the default stream, a launch names no stream.
        const on = (stream: typeof one) => (stream === world.defaultStream ? {} : { stream })
        for (let value = 1; value <= 10; value++) {
          world.launch(set, { x, value }, { grid: 1, ...on(one) })
          two.wait(one.record())
          world.launch(double, { x }, { grid: 1, ...on(two) })
          one.wait(two.record())
        }
        await one.synchronize()
        for (const rank of [0, 1]) expect((await world.read(x, rank))[0]).toBe(20)
      })
    },
  )
})
