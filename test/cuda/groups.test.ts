/**
 * Rank groups on the CUDA target, without a GPU: base and stride of the heaps that kernels receive, the table of heaps of
 * groups whose ranks do not ascend at a constant distance, emitted kernels that run on this CPU, and one compiled kernel
 * for groups of one size.
 */
import { describe, expect, it } from 'vitest'
import { f32 } from '../../src/lang/dtypes.ts'
import { flags, kernel, tensor } from '../../src/lang/kernel.ts'
import { Device } from '../../src/targets/cuda/runtime.ts'
import { CudaWorld } from '../../src/targets/cuda/world.ts'
import type { TensorMapShape } from '../../src/targets/cuda/tensormap.ts'
import { openWorld } from '../../src/world/open.ts'
import type { World } from '../../src/world/world.ts'
import type { EmittedKernel } from '../../src/targets/cuda/emit/recipe.ts'
import type { Kernel } from '../../src/lang/kernel.ts'
import { long } from '../long.ts'
import { compileTogether, noCompiler } from './compile.ts'
import { emit } from './emitting.ts'
import { fakeDriver } from './fakeDriver.ts'
import { openOnCpu, unavailable } from './onCpu/onCpu.ts'

/**
 * The groups are listed by size, because the emulation replaces a kernel by a kernel of the same name for another size.
 */
const fewGroups = [
  [1, 3, 5],
  [5, 0, 3, 1],
]
const moreGroups = [[2, 3], [0, 5], [4], [0, 1, 2, 3, 4, 5], [4, 2], [0, 1, 2, 3, 5], [2, 5, 4]]

/**
 * Every rank stores its rank number + 1 in its element of every rank's tensor, and then signals a flag of every rank.
 */
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

/** For each group, the contents of the tensor y on all ranks after both kernels have ended. */
async function heardOn(world: World, groups: readonly (readonly number[])[]): Promise<number[][][]> {
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
    const heard = await heardOn(openOnCpu(6), fewGroups)
    expect(heard).toEqual(await heardOn(await openWorld({ target: 'check', ranks: 6 }), fewGroups))
    // Rank 3 of the world received the values of the three members of [1, 3, 5]; rank 2, which is no member, received
    // none.
    expect(heard[0][3]).toEqual([2, 4, 6, -1, -1, -1])
    expect(heard[0][2]).toEqual([-1, -1, -1, -1, -1, -1])
    // In the group [5, 0, 3, 1], rank 3 of the world is the third member, and rank 2 is no member.
    expect(heard[1][3]).toEqual([2, 4, 6, 8, -1, -1])
    expect(heard[1][2]).toEqual([-1, -1, -1, -1, -1, -1])
  })
  it.skipIf(unavailable() !== undefined)('see their own ranks, in more groups', long, async () =>
    expect(await heardOn(openOnCpu(6), moreGroups)).toEqual(
      await heardOn(await openWorld({ target: 'check', ranks: 6 }), moreGroups),
    ),
  )

  /**
   * The tensor maps of all ranks' copies of x for launches on the groups in `lists`, and the text of each kernel that
   * was compiled.
   */
  async function launched(lists: readonly (readonly number[])[]) {
    const device = new Device(fakeDriver().driver, 0)
    const maps: { address: bigint; shape: TensorMapShape }[] = []
    device.tensorMap = (address, shape) => {
      maps.push({ address, shape })
      return new Uint8Array(128)
    }
    const texts: string[] = []
    const compile = ({ source }: EmittedKernel): Uint8Array => {
      texts.push(source)
      return new Uint8Array()
    }
    const world = new CudaWorld({ devices: [device], compile }, { ranks: 6, heap: 1 << 20 })
    const [x, y] = [world.zeros('bf16', [64, 64]), world.zeros('f32', [64, 64])]
    const at = (rank: number): bigint => world.addressOf(x, rank)
    const stride = Number(at(1) - at(0))
    for (const list of lists) world.group(list).launch(pull, { x, y }, { grid: 1 })
    const ranked = maps.filter(({ shape }) => shape.dims.length === 3)
    await world.close()
    return { ranked, texts, at, stride }
  }

  it('are maps of their own heaps', async () => {
    const { ranked, texts, at, stride } = await launched([
      [1, 3, 5],
      [0, 1, 2],
    ])
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
    expect(texts).toHaveLength(1)
    expect(texts[0]).not.toContain('heap_places')
  })

  it('of unevenly spaced or descending ranks are maps of all heaps, with a table of their places', async () => {
    const { ranked, texts, at, stride } = await launched([
      [0, 1, 3],
      [5, 4, 3],
      [1, 3, 5],
    ])
    expect(ranked).toHaveLength(9)
    for (const { address, shape } of ranked.slice(0, 6)) {
      expect(address).toBe(at(0))
      expect(shape).toMatchObject({ dims: [64, 64, 6], strides: [128, stride] })
    }
    expect(ranked[6]).toMatchObject({ address: at(1), shape: { dims: [64, 64, 3] } })
    // Both scattered groups share a kernel. The kernel finds the tile's owner in the table of heaps; the third group
    // needs no table.
    expect(texts).toHaveLength(2)
    expect(texts[0]).toMatch(/const __grid_constant__ Places<3> heap_places/)
    expect(texts[0]).toMatch(/tma_load_3d\([^;]*, heap_places\.of\[/)
    expect(texts[0]).toContain('a table has the heaps of the group')
    expect(texts[1]).not.toContain('heap_places')
  })

  it.skipIf(noCompiler !== undefined)('compile with the table', () => {
    const facts = { scattered: true, oneDevice: true }
    const emitted = [pull, tellAll].map((one) => {
      const recorded = (one as unknown as Kernel).record({ world: 5 })
      return emit(recorded, [64, 64], facts)
    })
    for (const { ptx } of compileTogether(emitted))
      expect(ptx).toMatch(/align 4 .b8 kernel_\d_param_\d+\[20\]/)
  })
})

/** Multiplies the matrix of the next rank by itself, so that the TMA copies tiles of the next rank. */
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
