/** A world that is only described (without a device) notes its launches, and rejects what it cannot do. */
import { expect, it } from 'vitest'
import { f32, kernel, tensor } from 'arke'
import { h200 } from '../../src/targets/cuda/machines.ts'
import { describedWorld } from '../../src/world/described.ts'
import { sharedOut } from '../../src/world/machine.ts'

const nothing = kernel('nothing', { x: tensor(f32, 1) }, () => undefined)

it('notes launches with the shapes of their tensors', () => {
  const { world, launches } = describedWorld(sharedOut(h200, 4))
  world.launch(nothing, { x: world.on(1).from(f32, [3], [1, 2, 3]) }, { grid: 2 })
  expect(launches).toHaveLength(1)
  expect(launches[0].args).toMatchObject({ x: { dtype: 'f32', shape: [3] } })
  expect([world.ranks, world.members]).toEqual([4, [0, 1, 2, 3]])
})

it('rejects what needs memory or launched kernels', () => {
  const { world } = describedWorld(sharedOut(h200, 2))
  const x = world.zeros(f32, [4])
  expect(() => world.group([0])).toThrow('world.group needs a machine: this world only describes one')
  expect(() => world.read(x, 0)).toThrow('world.read needs a machine')
})
