/**
 * Regression tests for kernels that the CUDA emitter once miscompiled. The CUDA source of such a kernel runs on this
 * CPU, thread by thread, and must agree with the checker.
 */
import { describe, expect, it } from 'vitest'
import { f32 } from '../../src/lang/dtypes.ts'
import { kernel, tensor, type Kernel } from '../../src/lang/kernel.ts'
import { openWorld } from '../../src/world/open.ts'
import type { World } from '../../src/world/world.ts'
import { openOnCpu, unavailable } from './onCpu/onCpu.ts'

const why = unavailable()
if (why) console.info(`emitted kernels cannot run on this machine: ${why}`)

type Shapes = Readonly<Record<string, readonly number[]>>

/**
 * Returns the contents of all tensors after one launch. Before the launch, x counts from 1 and all other tensors are
 * -1.
 */
async function contentsOn(world: World, one: Kernel, shapes: Shapes): Promise<Record<string, number[]>> {
  const tensors = Object.entries(shapes).map(([name, shape]) => {
    const made = world.full('f32', shape, -1, { name })
    const elements = shape.reduce((product, extent) => product * extent, 1)
    if (name === 'x')
      world.write(
        made,
        0,
        Array.from({ length: elements }, (_, i) => i + 1),
      )
    return [name, made] as const
  })
  world.launch(one, Object.fromEntries(tensors) as never, { grid: 1 })
  const found: Record<string, number[]> = {}
  for (const [name, made] of tensors) found[name] = [...(await world.read(made, 0))]
  await world.close()
  return found
}

describe.skipIf(why !== undefined)('the emitted kernel agrees with the checker:', () => {
  const expectAlike = async (one: Kernel, shapes: Shapes): Promise<Record<string, number[]>> => {
    const expected = await contentsOn(await openWorld({ target: 'check', ranks: 1 }), one, shapes)
    expect(await contentsOn(openOnCpu(1), one, shapes)).toEqual(expected)
    return expected
  }

  const params = { x: tensor(f32, 2), y: tensor(f32, 2) }
  const copy = kernel('copy', params, (t, { x, y }) =>
    t.copy(x.tile([0, 0], [16, 64]), y.tile([0, 0], [16, 64])),
  )
  it.each([
    [[10, 64], 384],
    [[16, 50], 224],
    [[0, 64], 1024],
    [[16, 64], 0],
  ] as const)('a copy from %j leaves the elements beyond the source unchanged', async (x, kept) => {
    const { y } = await expectAlike(copy, { x, y: [16, 64] })
    expect(y.filter((element) => element === -1)).toHaveLength(kept)
  })

  it('a loop does not change a value that is still used in another shape', async () => {
    const one = kernel(
      'counted',
      { x: tensor(f32, 1), y: tensor(f32, 2), z: tensor(f32, 1) },
      (t, { x, y, z }) => {
        const loaded = t.load(x.tile([0], [16]))
        const column = loaded.expand(1)
        const counted = t.for(3, loaded, (_, sum) => sum.add(1))
        t.store(z.tile([0], [16]), counted)
        t.store(y.tile([0, 0], [16, 4]), column.broadcast([16, 4]))
      },
    )
    const { y, z } = await expectAlike(one, { x: [16], y: [16, 4], z: [16] })
    expect([y[4], z[1]]).toEqual([2, 5])
  })

  it('a mask computed from indices applies to the stored indices', async () => {
    const one = kernel(
      'masked',
      { x: tensor(f32, 1), y: tensor(f32, 2), z: tensor(f32, 2) },
      (t, { x, y, z }) => {
        const few = t.arange(4).lt(1)
        const chosen = few.select(t.load(x.tile([0], [4])), 9)
        t.store(z.tile([0, 0], [4, 2]), chosen.expand(1).broadcast([4, 2]))
        t.store(y.tile([0, 0], [1, 4]), t.full(f32, [1, 4], 5), { mask: few.expand(0) })
      },
    )
    const { y, z } = await expectAlike(one, { x: [4], y: [1, 4], z: [4, 2] })
    expect(y).toEqual([5, -1, -1, -1])
    expect(z).toEqual([1, 1, 9, 9, 9, 9, 9, 9])
  })
})
