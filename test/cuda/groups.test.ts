/**
 * Rank groups on the CUDA target, without a GPU: base and stride of the heaps that kernels receive, emitted kernels that
 * run on this CPU, one compiled kernel for groups of one size, and the groups that are refused.
 */
import { describe, expect, it } from 'vitest'
import { f32 } from '../../src/lang/dtypes.ts'
import { flags, kernel, tensor } from '../../src/lang/kernel.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import type { TensorMapShape } from '../../src/targets/cuda/tensormap.ts'
import { openWorld } from '../../src/world/open.ts'
import type { World } from '../../src/world/world.ts'
import { fakeDriver } from './fakeDriver.ts'
import { openOnCpu, unavailable } from './onCpu/onCpu.ts'

/** By size, since the emulation keeps one kernel by name: a kernel for another size replaces it. */
const groups = [[1, 3, 5], [2, 3], [0, 5], [4], [0, 1, 2, 3, 4, 5]]

/** Every rank stores its rank at its place in the tensor of every rank, and signals that. */
const tellAll = kernel('tellAll', { x: tensor(f32, 1), told: flags(1) }, (t, { x, told }) => {
  t.for(t.world, (rank) => {
    t.store(x.on(rank).at([t.rank]), t.rank.add(1).to(f32))
    t.signal(told.on(rank).at([t.rank]))
  })
})
const hearAll = kernel('hearAll', { x: tensor(f32, 1), y: tensor(f32, 1), told: flags(1) }, (t, args) => {
  const { x, y, told } = args
  t.for(t.world, (rank) => {
    t.wait(told.at([rank]))
    t.store(y.at([rank]), t.load(x.at([rank])).mul(2))
  })
})

/** The tensors y of all ranks after both kernels, for each group. */
async function heardOn(world: World): Promise<number[][][]> {
  const all: number[][][] = []
  for (const list of groups) {
    const group = world.group(list)
    const [x, y] = [world.full('f32', [6], -1), world.full('f32', [6], -1)]
    const told = group.flags([6])
    for (let round = 0; round < 2; round++) {
      group.launch(tellAll, { x, told }, { grid: 1 })
      await world.barrier()
      group.launch(hearAll, { x, y, told }, { grid: 1 })
      await world.barrier()
    }
    all.push(
      await Promise.all(Array.from({ length: 6 }, async (_, rank) => [...(await world.read(y, rank))])),
    )
  }
  await world.close()
  return all
}

describe('groups', () => {
  it.skipIf(unavailable() !== undefined)('see their own ranks in emitted kernels', async () => {
    const heard = await heardOn(openOnCpu(6))
    expect(heard).toEqual(await heardOn(await openWorld({ target: 'check', ranks: 6 })))
    // Rank 3 of the world heard the three members of [1, 3, 5], and rank 2 nobody.
    expect(heard[0][3]).toEqual([2, 4, 6, -1, -1, -1])
    expect(heard[0][2]).toEqual([-1, -1, -1, -1, -1, -1])
  })

  it('are maps of their own heaps', async () => {
    const device = new Device(fakeDriver().driver, 0)
    const maps: { address: bigint; shape: TensorMapShape }[] = []
    device.tensorMap = (address, shape) => {
      maps.push({ address, shape })
      return new Uint8Array(128)
    }
    let compiled = 0
    const compile = (): Uint8Array => {
      compiled++
      return new Uint8Array()
    }
    const world = new CudaWorld({ devices: [device], compile }, { ranks: 6, heap: 1 << 20 })
    const [x, y] = [world.zeros('bf16', [64, 64]), world.zeros('f32', [64, 64])]
    const [one, other] = [world.group([1, 3, 5]), world.group([0, 1, 2])]
    const at = (rank: number): bigint => world.addressOf(x, rank)
    const stride = Number(at(1) - at(0))
    for (const group of [one, other]) group.launch(pull, { x, y }, { grid: 1 })
    const ranked = maps.filter(({ shape }) => shape.dims.length === 3)
    expect(ranked).toHaveLength(6)
    for (const { address, shape } of ranked.slice(0, 3)) {
      expect(address).toBe(at(1))
      expect(shape).toMatchObject({ dims: [64, 64, 3], strides: [128, 2 * stride] })
    }
    for (const { address, shape } of ranked.slice(3)) {
      expect(address).toBe(at(0))
      expect(shape).toMatchObject({ dims: [64, 64, 3], strides: [128, stride] })
    }
    // Groups of one size share the compiled kernel.
    expect(compiled).toBe(1)
    await world.close()
  })

  it.each([[[0, 1, 3]], [[2, 1, 0]]])('of %j are refused', async (list) => {
    const platform = { devices: [new Device(fakeDriver().driver, 0)], compile: () => new Uint8Array() }
    const world = new CudaWorld(platform, { ranks: 4, heap: 1 << 16 })
    expect(() => world.group(list)).toThrow(
      `group [${list.join(', ')}]: on cuda the ranks of a group must ascend at a constant distance, such as [0, 2, 4]`,
    )
    await world.close()
  })
})

/** Multiplies the matrix of the next rank by itself, so that the TMA copies it. */
const pull = kernel('pull', { x: tensor('bf16', 2), y: tensor('f32', 2) }, (t, { x, y }) => {
  const [a, b] = [t.shared('bf16', [64, 64]), t.shared('bf16', [64, 64])]
  const next = x.on(t.rank.add(1).mod(t.world))
  const sum = t.pipeline([1], t.zeros('f32', [64, 64]), (_, acc) => {
    t.copy(next.tile([0, 0], [64, 64]), a)
    t.copy(next.tile([0, 0], [64, 64]), b)
    return t.dot(a, b, acc)
  })
  t.copy(sum, y.tile([0, 0], [64, 64]))
})
